//! Committing threads of one log.

use crate::run::generator::Generator;
use crate::run::recorder::Limit;
use crate::run::workers::{Step, Work, together};
use crate::{MeasureError, Recorder};
use logforce::{Log, Lsn};
use std::time::Instant;

/// One timed part.
pub struct Job<'a> {
    /// The log.
    pub log: &'a Log,
    /// Number of bytes of a record. Each commit has other bytes.
    pub record: usize,
    /// Number of committing threads.
    pub threads: u32,
    /// Position at which the commits stop: the first record that ends here or later is the last.
    pub until: Lsn,
}

/// Record of one thread, and the end of the last one that was committed.
pub struct Worker {
    record: Vec<u8>,
    generator: Generator,
    end: Lsn,
}

impl Job<'_> {
    /// Commits until the limit or `until` is reached. Returns the end of the last record.
    pub fn run(&self, limit: &Limit, recorder: &mut Recorder) -> Result<Lsn, MeasureError> {
        if self.threads == 1 {
            self.alone(limit, recorder)
        } else {
            self.together(limit, recorder)
        }
    }

    fn alone(&self, limit: &Limit, recorder: &mut Recorder) -> Result<Lsn, MeasureError> {
        let mut record = vec![0; self.record];
        let mut generator = Generator::fresh();
        let mut end = self.log.tail_lsn();
        recorder.timed(|laps| {
            while end < self.until && laps.more(limit) {
                laps.untimed(|| generator.fill(&mut record));
                end = self.log.commit(&record)?.end;
                laps.commit();
            }
            Ok(())
        })?;
        Ok(end)
    }

    /// Commits like [`Job::run`], but starts new threads even for a single committer.
    pub fn together(&self, limit: &Limit, recorder: &mut Recorder) -> Result<Lsn, MeasureError> {
        let workers = together(self, self.threads, limit, recorder)?;
        let front = self.log.front_lsn();
        Ok(workers.iter().map(|h| h.end).fold(front, Lsn::max))
    }
}

impl Work for Job<'_> {
    type Worker = Worker;

    fn worker(&self, _: u32) -> Result<Worker, MeasureError> {
        Ok(Worker {
            record: vec![0; self.record],
            generator: Generator::fresh(),
            end: Lsn::ORIGIN,
        })
    }

    fn step(&self, worker: &mut Worker, _: Instant) -> Result<Step, MeasureError> {
        worker.generator.fill(&mut worker.record);
        let began = Instant::now();
        worker.end = self.log.commit(&worker.record)?.end;
        let more = worker.end < self.until;
        Ok(Step { began, more })
    }
}
