//! State of the disk: stable and cached data, delayed completions, and the power.

use super::cache::{Cache, Met, SECTOR, Survival};
use super::record::{EventKind, Recorder};
use crate::counters::{self, Counters};
use fuser::{Errno, ReplyWrite};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Effect of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flushes {
    /// Makes completed writes stable.
    Honest,
    /// Does nothing and reports success.
    Ignored,
    /// Rejects the command as unknown. The kernel then stops sending it and reports no error.
    Unknown,
}

/// Settings of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Seed for the choice of the writes that are held in flight, and for how long.
    pub seed: u64,
    /// Percentage of the writes that are held in flight, for about 0.2 to 4.2 ms.
    pub hold: u64,
    /// Effect of flushes.
    pub flushes: Flushes,
}

/// A power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Part of the unflushed data that survives it.
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

/// Operations that fail. They are counted by kind, from the command on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fail {
    /// Kind of the operations.
    pub kind: FailKind,
    /// Number of the first one that fails, counted from 1.
    pub nth: u64,
    /// True if all later ones fail too.
    pub on: bool,
}

impl Fail {
    pub(super) fn hits(&self, number: u64) -> bool {
        number == self.nth || (self.on && number > self.nth)
    }
}

/// Report of a power cut. Operations are counted from the latest [`Fail`] command, or from the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutReport {
    /// Counters of acknowledgements before the power cut.
    pub counters: Counters,
    /// Amount of unflushed data.
    pub met: Met,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes, without the one during which the power was cut.
    pub writes: u64,
    /// Number of flushes, including ignored ones.
    pub flushes: u64,
    /// Operations that failed because of a [`Fail`] command, all from the start.
    pub failed: u64,
}

/// Condition under which a write triggers the power cut.
#[derive(Debug, Clone, Copy)]
pub struct Trigger {
    /// Number of writes that come before. The power is cut during the next write.
    pub writes: u64,
    /// True to wait for a write that finds unflushed data.
    pub loaded: bool,
    /// The power cut.
    pub cut: Cut,
}

/// Write whose completion is not reported yet.
struct Held {
    id: u64,
    until: Instant,
    len: u32,
    reply: ReplyWrite,
}

/// State of the disk. The threads share it behind one lock.
pub struct Power {
    settings: Settings,
    /// Data that readers see: everything that was written.
    current: File,
    /// Data that every power cut leaves.
    stable: File,
    /// Counters of acknowledgements.
    acknowledged: File,
    cache: Cache,
    held: Vec<Held>,
    recorder: Option<Recorder>,
    rng: fastrand::Rng,
    /// Armed trigger. Its `writes` are compared with the count of writes in `operations`.
    trigger: Option<Trigger>,
    fail: Option<Fail>,
    /// Operations by [`FailKind`], from the latest [`Fail`] command or from the start.
    operations: [u64; 3],
    /// Report of the power cut; `None` while the power is on.
    report: Option<CutReport>,
    failed: u64,
}

impl Power {
    /// Creates the state of a disk that is switched on.
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

    /// Records an event with the counters of acknowledgements before it.
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

    /// Counts an operation, and returns true if it must fail.
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

    /// Reads the data that was written last.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        if self.report.is_some() || self.fails(FailKind::Read) {
            return Err(Errno::EIO);
        }
        self.current
            .read_exact_at(buffer, offset)
            .map_err(|_| Errno::EIO)
    }

    /// Accepts a write, and answers it now or later.
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
            // The power is cut during this write. It does not count as unflushed, because every triggered power cut
            // has such a write.
            let met = self.cache.met();
            self.cache.write(offset, data, true);
            let _ = self.cut_having_met(cut, met);
        }
        // The kernel writes whole sectors. A disk serves no other requests.
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

    /// Makes completed writes stable.
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

    /// Reports the completions that are due. Returns the time at which the next one is due.
    pub fn release(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|h| h.until <= now);
        self.held = later;
        for held in due {
            self.cache.complete(held.id);
            // Recorded before it is reported, so that it precedes whatever the subject does next.
            let _ = self.record(EventKind::Complete, held.id, 0, &[]);
            held.reply.written(held.len);
        }
        self.held.iter().map(|h| h.until).min()
    }

    /// Makes operations fail from now on, and counts them anew.
    pub fn fail(&mut self, fail: Fail) {
        self.fail = Some(fail);
        self.operations = [0; 3];
    }

    /// Arms a power cut that a write triggers, after `when.writes` more writes.
    pub fn arm(&mut self, mut when: Trigger) {
        when.writes += self.operations[FailKind::Write as usize];
        self.trigger = Some(when);
    }

    /// Cuts the power: a random part of the unflushed data survives. Returns the earlier report if the power is off.
    pub fn cut(&mut self, cut: Cut) -> io::Result<CutReport> {
        let met = self.cache.met();
        self.cut_having_met(cut, met)
    }

    fn cut_having_met(&mut self, cut: Cut, met: Met) -> io::Result<CutReport> {
        if let Some(report) = &self.report {
            return Ok(report.clone());
        }
        // Sampled first, so that nothing acknowledged later is expected to survive.
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

    /// Returns the report of the power cut, or `None` while the power is on.
    pub fn report(&self) -> Option<&CutReport> {
        self.report.as_ref()
    }
}
