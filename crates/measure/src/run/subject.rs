//! Subjects of measurement: each row measures something that commits.

use crate::run::recorder::Limit;
use crate::{MeasureError, Recorder};
use logforce_device::{Assessment, FileState, Method};

/// Code that performs the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubjectKind {
    /// Plain system calls, without a log.
    Raw,
    /// The library.
    Logforce,
}

impl SubjectKind {
    /// Both kinds.
    pub const ALL: [SubjectKind; 2] = [SubjectKind::Raw, SubjectKind::Logforce];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            SubjectKind::Raw => "raw",
            SubjectKind::Logforce => "logforce",
        }
    }
}

/// Key that distinguishes a row from the others of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowKey {
    /// Name of the scenario, such as `journal`.
    pub scenario: &'static str,
    /// Code that performs the commits.
    pub subject: SubjectKind,
    /// Commit method.
    pub method: Method,
    /// State of the file before the commits; `None` if the subject decides.
    pub file_state: Option<FileState>,
    /// Number of committing threads.
    pub threads: u32,
    /// Bytes of one commit (a chunk, a record), without headers and padding.
    pub bytes: u64,
}

/// Something that commits, in slices: one row of a report.
///
/// The schedule calls `prepare`, `run` and `finish` in that order for each slice. Other subjects use the
/// same disk between slices. An error from any of the three ends the row, which then shows `n/a` with
/// that error, and no numbers.
pub trait Subject {
    /// Returns the key of the row.
    fn key(&self) -> &RowKey;

    /// Returns the guarantee of a commit of this row.
    fn assessment(&self) -> &Assessment;

    /// Returns the maximum number of commits of the row; a row of whole chunks makes `chunks`.
    fn most_commits(&self, chunks: u64) -> u64 {
        chunks
    }

    /// Returns whether commits leave dirty bytes that have to be written back later. The schedule then
    /// shortens the slices, so that there is time for the write-back.
    fn leaves_dirty_bytes(&self) -> bool {
        false
    }

    /// Prepares a slice; not timed.
    fn prepare(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }

    /// Commits until `limit`, and records inside [`Recorder::timed`] or [`Recorder::parallel`]. A failed
    /// commit is never recorded. Returns early, without an error, on an interrupt.
    fn run(&mut self, limit: &Limit, recorder: &mut Recorder) -> Result<(), MeasureError>;

    /// Finishes pending work, so that the disk is idle for the next subject; not timed.
    fn finish(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }
}
