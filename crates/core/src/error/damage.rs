//! Damage: missing or wrong data in a log, and its position.

use crate::names;
use logforce_format::{Lsn, RecoveryCase};
use std::path::PathBuf;

/// Acknowledged data that is missing, or bytes that no crash can have left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Position in the log.
    pub lsn: Lsn,
    /// Row of recovery's decision table.
    pub case: RecoveryCase,
    /// Directory of the log.
    pub path: PathBuf,
    /// Name of the file, if known.
    pub file: Option<String>,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Description of what was found there.
    pub found: String,
    /// LSN below which all records are known to have been durable; [`Lsn::ORIGIN`] if nothing is known.
    pub durable_to: Lsn,
    /// True if the damage was found by reading a log, not by opening it. An opening and
    /// [`repair`](crate::repair) read only the end of the log, so they may not find it.
    pub in_reading: bool,
    /// True if [`repair`](crate::repair) can end the log before the damage. If false, a repair fails as well:
    /// two segments claim the same part of the log, the control file is unusable, or the data file of a page
    /// file needs the records that follow.
    pub repairable: bool,
    /// LSN from which the data file of a page file needs the log, if a repair would end it below.
    pub(crate) needed_from: Option<Lsn>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at LSN {}", self.case.label(), self.lsn)?;
        match &self.file {
            Some(file) => write!(
                f,
                " ({} offset {})",
                self.path.join(file).display(),
                self.offset
            )?,
            None => write!(f, " (in {})", self.path.display())?,
        }
        write!(f, ": {}", self.found)?;
        if self.durable_to > Lsn::ORIGIN {
            write!(
                f,
                "; the log was durable up to LSN {} at least",
                self.durable_to
            )?;
        }
        Ok(())
    }
}

impl Damage {
    /// Returns true if the control file cannot be used, so that only `--salvage` inspects the log.
    fn is_of_control_file(&self) -> bool {
        !self.repairable && self.file.as_deref() == Some(names::CONTROL)
    }

    /// Returns the flag with which `logforce verify` inspects the log.
    pub(super) fn salvage_flag(&self) -> &'static str {
        match self.is_of_control_file() {
            true => " --salvage",
            false => "",
        }
    }

    /// Returns the advice for the time after the remaining records are saved.
    pub(super) fn advice(&self) -> String {
        let log = self.path.display();
        if let Some(lsn) = self.needed_from {
            return format!(
                "a repair would end the log below LSN {lsn}, from which the data file needs it. Restore data file \
                 and log from the same backup"
            );
        }
        match (self.in_reading, self.repairable) {
            (false, true) => {
                format!("`logforce repair {log}` removes the damage and everything after it from the log, and keeps a copy")
            }
            (false, false) if self.is_of_control_file() => {
                "a repair cannot mend this, because it needs the control file. Restore the whole directory from a \
                 backup, or continue with the saved records in NEW"
                    .to_owned()
            }
            (false, false) => "a repair cannot mend this. Fix the cause named here, restore the log from a copy, or \
                               continue with the saved records"
                .to_owned(),
            (true, _) => "an opening reads only the end of a log, and a repair mends only what an opening refuses. \
                          Restore the log from a copy, or continue with the saved records; or, if you do not need \
                          the records up to this position, truncate_front to a record after it"
                .to_owned(),
        }
    }
}
