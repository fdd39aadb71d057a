//! Everybody in turns.

use super::RECORD;
use super::subjects::Subject;
use super::turn::{Seen, run};
use crate::rivals::filesystem::Filesystem;
use crate::rivals::flags::Flags;
use crate::rivals::rounds::order;
use logforce_measure::Interrupt;
use logforce_measure::progress::Progress;

/// A subject on a filesystem, and what each round saw of it.
pub struct Line<'r> {
    /// Who.
    pub subject: &'r Subject,
    /// Where.
    pub filesystem: &'r Filesystem,
    /// By round; what went wrong where a round has no result.
    pub rounds: Vec<Result<Seen, String>>,
}

/// Runs all rounds. The interrupt ends it; rounds that are not complete then are left out.
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
    let count = flags.bulk / RECORD as u64;
    for round in 0..flags.rounds {
        let order = order(&lines, |line| &line.filesystem.name);
        for (turn, &at) in order.iter().enumerate() {
            let line = &mut lines[at];
            progress.doing(&format!(
                "bulk, round {} of {}, {} of {}: {}, {}",
                round + 1,
                flags.rounds,
                turn + 1,
                order.len(),
                line.subject.name,
                line.filesystem.title,
            ));
            let seen = run(line.subject, &line.filesystem.ground, count, interrupt);
            if interrupt.is_raised() {
                for line in &mut lines {
                    line.rounds.truncate(round as usize);
                }
                return lines;
            }
            line.rounds.push(seen.map_err(|e| format!("{e:#}")));
        }
    }
    lines
}
