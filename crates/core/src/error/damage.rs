//! Damage: what is missing or wrong in a log, and where.

use logforce_format::{Lsn, RecoveryCase};
use std::path::PathBuf;

/// Acknowledged data that is missing, or bytes that no crash explains.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Position in the log.
    pub lsn: Lsn,
    /// The row of recovery's decision table.
    pub case: RecoveryCase,
    /// The log's directory.
    pub path: PathBuf,
    /// The file, if one can be named.
    pub file: Option<String>,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// What was found there.
    pub found: String,
    /// Records below are known to have been durable; [`Lsn::ORIGIN`] if nothing is known.
    pub durable_to: Lsn,
    /// Found by reading a log, not by opening it. An opening reads only the end of the log, and so does
    /// [`repair`](crate::repair), which may not find it.
    pub in_reading: bool,
    /// [`repair`](crate::repair) ends the log before it. If false, that fails as well: two segments claim the
    /// same part of the log, the control file is unusable, or the data file of a page file needs what follows.
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
    /// Returns the advice for what to do after saving the rest.
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
                format!("`logforce repair {log}` removes what is damaged and what follows it from the log, and keeps a copy")
            }
            (false, false) => "a repair cannot mend this. Mend what is named here, restore the log from a copy, or \
                               continue with the saved records"
                .to_owned(),
            (true, _) => "an opening reads only the end of a log, and a repair mends only what an opening refuses. \
                          Restore the log from a copy, or continue with the saved records; or, if the records up \
                          to this position are no longer needed, truncate_front to a record after it"
                .to_owned(),
        }
    }
}
