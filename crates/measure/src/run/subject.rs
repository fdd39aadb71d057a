//! What a row measures: something that commits.

use crate::run::recorder::Limit;
use crate::{MeasureError, Recorder};
use logforce_device::{Assessment, FileState, Method};

/// Who does the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubjectKind {
    /// The bare calls, without a log.
    Raw,
    /// The library.
    Logforce,
}

impl SubjectKind {
    /// Both.
    pub const ALL: [SubjectKind; 2] = [SubjectKind::Raw, SubjectKind::Logforce];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            SubjectKind::Raw => "raw",
            SubjectKind::Logforce => "logforce",
        }
    }
}

/// What tells a row from the others of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowKey {
    /// Name of the scenario, such as `journal`.
    pub scenario: &'static str,
    /// Who commits.
    pub subject: SubjectKind,
    /// How a force is done.
    pub method: Method,
    /// What the blocks under the file were before; `None` where the subject decides.
    pub file_state: Option<FileState>,
    /// How many threads commit.
    pub threads: u32,
    /// Bytes that the user commits at a time (a chunk, a record).
    pub bytes: u64,
}

/// Something that commits, in slices. One row of a report.
///
/// The schedule calls `prepare`, `run` and `finish` in that order for each slice, and other
/// subjects use the same disk between slices. An error from any of them ends the row: it shows
/// `n/a` with that error, and no numbers.
pub trait Subject {
    /// What the row is.
    fn key(&self) -> &RowKey;

    /// What a commit of this row is worth.
    fn assessment(&self) -> &Assessment;

    /// How many commits the row makes at most, where a row of whole chunks makes `chunks`.
    fn most_commits(&self, chunks: u64) -> u64 {
        chunks
    }

    /// Whether commits leave bytes behind that somebody has to write later; the schedule then
    /// keeps slices as short as the later writing may take.
    fn leaves_dirty_bytes(&self) -> bool {
        false
    }

    /// Gets ready for a slice; not timed.
    fn prepare(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }

    /// Commits until `limit`, recording inside [`Recorder::timed`] or [`Recorder::parallel`].
    /// A commit that failed is never recorded. Returns early, without error, on an interrupt.
    fn run(&mut self, limit: &Limit, recorder: &mut Recorder) -> Result<(), MeasureError>;

    /// Leaves the disk quiet for the next subject; not timed.
    fn finish(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }
}
