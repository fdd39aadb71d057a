//! Damage: what is missing or wrong in a log, and where.

use logforce_format::{Lsn, RecoveryCase};
use std::path::PathBuf;

/// Acknowledged data that is not there any more, or bytes that cannot be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where in the log.
    pub lsn: Lsn,
    /// The row of recovery's decision table.
    pub case: RecoveryCase,
    /// The log's directory.
    pub path: PathBuf,
    /// The file, if one can be named.
    pub file: Option<String>,
    /// Where in the file, bytes.
    pub offset: u64,
    /// What was found there.
    pub found: String,
    /// Data up to here is known to have been durable; [`Lsn::ORIGIN`] if nothing is known.
    pub durable_to: Lsn,
    /// Met by reading a log, not by opening it. An opening reads only the log's end, so
    /// [`OnDamage::Truncate`](crate::OnDamage::Truncate) need not meet it.
    pub in_reading: bool,
    /// An opening with [`OnDamage::Truncate`](crate::OnDamage::Truncate) ends the log before it. That
    /// refuses as well where it cannot know what the log is: two segments claim one place, or the
    /// control file cannot be used.
    pub truncatable: bool,
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
    /// What to do about damage, behind what saves the rest. An opening reads only the log's end: to
    /// truncate there does nothing for what a reader has met further down.
    pub(super) fn advice(&self) -> &'static str {
        match (self.in_reading, self.truncatable) {
            (false, true) => {
                "to open with Options::on_damage(OnDamage::Truncate) is to give up what follows this place"
            }
            (false, false) => {
                "an opening with OnDamage::Truncate refuses this too. Put right what is named here, put the \
                 log back from a copy, or go on with what was saved"
            }
            (true, _) => {
                "openings read only the end of a log, so OnDamage::Truncate need not help here. Put the log \
                 back from a copy, or go on with what was saved; or, if what lies up to this place is no \
                 longer needed, truncate_front to a record behind it"
            }
        }
    }
}
