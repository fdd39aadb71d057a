//! A case: one subject with one number of threads.

use logforce_measure::group::Series;
use serde::Serialize;

/// Subjects: ways to make a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// `File::write_commit`.
    WriteCommit,
    /// `File::write_at`, then `File::commit`.
    Commit,
    /// One write and one `fdatasync` for each commit.
    SyncEach,
    /// A group commit written by hand: one write each, one `fdatasync` for all.
    ByHand,
    /// The baseline of the bench `group`: one write of everything staged.
    Baseline,
}

impl Subject {
    /// All subjects.
    pub const ALL: [Subject; 5] = [
        Subject::WriteCommit,
        Subject::Commit,
        Subject::SyncEach,
        Subject::ByHand,
        Subject::Baseline,
    ];

    /// Returns the name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Subject::WriteCommit => "write-commit",
            Subject::Commit => "commit",
            Subject::SyncEach => "sync-each",
            Subject::ByHand => "by-hand",
            Subject::Baseline => "baseline",
        }
    }
}

/// One subject with one number of threads, and what was measured.
pub(super) struct Case {
    pub(super) threads: u32,
    pub(super) subject: Subject,
    pub(super) series: Series,
}

/// Returns the series of a subject with a number of threads, if it was measured.
pub(super) fn series(cases: &[Case], subject: Subject, threads: u32) -> Option<&Series> {
    let of = |c: &&Case| c.subject == subject && c.threads == threads;
    let case = cases.iter().find(of)?;
    (!case.series.points.is_empty()).then_some(&case.series)
}
