//! Few threads that keep many commits in flight. With handles, each thread waits for its oldest commit;
//! with callbacks, for the next completion. All completions are counted. After each slice the log is
//! reopened and its records are counted too.

use super::records::{first_number, record, stamp};
use super::report::{GroupRow, Subject};
use super::{Bench, Part, Results};
use crate::target::{Bound, Target};
use logforce::{Acknowledged, CommitHandle, Log, Lsn, Policy};
use logforce_measure::MeasureError;
use logforce_measure::group::{MeasuredSlice, Series};
use logforce_measure::library::{LONGEST_SEGMENT, SharedLog};
use logforce_measure::workers::{Step, Work, together};
use logforce_terminal::numbers::{bytes, count};
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// Size of a record, bytes.
const RECORD: u64 = 128;
/// Target for two threads with 1,024 records in flight, durable commits per second.
const TARGET: f64 = 500_000.0;

/// Measures handles and callbacks in turns.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> Result<(), MeasureError> {
    let options = bench.options;
    let mut log = bench.slices.log("log-submit", LONGEST_SEGMENT);
    let (mut handles, mut callbacks) = (Series::default(), Series::default());
    let mut found = [0, 0];
    let doing = format!("submitting from {}", count(options.submitters, "thread"));
    let result = bench.each_pair(&doing, |nth| {
        let mut taken = [None, None];
        for turn in 0..2 {
            let which = (nth as usize + turn) % 2;
            taken[which] = Some(match which {
                0 => slice::<ByHandle>(bench, &mut log)?,
                _ => slice::<ByCallback>(bench, &mut log)?,
            });
        }
        for (which, series) in [&mut handles, &mut callbacks].into_iter().enumerate() {
            if let Some((taken, records)) = &taken[which] {
                series.push(taken);
                found[which] += records;
            }
        }
        Ok(())
    });
    if !handles.points.is_empty() {
        let row = |subject, series, found| GroupRow {
            reopened_records: Some(found),
            ..GroupRow::measured(Part::Submit, subject, series).of(
                options.submitters,
                options.outstanding,
                RECORD,
            )
        };
        results.rows.push(row(Subject::Handles, &handles, found[0]));
        results
            .rows
            .push(row(Subject::Callbacks, &callbacks, found[1]));
        let what = format!(
            "CommitHandle from {}, {} of {} in flight in all: durable commits/s, completions and records counted",
            options.submitters,
            options.outstanding,
            bytes(RECORD)
        );
        let rate = handles.spread(|p| p.rate);
        let pairs = handles.points.len();
        let name = format!("submit-{}x{}", options.submitters, options.outstanding);
        let target = Target::of(name, what, rate, "commits/s", pairs);
        let aimed_at = (options.submitters, options.outstanding) == (2, 1024);
        results.targets.push(if aimed_at {
            target.aim(Bound::AtLeast, TARGET)
        } else {
            target
        });
    }
    result?;
    let path = log.path().to_owned();
    drop(log);
    logforce_measure::workplace::remove(&path)
}

/// Ways by which a completion reaches the thread that submitted.
trait Way: Send + Sized {
    fn new() -> Self;
    /// Submits a record.
    fn submit(&mut self, log: &Log, record: &[u8], now: Instant) -> Result<(), MeasureError>;
    /// Waits for a completion. Returns the time of its submission.
    fn complete(&mut self) -> Result<(Instant, Acknowledged), MeasureError>;
}

/// One handle per record; the thread waits for the oldest.
struct ByHandle(VecDeque<(Instant, CommitHandle)>);

impl Way for ByHandle {
    fn new() -> Self {
        ByHandle(VecDeque::new())
    }

    fn submit(&mut self, log: &Log, record: &[u8], now: Instant) -> Result<(), MeasureError> {
        self.0.push_back((now, log.submit(record, Policy::Force)?));
        Ok(())
    }

    fn complete(&mut self) -> Result<(Instant, Acknowledged), MeasureError> {
        let Some((began, submitted)) = self.0.pop_front() else {
            return Err(MeasureError::NotOffered("a handle was lost".to_owned()));
        };
        Ok((began, submitted.wait()?))
    }
}

type Completion = (Instant, logforce::Result<Acknowledged>);

/// The log calls back, and a channel carries the result to the thread that submitted.
struct ByCallback {
    sender: Sender<Completion>,
    receiver: Receiver<Completion>,
}

impl Way for ByCallback {
    fn new() -> Self {
        let (sender, receiver) = channel();
        ByCallback { sender, receiver }
    }

    fn submit(&mut self, log: &Log, record: &[u8], now: Instant) -> Result<(), MeasureError> {
        let sender = self.sender.clone();
        // If the thread has given up, the receiver is gone and the result is dropped.
        let done = move |result| drop(sender.send((now, result)));
        log.submit_then(record, Policy::Force, done)?;
        Ok(())
    }

    fn complete(&mut self) -> Result<(Instant, Acknowledged), MeasureError> {
        match self.receiver.recv() {
            Ok((began, result)) => Ok((began, result?)),
            Err(_) => Err(MeasureError::NotOffered("a callback was lost".to_owned())),
        }
    }
}

struct SubmitWork<'a, W> {
    log: &'a Log,
    record: &'a [u8],
    /// Records in flight, all threads together, and the number of threads.
    outstanding: u32,
    threads: u32,
    /// Submitting stops when a record ends at or above this LSN.
    until: Lsn,
    way: std::marker::PhantomData<fn() -> W>,
}

struct Worker<W> {
    thread: u32,
    record: Vec<u8>,
    /// Number of submitted records, and of completed ones.
    submitted: u64,
    done: u64,
    share: u64,
    end: Lsn,
    way: W,
}

impl<W: Way> SubmitWork<'_, W> {
    fn complete(&self, worker: &mut Worker<W>) -> Result<Step, MeasureError> {
        let (began, committed) = worker.way.complete()?;
        worker.done += 1;
        worker.end = worker.end.max(committed.end);
        let more = committed.end < self.until;
        Ok(Step { began, more })
    }
}

impl<W: Way> Work for SubmitWork<'_, W> {
    type Worker = Worker<W>;

    fn worker(&self, thread: u32) -> Result<Worker<W>, MeasureError> {
        // The first threads take the remainder.
        let share =
            self.outstanding / self.threads + u32::from(thread < self.outstanding % self.threads);
        Ok(Worker {
            thread,
            record: self.record.to_vec(),
            submitted: 0,
            done: 0,
            share: u64::from(share.max(1)),
            end: Lsn::ORIGIN,
            way: W::new(),
        })
    }

    fn step(&self, worker: &mut Worker<W>, now: Instant) -> Result<Step, MeasureError> {
        while worker.submitted - worker.done < worker.share {
            stamp(
                &mut worker.record,
                first_number(worker.thread) + worker.submitted,
            );
            worker.way.submit(self.log, &worker.record, now)?;
            worker.submitted += 1;
        }
        self.complete(worker)
    }

    fn finish(&self, worker: &mut Worker<W>) -> Result<Option<Step>, MeasureError> {
        if worker.submitted == worker.done {
            return Ok(None);
        }
        self.complete(worker).map(Some)
    }
}

/// Measures one slice. Also returns the number of records in the reopened log.
fn slice<W: Way>(
    bench: &Bench<'_>,
    shared: &mut SharedLog,
) -> Result<(MeasuredSlice, u64), MeasureError> {
    let record = record(RECORD);
    let mut found = 0;
    let taken = bench.slices.slice(|limit, recorder, counts| {
        let log = shared.ready()?;
        let work = SubmitWork::<W> {
            log: &log,
            record: &record,
            outstanding: bench.options.outstanding,
            threads: bench.options.submitters,
            until: log.tail_lsn().plus(LONGEST_SEGMENT),
            way: std::marker::PhantomData,
        };
        let threads = bench.options.submitters;
        let workers = bench
            .slices
            .counted(counts, || together(&work, threads, limit, recorder))?;
        let end = workers.iter().map(|h| h.end).max();
        let done: HashMap<u32, u64> = workers.iter().map(|h| (h.thread, h.done)).collect();
        drop((workers, log));
        found += recount(&shared.reopen()?, &done)?;
        if let Some(end) = end.filter(|&e| e > Lsn::ORIGIN) {
            shared.used_to(end);
        }
        Ok(())
    })?;
    if found != taken.commits() {
        return Err(MeasureError::NotOffered(format!(
            "{} completions were counted, but the reopened log has {}",
            taken.commits(),
            count(found, "record")
        )));
    }
    shared.ready()?;
    Ok((taken, found))
}

/// Counts the records of the log. Fails unless each thread's records are there, in order, and no others.
fn recount(log: &Log, done: &HashMap<u32, u64>) -> Result<u64, MeasureError> {
    let mut next: HashMap<u32, u64> = HashMap::new();
    let mut count = 0;
    for record in log.read_from(log.front_lsn())? {
        let record = record?;
        let number = record
            .data
            .first_chunk()
            .map_or(0, |n| u64::from_le_bytes(*n));
        let thread = (number / first_number(1)) as u32;
        let expected = next.entry(thread).or_default();
        if number != first_number(thread) + *expected {
            return Err(MeasureError::NotOffered(format!(
                "record {number} at {} is not the next one that thread {thread} submitted",
                record.start
            )));
        }
        *expected += 1;
        count += 1;
    }
    for (thread, done) in done {
        let there = next.get(thread).copied().unwrap_or(0);
        if there != *done {
            return Err(MeasureError::NotOffered(format!(
                "thread {thread} had {done} completions, but the reopened log has {} of this thread",
                logforce_terminal::numbers::count(there, "record")
            )));
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_missing_or_twice_is_found() {
        let target = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(target.parent().unwrap()).unwrap();
        let options = logforce::Options::new()
            .require(logforce::Guarantee::ProcessCrash)
            .segment_size(64 << 10);
        let log = logforce::create_new(dir.path().join("log"), options).unwrap();
        for (thread, n) in [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)] {
            let mut record = [0; 20];
            stamp(&mut record, first_number(thread) + n);
            log.commit(&record).unwrap();
        }
        let counted = |a, b| recount(&log, &[(0, a), (1, b)].into());
        assert_eq!(counted(2, 3).unwrap(), 5);
        for (a, b) in [(3, 3), (2, 2), (1, 3)] {
            let error = counted(a, b).unwrap_err().to_string();
            assert!(error.contains("but the reopened log has"), "{error}");
        }
        let mut record = [0; 20];
        stamp(&mut record, first_number(1) + 2);
        log.commit(&record).unwrap();
        let error = counted(2, 4).unwrap_err().to_string();
        assert!(
            error.contains("is not the next one that thread 1"),
            "{error}"
        );
    }
}
