//! Openings of a damaged log: refused, or repaired before.

use crate::model::PATH;
use logforce_core::{
    Error, Inspector, Log, OpenMode, Options, Record, RepairOptions, RepairReport, Result, Visit,
    repair,
};
use logforce_device::System;
use std::path::Path;

/// What is done about damage before an opening, which refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDamage {
    /// Nothing.
    Refuse,
    /// The log is repaired.
    Repair,
}

impl OnDamage {
    /// Repairs the log if that is to be done.
    pub fn mend(self, system: &dyn System) -> Result<Option<RepairReport>> {
        match self {
            OnDamage::Refuse => Ok(None),
            OnDamage::Repair => repair(system, Path::new(PATH), &RepairOptions::new()).map(Some),
        }
    }

    /// Opens the log, which may be repaired before; with what the repair did.
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

/// A log that must open after a repair, and what that did.
///
/// # Panics
/// If the repair or the opening fails.
pub fn repaired(system: &dyn System, options: &Options) -> (Log, RepairReport) {
    let (log, report) = OnDamage::Repair
        .open(system, options)
        .unwrap_or_else(|e| panic!("{e}"));
    (log, report.expect("it was repaired"))
}

/// The records that salvage shows of the log in `path`.
///
/// # Panics
/// If it fails, but for a log of which no segment can be used.
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

/// The records that a repair has cut, from its copies.
///
/// # Panics
/// If there are none.
pub fn cut(system: &dyn System, report: &RepairReport) -> Vec<Record> {
    salvaged(system, report.aside.as_deref().expect("there are copies"))
}
