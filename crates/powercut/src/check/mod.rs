//! Compares what a cut left with what had been promised.
//!
//! The survivor is opened with the library itself: that is the recovery under test. Then
//! everything in it is read, and each rule is looked at by itself, so that a finding names the
//! invariant of `docs/durability.md` that broke.

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
use std::collections::BTreeMap;
use std::path::Path;

/// A record that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// Which.
    pub identity: Identity,
    /// Its exclusive end.
    pub end: u64,
}

/// Result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckOutcome {
    /// Acknowledged records that had to be there.
    pub acknowledged: u64,
    /// How many of them were not.
    pub lost: u64,
    /// Records that were there.
    pub present: u64,
    /// The log could be opened: what is lost was looked for record by record.
    pub opened: bool,
    /// A repair before the opening had something to cut: the power cut met an earlier one.
    pub repaired: bool,
    /// What broke, in words, one line each.
    pub broken: Vec<String>,
    /// The filesystem itself did not survive, in its words: nothing is said about the log.
    pub filesystem_lost: Option<String>,
}

impl CheckOutcome {
    /// A finding that is no lost record.
    fn breaks(&mut self, what: String) {
        // The first ones show the cause; a lost log breaks every rule.
        if self.broken.len() < 20 {
            self.broken.push(what);
        }
    }
}

/// How the survivor is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// With which method the log was written, and goes on.
    pub method: Method,
    /// What its acknowledgements are worth: the lowest guarantee that a promise must have given.
    pub claims: Guarantee,
}

/// Opens the log in `dir`, which is what a cut left there, and compares. What it holds now is
/// what the next comparison has to find.
///
/// # Errors
/// Only where the machine fails; what is wrong with the log is in the outcome.
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
    let entry = |e: std::io::Result<std::fs::DirEntry>| {
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

/// Whether the filesystem says that its own metadata is damaged.
fn is_corruption(error: &logforce::Error) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = source {
        if let Some(e) = e.downcast_ref::<std::io::Error>() {
            let code = e.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
            // EFSBADCRC and EFSCORRUPTED are these.
            if matches!(
                code,
                Some(rustix::io::Errno::BADMSG | rustix::io::Errno::UCLEAN)
            ) {
                return true;
            }
        }
        source = e.source();
    }
    false
}

/// Everything that the log shows.
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
