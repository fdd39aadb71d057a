//! The threads that append.

use super::{Identity, Work, rank};
use crate::ledger::{Entry, Kind, LedgerWriter};
use logforce::{Acknowledged, Batch, CommitHandle, Guarantee, Policy};
use logforce_testkit::Rng;
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

/// Submissions that a thread has under way.
const WINDOW: usize = 12;

struct Writer<'a> {
    work: &'a Work<'a>,
    number: usize,
    ledger: LedgerWriter,
    rng: Rng,
    next: u64,
}

impl<'a> Writer<'a> {
    fn new(work: &'a Work<'a>, number: usize, ledger: LedgerWriter) -> Self {
        Writer {
            work,
            number,
            ledger,
            rng: Rng::new(work.job.seed ^ (number as u64 + 1) << 48),
            next: 0,
        }
    }

    fn len(&mut self) -> usize {
        let (least, most) = match self.rng.below(100) {
            0..60 => (60, 500),
            60..85 => (500, 4 << 10),
            85..97 => (4 << 10, 20 << 10),
            _ => (20 << 10, 90 << 10),
        };
        (least + self.rng.below(most - least)) as usize
    }

    /// The next record, or the next few that belong together.
    fn records(&mut self, count: u64) -> Vec<Vec<u8>> {
        let first = self.next;
        self.next += count;
        (first..first + count)
            .map(|sequence| {
                let len = self.len();
                let identity = Identity {
                    session: self.work.job.session,
                    thread: self.number as u64,
                    sequence,
                    first,
                    count,
                };
                identity.record(len)
            })
            .collect()
    }

    fn policy(&mut self) -> Policy {
        let within = Duration::from_millis(1 + self.rng.below(20));
        match self.rng.below(10) {
            // In some sessions nobody relies on what is only written: segments may be reserved then.
            0 if !self.work.job.seed.is_multiple_of(2) => Policy::Write {
                force_within: within,
            },
            1 => Policy::Interval { within },
            _ => Policy::Force,
        }
    }

    fn acked(&mut self, sequence: u64, done: &Acknowledged) {
        self.ledger.put(Entry {
            kind: Kind::Acked,
            sequence,
            start: done.start.0,
            end: done.end.0,
            guarantee: rank(done.guarantee),
        });
        if done.guarantee >= Guarantee::OsCrash || !self.work.job.demanding {
            self.work.count_commit();
        }
    }

    /// Where a truncation may go to: only what is durable is a boundary for the front.
    fn boundary(&self, done: &Acknowledged) {
        if done.guarantee >= self.work.log.guarantee() {
            self.work.durable(done.start.0);
        }
    }

    /// One blocking commit, of one of several kinds.
    fn step(&mut self) -> logforce::Result<()> {
        let work = self.work;
        let reading = work
            .appending
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        match self.rng.below(20) {
            0..4 => {
                let sequence = self.next;
                let record = &self.records(1)[0];
                let at = work.log.append(record)?;
                self.ledger.put(Entry {
                    sequence,
                    ..Entry::range(Kind::RecordRange, at.start.0, at.end.0)
                });
                let guarantee = work.log.force(at.end)?;
                let done = at.acknowledged(guarantee);
                self.acked(sequence, &done);
                self.boundary(&done);
            }
            4..7 => {
                let sequence = self.next;
                let count = 2 + self.rng.below(4);
                let records = self.records(count);
                let parts: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
                let mut batch = Batch::of(&parts);
                let whole = work.log.commit(&mut batch)?;
                for (i, at) in batch.ranges().iter().enumerate() {
                    let done = at.acknowledged(whole.guarantee);
                    self.acked(sequence + i as u64, &done);
                }
                self.boundary(&whole);
            }
            _ => {
                let policy = self.policy();
                let sequence = self.next;
                let record = &self.records(1)[0];
                let done = work.log.commit_with(record, policy)?;
                self.acked(sequence, &done);
                self.boundary(&done);
            }
        }
        drop(reading);
        Ok(())
    }

    fn submit(&mut self) -> logforce::Result<(u64, CommitHandle)> {
        let work = self.work;
        let _reading = work
            .appending
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let policy = self.policy();
        let sequence = self.next;
        let record = &self.records(1)[0];
        let submitted = work.log.submit(record, policy)?;
        self.ledger.put(Entry {
            sequence,
            ..Entry::range(Kind::RecordRange, submitted.start().0, submitted.end().0)
        });
        Ok((sequence, submitted))
    }
}

/// Commits one after the other, each waiting for what it asked for.
pub(super) fn blocking(work: &Work<'_>, number: usize, ledger: LedgerWriter) {
    let mut writer = Writer::new(work, number, ledger);
    while work.goes_on(&writer.ledger) {
        if let Err(e) = writer.step()
            && !work.survives(&e, &mut writer.ledger)
        {
            return;
        }
    }
}

/// Submits several, and waits for the oldest.
pub(super) fn submitting(work: &Work<'_>, number: usize, ledger: LedgerWriter) {
    let mut writer = Writer::new(work, number, ledger);
    let mut under_way: VecDeque<(u64, CommitHandle)> = VecDeque::new();
    while work.goes_on(&writer.ledger) {
        if under_way.len() < WINDOW {
            match writer.submit() {
                Ok(submitted) => under_way.push_back(submitted),
                Err(e) if work.survives(&e, &mut writer.ledger) => {}
                Err(_) => return,
            }
            if !writer.rng.one_in(4) {
                continue;
            }
        }
        let Some((sequence, submitted)) = under_way.pop_front() else {
            continue;
        };
        match submitted.wait() {
            Ok(done) => {
                writer.acked(sequence, &done);
                writer.boundary(&done);
            }
            Err(e) if work.survives(&e, &mut writer.ledger) => {}
            Err(_) => return,
        }
    }
}
