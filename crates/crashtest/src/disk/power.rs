//! The disk's state: what is stable, what is cached, what is held back, and whether it has power.

use super::cache::{Cache, Met, SECTOR, Survival};
use super::record::{EventKind, Recorder};
use crate::counters::{self, Counters};
use fuser::{Errno, ReplyWrite};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// What the disk makes of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flushes {
    /// What it should.
    Honest,
    /// It says that it is done, and does nothing.
    Ignored,
    /// It does not know the command; the kernel then stops sending it, without an error.
    Unknown,
}

/// How a disk behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Of what is held.
    pub seed: u64,
    /// How many of a hundred writes are held in flight for a while.
    pub hold: u64,
    /// What it does with flushes.
    pub flushes: Flushes,
}

/// A power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Part of the unflushed that survives it.
    pub survival: Survival,
}

/// Kind of operation that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailKind {
    /// Reads.
    Read = 0,
    /// Writes.
    Write = 1,
    /// Flushes.
    Flush = 2,
}

/// Operation that fails, counted from the command on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fail {
    /// Its kind.
    pub kind: FailKind,
    /// The first one that fails, from 1.
    pub nth: u64,
    /// All that follow fail too.
    pub on: bool,
}

impl Fail {
    pub(super) fn hits(&self, number: u64) -> bool {
        number == self.nth || (self.on && number > self.nth)
    }
}

/// The disk's report of a power cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutReport {
    /// Counts of acknowledgements before it.
    pub counters: Counters,
    /// Writes that were not flushed.
    pub met: Met,
    /// Reads that came.
    pub reads: u64,
    /// Writes that came.
    pub writes: u64,
    /// Flushes that came.
    pub flushes: u64,
    /// Operations that were made to fail.
    pub failed: u64,
}

/// When the power goes by itself.
#[derive(Debug, Clone, Copy)]
pub struct Trigger {
    /// After so many more writes, in the midst of the next.
    pub writes: u64,
    /// Of one that finds something unflushed.
    pub loaded: bool,
    /// The loss.
    pub cut: Cut,
}

/// A write whose completion is not reported yet.
struct Held {
    id: u64,
    until: Instant,
    len: u32,
    reply: ReplyWrite,
}

/// The state, behind one lock.
pub struct Power {
    settings: Settings,
    /// What a reader sees: with everything that was written.
    current: File,
    /// What a power cut leaves in any case.
    stable: File,
    /// The counters of acknowledgements.
    acknowledged: File,
    cache: Cache,
    held: Vec<Held>,
    recorder: Option<Recorder>,
    rng: fastrand::Rng,
    /// Its writes are counted from the beginning.
    trigger: Option<Trigger>,
    fail: Option<Fail>,
    operations: [u64; 3],
    /// What was there when the power went.
    report: Option<CutReport>,
    failed: u64,
}

impl Power {
    /// Switched on.
    pub fn new(
        settings: Settings,
        current: File,
        stable: File,
        acknowledged: File,
        recorder: Option<Recorder>,
    ) -> Power {
        Power {
            settings,
            current,
            stable,
            acknowledged,
            cache: Cache::default(),
            held: Vec::new(),
            recorder,
            rng: fastrand::Rng::with_seed(settings.seed),
            trigger: None,
            fail: None,
            operations: [0; 3],
            report: None,
            failed: 0,
        }
    }

    fn counters(&self) -> io::Result<Counters> {
        counters::sample(&self.acknowledged)
    }

    /// Notes an event with what was acknowledged before it.
    fn record(&mut self, kind: EventKind, id: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.recorder.is_none() {
            return Ok(());
        }
        let counters = self.counters()?;
        if let Some(recorder) = &mut self.recorder {
            recorder.put(kind, id, offset, data, &counters)?;
        }
        Ok(())
    }

    /// Whether this operation is one that has to fail.
    fn fails(&mut self, kind: FailKind) -> bool {
        let number = &mut self.operations[kind as usize];
        *number += 1;
        let number = *number;
        let fails = self
            .fail
            .as_ref()
            .is_some_and(|f| f.kind == kind && f.hits(number));
        self.failed += u64::from(fails);
        fails
    }

    /// Reads what was written last.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        if self.report.is_some() || self.fails(FailKind::Read) {
            return Err(Errno::EIO);
        }
        self.current
            .read_exact_at(buffer, offset)
            .map_err(|_| Errno::EIO)
    }

    /// Takes a write in, and answers it now or later.
    pub fn write(&mut self, offset: u64, data: &[u8], reply: ReplyWrite) {
        if let Some(Trigger {
            writes,
            loaded,
            cut,
        }) = self.trigger
            && self.operations[FailKind::Write as usize] >= writes
            && !(loaded && self.cache.is_empty())
        {
            self.trigger = None;
            // The power goes in the midst of this write. It is not counted with what was unflushed:
            // there is always one.
            let met = self.cache.met();
            self.cache.write(offset, data, true);
            let _ = self.cut_having_met(cut, met);
        }
        // What the kernel asks for is whole sectors; anything else is no disk's business.
        let whole = offset.is_multiple_of(SECTOR) && (data.len() as u64).is_multiple_of(SECTOR);
        if self.report.is_some() || !whole || self.fails(FailKind::Write) {
            return reply.error(Errno::EIO);
        }
        let hold = self.rng.u64(..100) < self.settings.hold;
        let held_for = Duration::from_micros(200 + self.rng.u64(..4000));
        let written = self.current.write_all_at(data, offset);
        let id = self.cache.write(offset, data, hold);
        let kind = if hold {
            EventKind::WriteHeld
        } else {
            EventKind::Write
        };
        if written
            .and_then(|()| self.record(kind, id, offset, data))
            .is_err()
        {
            return reply.error(Errno::EIO);
        }
        let len = data.len() as u32;
        if !hold {
            return reply.written(len);
        }
        self.held.push(Held {
            id,
            until: Instant::now() + held_for,
            len,
            reply,
        });
    }

    /// Makes stable what was completed.
    pub fn flush(&mut self) -> Result<(), Errno> {
        if self.report.is_some() || self.fails(FailKind::Flush) {
            return Err(Errno::EIO);
        }
        match self.settings.flushes {
            Flushes::Honest => {}
            Flushes::Ignored => return Ok(()),
            Flushes::Unknown => return Err(Errno::ENOSYS),
        }
        self.record(EventKind::Flush, 0, 0, &[])
            .and_then(|()| self.cache.flush(&self.stable))
            .map_err(|_| Errno::EIO)
    }

    /// Reports the completions that are due. Returns when the next one is.
    pub fn release(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|h| h.until <= now);
        self.held = later;
        for held in due {
            self.cache.complete(held.id);
            // Noted before it is reported: what the subject does next comes after it.
            let _ = self.record(EventKind::Complete, held.id, 0, &[]);
            held.reply.written(held.len);
        }
        self.held.iter().map(|h| h.until).min()
    }

    /// Lets operations fail from now on.
    pub fn fail(&mut self, fail: Fail) {
        self.fail = Some(fail);
        self.operations = [0; 3];
    }

    /// Has the power go by itself.
    pub fn arm(&mut self, mut when: Trigger) {
        when.writes += self.operations[FailKind::Write as usize];
        self.trigger = Some(when);
    }

    /// Takes the power away: a random part of what was not flushed survives.
    pub fn cut(&mut self, cut: Cut) -> io::Result<CutReport> {
        let met = self.cache.met();
        self.cut_having_met(cut, met)
    }

    fn cut_having_met(&mut self, cut: Cut, met: Met) -> io::Result<CutReport> {
        if let Some(report) = &self.report {
            return Ok(report.clone());
        }
        // Sampled first: what is acknowledged after this is not claimed to have survived.
        let counters = self.counters()?;
        let [reads, writes, flushes] = self.operations;
        let report = CutReport {
            counters,
            met,
            reads,
            writes,
            flushes,
            failed: self.failed,
        };
        self.report = Some(report.clone());
        self.cache.survive(cut.survival, &self.stable)?;
        for held in self.held.drain(..) {
            held.reply.error(Errno::EIO);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.end()?;
        }
        Ok(report)
    }

    /// What was there when the power went; `None` while it is on.
    pub fn report(&self) -> Option<&CutReport> {
        self.report.as_ref()
    }
}
