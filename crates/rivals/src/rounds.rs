//! Everybody in turns: in every round all of them, in another order.

use crate::options::Flags;
use crate::place::Place;
use crate::rival::{Rival, Shape, Writers};
use crate::slice::{Seen, Until, run};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};

/// A rival with a shape, and what each round saw of it.
pub struct Line<'r> {
    /// Who.
    pub rival: &'r dyn Rival,
    /// With what.
    pub shape: Shape,
    /// By round; what went wrong where a round has no result.
    pub rounds: Vec<Result<Seen, String>>,
}

/// Runs all rounds. `stop` ends it after the current commit; rounds that are not complete then
/// are left out. `say` hears what is done.
pub fn all<'r>(
    rivals: &[&'r dyn Rival],
    flags: &Flags,
    place: &Place,
    stop: &AtomicBool,
    mut say: impl FnMut(&str),
) -> Vec<Line<'r>> {
    let mut lines = lines(rivals, flags);
    for round in 0..flags.rounds {
        let mut order: Vec<usize> = (0..lines.len()).collect();
        shuffle(&mut order);
        for (turn, &at) in order.iter().enumerate() {
            let line = &mut lines[at];
            say(&format!(
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
            let seen = run(line.rival, place, line.shape, until, stop);
            if stop.load(Ordering::Relaxed) {
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
        for threads in flags.threads.iter().map(|&t| usize::from(t)) {
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
