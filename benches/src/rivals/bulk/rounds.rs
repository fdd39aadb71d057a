//! Rounds: all subjects in turns.

use super::subjects::Subject;
use super::turn::{BulkRun, run};
use crate::rivals::filesystem::Filesystem;
use crate::rivals::flags::Flags;
use crate::rivals::records::BULK_RECORD;
use crate::rivals::rounds::{HasTurns, in_turns};
use logforce_measure::Interrupt;
use logforce_terminal::progress::Progress;

/// A subject on a filesystem, and the results of its rounds.
pub struct Line<'r> {
    /// Subject.
    pub subject: &'r Subject,
    /// Filesystem.
    pub filesystem: &'r Filesystem,
    /// Results by round, or the error of a failed round.
    pub rounds: Vec<Result<BulkRun, String>>,
}

/// Runs all rounds. The interrupt ends the run; incomplete rounds are then dropped.
pub fn all<'r>(
    subjects: &'r [Subject],
    flags: &Flags,
    filesystems: &'r [Filesystem],
    interrupt: &Interrupt,
    progress: &dyn Progress,
) -> Vec<Line<'r>> {
    let mut lines: Vec<Line<'r>> = Vec::new();
    for filesystem in filesystems {
        lines.extend(subjects.iter().map(|subject| Line {
            subject,
            filesystem,
            rounds: Vec::new(),
        }));
    }
    let count = flags.bulk / BULK_RECORD as u64;
    in_turns(&mut lines, flags.rounds, interrupt, |line, turn| {
        progress.doing(&format!(
            "bulk, {turn}: {}, {}",
            line.subject.name, line.filesystem.title
        ));
        run(line.subject, &line.filesystem.ground, count, interrupt)
    });
    lines
}

impl HasTurns for Line<'_> {
    type Run = BulkRun;

    fn filesystem(&self) -> &Filesystem {
        self.filesystem
    }

    fn rounds(&mut self) -> &mut Vec<Result<BulkRun, String>> {
        &mut self.rounds
    }
}
