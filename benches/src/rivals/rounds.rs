//! Everybody in turns: in every round all of them, in another order.

use crate::rivals::flags::Flags;
use crate::rivals::place::Ground;
use crate::rivals::rival::{Rival, Shape, Writers};
use crate::rivals::slice::{Seen, Until, run};
use logforce_measure::Interrupt;
use logforce_measure::progress::Progress;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A rival with a shape, and what each round saw of it.
pub struct Line<'r> {
    /// Who.
    pub rival: &'r dyn Rival,
    /// With what.
    pub shape: Shape,
    /// By round; what went wrong where a round has no result.
    pub rounds: Vec<Result<Seen, String>>,
}

/// Runs all rounds. The interrupt ends it after the current commit; rounds that are not complete
/// then are left out.
pub fn all<'r>(
    rivals: &[&'r dyn Rival],
    flags: &Flags,
    ground: &Ground,
    interrupt: &Interrupt,
    progress: &dyn Progress,
) -> Vec<Line<'r>> {
    let mut lines = lines(rivals, flags);
    for round in 0..flags.rounds {
        let mut order: Vec<usize> = (0..lines.len()).collect();
        shuffle(&mut order);
        for (turn, &at) in order.iter().enumerate() {
            let line = &mut lines[at];
            progress.doing(&format!(
                "round {} of {}, {} of {}: {}, {} B, {} threads",
                round + 1,
                flags.rounds,
                turn + 1,
                order.len(),
                line.rival.name(),
                line.shape.record,
                line.shape.threads,
            ));
            let until = Until::Time(flags.seconds);
            let seen = run(line.rival, ground, line.shape, until, interrupt);
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

fn lines<'r>(rivals: &[&'r dyn Rival], flags: &Flags) -> Vec<Line<'r>> {
    let mut lines = Vec::new();
    for &record in &flags.records {
        for threads in flags.threads.iter().map(|&t| t as usize) {
            for &rival in rivals {
                if threads == 1 || rival.writers() != Writers::Single {
                    lines.push(Line {
                        rival,
                        shape: Shape { record, threads },
                        rounds: Vec::new(),
                    });
                }
            }
        }
    }
    lines
}

/// Another order each time; the standard library's hasher is seeded by the system.
fn shuffle(order: &mut [usize]) {
    let random = RandomState::new();
    order.sort_by_cached_key(|at| random.hash_one(at));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_differ_and_hold_everybody() {
        let mut orders: Vec<Vec<usize>> = Vec::new();
        for _ in 0..5 {
            let mut order: Vec<usize> = (0..20).collect();
            shuffle(&mut order);
            orders.push(order.clone());
            order.sort_unstable();
            assert!(order.into_iter().eq(0..20));
        }
        assert!(orders.iter().any(|o| *o != orders[0]));
    }
}
