//! Rounds: in each, every case runs, and its contenders one after the other.

use super::case::Case;
use super::contender::Contender;
use super::run::run;
use super::turn::{Effort, Run};
use crate::rivals::filesystem::Filesystem;
use logforce_measure::Interrupt;
use logforce_terminal::progress::Progress;

/// A contender in a case on a filesystem, with its results.
pub struct Line<'r> {
    /// Filesystem.
    pub filesystem: &'r Filesystem,
    /// Workload.
    pub case: &'r Case,
    /// Contender.
    pub contender: Contender,
    /// Results by round, or the error of a failed round.
    pub rounds: Vec<Result<Run, String>>,
}

/// Runs all rounds. An interrupt ends the run; only complete rounds of a case are returned. Stock is the
/// first line of each case; the others follow.
pub fn all<'r>(
    cases: &'r [Case],
    filesystems: &'r [Filesystem],
    control: bool,
    (rounds, effort): (u32, Effort),
    interrupt: &Interrupt,
    progress: &dyn Progress,
) -> Vec<Vec<Line<'r>>> {
    let mut groups = Vec::new();
    for filesystem in filesystems {
        for case in cases {
            let control = control.then_some(Contender::Control);
            let beside = control.into_iter().chain(case.contenders.iter().copied());
            let line = |contender| Line {
                filesystem,
                case,
                contender,
                rounds: Vec::new(),
            };
            groups.push(Vec::from_iter(
                [Contender::Stock].into_iter().chain(beside).map(line),
            ));
        }
    }
    for round in 0..rounds {
        for (nth, group) in groups.iter_mut().enumerate() {
            let mut order: Vec<usize> = (0..group.len()).collect();
            order.rotate_left((round as usize / 2 + nth) % group.len());
            // No contender always follows the same other one, which leaves work to the system.
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let line = &mut group[at];
                progress.doing(&format!(
                    "round {} of {rounds}: {}, {}, {}",
                    round + 1,
                    line.case.name,
                    line.contender.name(),
                    line.filesystem.title,
                ));
                let ground = &line.filesystem.ground;
                let result = run(line.case, line.contender, ground, effort, interrupt);
                if interrupt.is_raised() {
                    for line in group {
                        line.rounds.truncate(round as usize);
                    }
                    return groups;
                }
                line.rounds.push(result.map_err(|e| format!("{e:#}")));
            }
        }
    }
    groups
}
