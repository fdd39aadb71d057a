//! Openings of a damaged log, with or without a repair before.

use crate::model::{PATH, read, small};
use logforce_core::{
    BatchInfo, Error, Inspector, Log, Lsn, OpenMode, Options, Record, RepairOptions, RepairReport,
    Result, Visit, repair,
};
use logforce_device::System;
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
use std::path::Path;

/// Treatment of damage before an opening, which refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDamage {
    /// No treatment: the opening refuses the log.
    Refuse,
    /// A repair before the opening.
    Repair,
}

impl OnDamage {
    /// Repairs the log if this is the treatment.
    pub fn mend(self, system: &dyn System) -> Result<Option<RepairReport>> {
        match self {
            OnDamage::Refuse => Ok(None),
            OnDamage::Repair => repair(system, Path::new(PATH), &RepairOptions::new()).map(Some),
        }
    }

    /// Opens the log, perhaps after a repair. Returns the report of the repair.
    pub fn open(
        self,
        system: &dyn System,
        options: &Options,
    ) -> Result<(Log, Option<RepairReport>)> {
        let report = self.mend(system)?;
        let log = Log::open(system, PATH, OpenMode::OpenExisting, options.clone())?;
        Ok((log, report))
    }
}

/// Returns a log that must open after a repair, and the report of the repair.
///
/// # Panics
/// If the repair or the opening fails.
pub fn repaired(system: &dyn System, options: &Options) -> (Log, RepairReport) {
    let (log, report) = OnDamage::Repair
        .open(system, options)
        .unwrap_or_else(|e| panic!("{e}"));
    (log, report.expect("it was repaired"))
}

/// Returns the records that salvage shows of the log in `path`.
///
/// # Panics
/// If salvage fails, except for a log without a usable segment.
pub fn salvaged(system: &dyn System, path: &Path) -> Vec<Record> {
    let mut found = Vec::new();
    let inspector = match Inspector::salvage(system, path) {
        Err(Error::NoLog { .. }) => return found,
        inspector => inspector.expect("salvage"),
    };
    let walked = inspector.walk(&mut |visit| {
        if let Visit::Record { record, .. } = visit {
            found.push(record.clone());
        }
        true
    });
    walked.expect("walked");
    found
}

/// Returns the records that a repair has removed, from its copies.
///
/// # Panics
/// If there are none.
pub fn cut(system: &dyn System, report: &RepairReport) -> Vec<Record> {
    salvaged(system, report.aside.as_deref().expect("there are copies"))
}

/// Returns the LSN where an opening begins to read, the batches of a log, and the inspector's number of
/// damages.
///
/// # Panics
/// If the log cannot be inspected.
pub fn batches(disk: &SimDisk, seed: u64) -> (Lsn, Vec<BatchInfo>, u64) {
    SimRuntime::run(seed, |rt| {
        let inspector = Inspector::open(&*disk.system(rt), PATH).expect("it can be inspected");
        let mut batches = Vec::new();
        let walked = inspector.walk(&mut |visit| {
            if let Visit::Batch(b) = visit {
                batches.push(b.clone());
            }
            true
        });
        let damages = walked.expect("walked").damages;
        (inspector.summary().anchor, batches, damages)
    })
}

/// Creates a log with this number of records of 3,000 bytes, and cuts the power. Returns the records.
///
/// # Panics
/// If a call fails.
pub fn made(records: u8) -> (SimDisk, Vec<Record>) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let all = SimRuntime::run(1, |rt| {
        let log = Log::open(&*disk.system(rt), PATH, OpenMode::CreateNew, small());
        let log = log.expect("nothing fails");
        for n in 0..records {
            log.commit(&[n; 3_000]).expect("nothing fails");
        }
        let all = read(&log, log.front_lsn());
        disk.cut();
        all
    });
    disk.crash(Failure::Power, Some(Survival::Kept), 1);
    (disk, all)
}

/// Flips a bit of the first batch with records that an opening reads. Returns that batch.
///
/// # Panics
/// If the log is damaged already.
pub fn rot(disk: &SimDisk) -> BatchInfo {
    let (anchor, all, damages) = batches(disk, 1);
    assert_eq!(damages, 0);
    let b = all.into_iter().find(|b| b.lsn >= anchor && b.frames > 0);
    let b = b.expect("something lies above the anchor");
    assert!(disk.flip_bit(PATH, &b.file, b.offset + 9, 0));
    b
}

/// Repairs the log, works on it, and cuts the power at once. `survival` decides what is left.
///
/// # Panics
/// If the repair or the opening fails.
pub fn live(disk: &SimDisk, survival: Survival, work: impl FnOnce(&Log)) -> RepairReport {
    let report = SimRuntime::run(1, |rt| {
        let (log, report) = repaired(&*disk.system(rt), &small());
        work(&log);
        disk.cut();
        report
    });
    disk.crash(Failure::Power, Some(survival), 1);
    report
}

/// Commits four records of 3,000 bytes. Returns all records of the log.
///
/// # Panics
/// If a call fails.
pub fn commit_some(log: &Log, n: u8) -> Vec<Record> {
    for n in n..n + 4 {
        log.commit(&[n; 3_000]).expect("nothing fails");
    }
    read(log, log.front_lsn())
}
