//! Comparison of a log after a power cut with what had been promised.
//!
//! The library itself opens the log: that is the recovery under test. Then everything in it is read. Each rule is
//! checked separately, so that a finding names the invariant of `docs/durability.md` that broke.

mod promises;
mod repaired;
mod rules;
#[cfg(test)]
mod tests;

pub use promises::{Promises, Session, Survivor};
pub use repaired::damage;

use crate::subject::Identity;
use crate::subject::seam::{Fault, Faulty};
use anyhow::{Context, Result};
use logforce::{ErrorKind, Guarantee, Log, Method, Options};
use logforce_crashtest::subject::Outcome;
use logforce_device::failure::os_number;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Record that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// Identity of the record.
    pub identity: Identity,
    /// Exclusive end, an LSN.
    pub end: u64,
}

/// Result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckOutcome {
    /// Acknowledged records that had to be there.
    pub acknowledged: u64,
    /// Records of these that were missing.
    pub lost: u64,
    /// Records that were there.
    pub present: u64,
    /// True if the log was opened: then losses were searched record by record.
    pub opened: bool,
    /// True if a repair before the opening had something to remove: the power cut met an earlier repair.
    pub repaired: bool,
    /// Broken rules, in words, one line each.
    pub broken: Vec<String>,
    /// Message of a filesystem that did not survive. It says nothing about the log.
    pub filesystem_lost: Option<String>,
}

impl CheckOutcome {
    /// Adds how the subject ended, if that was wrong, and the loss of the filesystem, unless the cut tore one of its
    /// 4096-byte blocks.
    pub fn after_cut(mut self, wrong: Option<String>, grain: u64) -> CheckOutcome {
        self.broken.extend(wrong);
        if let Some(why) = self.filesystem_lost.take_if(|_| grain >= 4096) {
            self.broken.push(format!("the filesystem is lost: {why}"));
        }
        self
    }

    /// Adds a finding.
    fn breaks(&mut self, what: String) {
        // The first ones show the cause; a lost log breaks every rule.
        if self.broken.len() < 20 {
            self.broken.push(what);
        }
    }
}

impl Outcome for CheckOutcome {
    fn filesystem_lost(why: String) -> CheckOutcome {
        CheckOutcome {
            filesystem_lost: Some(why),
            ..CheckOutcome::default()
        }
    }

    fn is_whole(&self) -> bool {
        self.broken.is_empty() && self.filesystem_lost.is_none()
    }
}

/// Options with which a log is opened after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Method by which the log was written.
    pub method: Method,
    /// Lowest guarantee of the acknowledgements that must be kept.
    pub claims: Guarantee,
}

/// Opens the log in `dir` after a cut, and compares it. The next comparison has to find what it contains now.
///
/// # Errors
/// Errors of the machine. Faults of the log are in the outcome.
pub fn check(dir: &Path, opening: Opening, promises: &mut Promises) -> Result<CheckOutcome> {
    let mut outcome = CheckOutcome::default();
    let require = if opening.claims == Guarantee::PowerLoss {
        Guarantee::PowerLoss
    } else {
        Guarantee::Nothing
    };
    if let Some(cut) = &promises.cut
        && !repaired::mend(dir, cut, &mut outcome)
    {
        return Ok(outcome);
    }
    let options = Options::new()
        .method(opening.method)
        .require(require)
        .calibrate(false)
        .segment_size(128 << 10);
    let claims = crate::subject::rank(opening.claims);
    let options = options.create(!promises.log_must_exist());
    let system = Faulty::new(Fault::None);
    let log = match logforce::internal::open(&system, dir, options) {
        Ok(log) => log,
        Err(e) if e.kind() == ErrorKind::Unavailable => return Err(e).context("opening"),
        Err(e) if is_corruption(&e) => {
            outcome.filesystem_lost = Some(e.to_string());
            return Ok(outcome);
        }
        Err(e) => {
            let required = promises.required(claims, 0, &[]).len() as u64;
            outcome.acknowledged = required;
            outcome.lost = required;
            let files = described(dir);
            outcome.breaks(format!("the log does not open: {e}\n{files}"));
            return Ok(outcome);
        }
    };
    outcome.opened = true;
    let survivor = read(&log, &mut outcome);
    rules::compare(promises, claims, &survivor, &mut outcome);
    outcome.present = survivor.present.len() as u64;
    promises.replace_by(survivor);
    if let Err(e) = log.close() {
        outcome.breaks(format!("the recovered log does not close: {e}"));
    }
    Ok(outcome)
}

/// Describes the directory and the control file: the image is gone when the loss is reported.
fn described(dir: &Path) -> String {
    let entry = |e: io::Result<std::fs::DirEntry>| {
        let e = e.ok()?;
        let len = e.metadata().ok()?.len();
        Some(format!("{} {len}", e.file_name().to_string_lossy()))
    };
    let names: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(entry)
        .collect();
    let summary = logforce::inspect::salvage(dir).map(|inspector| inspector.summary());
    format!("files: {names:?}\nsummary: {summary:?}")
}

/// Returns true if the filesystem reports that its metadata is damaged: EFSBADCRC, EFSCORRUPTED.
pub(crate) fn is_corruption(error: &(dyn std::error::Error + 'static)) -> bool {
    let errors = std::iter::successors(Some(error), |e| e.source());
    // The library's errors share the system's error.
    let mut errors = errors.filter_map(|e| match e.downcast_ref::<Arc<io::Error>>() {
        Some(shared) => Some(&**shared),
        None => e.downcast_ref(),
    });
    errors.any(|e| {
        let code = os_number(e).map(rustix::io::Errno::from_raw_os_error);
        matches!(
            code,
            Some(rustix::io::Errno::BADMSG | rustix::io::Errno::UCLEAN)
        )
    })
}

/// Reads everything in the log.
fn read(log: &Log, outcome: &mut CheckOutcome) -> Survivor {
    let mut present = BTreeMap::new();
    let front = log.front_lsn();
    match log.read_from(front) {
        Err(e) => outcome.breaks(format!("reading from the front {front}: {e}")),
        Ok(reader) => {
            for record in reader {
                let record = match record {
                    Ok(record) => record,
                    Err(e) => {
                        outcome.breaks(format!("reading: {e}"));
                        break;
                    }
                };
                match Identity::read(&record.data) {
                    Ok(identity) => {
                        let end = record.end.0;
                        present.insert(record.start.0, Present { identity, end });
                    }
                    Err(why) => outcome.breaks(format!("at LSN {}: {why}", record.start)),
                }
            }
        }
    }
    Survivor {
        front: front.0,
        end: log.recovered().end.0,
        present,
        meta: log.meta(),
    }
}
