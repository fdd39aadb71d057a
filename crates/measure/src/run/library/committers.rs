//! Committing threads of one log.

use crate::run::recorder::Limit;
use crate::run::workers::{Step, Work, first_number, stamp, together};
use crate::{MeasureError, Recorder};
use logforce::{Log, Lsn};
use std::time::Instant;

/// One timed part.
pub struct Job<'a> {
    /// The log.
    pub log: &'a Log,
    /// Record to commit. Its first bytes are different in each commit.
    pub record: &'a [u8],
    /// Number of committing threads.
    pub threads: u32,
    /// Position at which the commits stop: the first record that ends here or later is the last.
    pub until: Lsn,
}

/// Record of one thread, its number, and the end of the last one that was committed.
pub struct Worker {
    record: Vec<u8>,
    number: u64,
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
        let mut record = self.record.to_vec();
        let mut end = self.log.tail_lsn();
        let mut number = recorder.commits();
        recorder.timed(|laps| {
            while end < self.until && laps.more(limit) {
                stamp(&mut record, number);
                end = self.log.commit(&record)?.end;
                laps.commit();
                number += 1;
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

    fn worker(&self, thread: u32) -> Result<Worker, MeasureError> {
        Ok(Worker {
            record: self.record.to_vec(),
            number: first_number(thread),
            end: Lsn::ORIGIN,
        })
    }

    fn step(&self, worker: &mut Worker, began: Instant) -> Result<Step, MeasureError> {
        stamp(&mut worker.record, worker.number);
        worker.number += 1;
        worker.end = self.log.commit(&worker.record)?.end;
        let more = worker.end < self.until;
        Ok(Step { began, more })
    }
}
