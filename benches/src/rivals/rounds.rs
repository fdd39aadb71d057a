//! Rounds: every round runs each rival once, in a random order, on one filesystem after the other, also
//! in a random order.

use crate::rivals::filesystem::Filesystem;
use crate::rivals::flags::Flags;
use crate::rivals::rival::{Rival, RivalRun, Shape, Until, Writers};
use crate::rivals::slice::run;
use logforce_measure::Interrupt;
use logforce_terminal::progress::Progress;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A rival with a workload, and the results of its rounds.
pub struct Line<'r> {
    /// Rival.
    pub rival: &'r dyn Rival,
    /// Filesystem.
    pub filesystem: &'r Filesystem,
    /// Workload.
    pub shape: Shape,
    /// Results by round, or the error of a failed round.
    pub rounds: Vec<Result<RivalRun, String>>,
}

/// Runs all rounds. The interrupt ends the run after the current commit; incomplete rounds are then
/// dropped.
pub fn all<'r>(
    rivals: &[&'r dyn Rival],
    flags: &Flags,
    filesystems: &'r [Filesystem],
    interrupt: &Interrupt,
    progress: &dyn Progress,
) -> Vec<Line<'r>> {
    let mut lines = lines(rivals, flags, filesystems);
    let until = Until::Time(flags.seconds);
    in_turns(&mut lines, flags.rounds, interrupt, |line, turn| {
        progress.doing(&format!(
            "{turn}: {}, {} B, {} threads, {}",
            line.rival.name(),
            line.shape.record,
            line.shape.threads,
            line.filesystem.title,
        ));
        let ground = &line.filesystem.ground;
        run(line.rival, ground, line.shape, until, interrupt)
    });
    lines
}

/// A table line whose turns run on a filesystem.
pub(super) trait HasTurns {
    /// Measurements of one turn.
    type Run;
    /// Returns the filesystem.
    fn filesystem(&self) -> &Filesystem;
    /// Returns the results by round.
    fn rounds(&mut self) -> &mut Vec<Result<Self::Run, String>>;
}

impl HasTurns for Line<'_> {
    type Run = RivalRun;

    fn filesystem(&self) -> &Filesystem {
        self.filesystem
    }

    fn rounds(&mut self) -> &mut Vec<Result<RivalRun, String>> {
        &mut self.rounds
    }
}

/// Runs each line once in every round. `turn` also gets the description of the turn, for the progress
/// line. After an interrupt only complete rounds are left.
pub(super) fn in_turns<L: HasTurns>(
    lines: &mut [L],
    rounds: u32,
    interrupt: &Interrupt,
    mut turn: impl FnMut(&L, &str) -> anyhow::Result<L::Run>,
) {
    for round in 0..rounds {
        let order = order(lines, |line| &line.filesystem().name);
        for (nth, &at) in order.iter().enumerate() {
            let (round_in_words, of) = (round + 1, order.len());
            let which = format!("round {round_in_words} of {rounds}, {} of {of}", nth + 1);
            let seen = turn(&lines[at], &which);
            if interrupt.is_raised() {
                for line in lines {
                    line.rounds().truncate(round as usize);
                }
                return;
            }
            lines[at].rounds().push(seen.map_err(|e| format!("{e:#}")));
        }
    }
}

fn lines<'r>(
    rivals: &[&'r dyn Rival],
    flags: &Flags,
    filesystems: &'r [Filesystem],
) -> Vec<Line<'r>> {
    let mut lines = Vec::new();
    for filesystem in filesystems {
        for shape in shapes(flags) {
            for &rival in rivals {
                if shape.threads == 1 || rival.writers() != Writers::Single {
                    lines.push(Line {
                        rival,
                        filesystem,
                        shape,
                        rounds: Vec::new(),
                    });
                }
            }
        }
    }
    lines
}

/// Returns the workloads in the order of the tables.
fn shapes(flags: &Flags) -> impl Iterator<Item = Shape> {
    flags.records.iter().flat_map(move |&record| {
        let of = move |&threads: &u32| Shape {
            record,
            threads: threads as usize,
        };
        flags.threads.iter().map(of)
    })
}

/// Returns a new random order in which the members of a group stay together. So the ratios within a
/// group compare turns that are close in time.
fn order<T>(all: &[T], group: impl Fn(&T) -> &str) -> Vec<usize> {
    // The standard library's hasher is seeded by the system.
    let random = RandomState::new();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_cached_key(|&at| (random.hash_one(group(&all[at])), random.hash_one(at)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_differ_and_hold_everybody_in_groups() {
        let all: Vec<&str> = ["a", "b"].into_iter().cycle().take(20).collect();
        let mut orders: Vec<Vec<usize>> = Vec::new();
        for _ in 0..5 {
            let mut order = order(&all, |group| group);
            orders.push(order.clone());
            let (front, back) = order.split_at(10);
            for half in [front, back] {
                assert!(half.iter().all(|at| all[*at] == all[half[0]]));
            }
            order.sort_unstable();
            assert!(order.into_iter().eq(0..20));
        }
        assert!(orders.iter().any(|o| *o != orders[0]));
    }
}
