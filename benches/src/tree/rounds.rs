//! Everybody in turns: each operation by each store, in another order each time.

use crate::rivals::place::{Fresh, Ground};
use crate::tree::flags::Flags;
use crate::tree::keys::Keys;
use crate::tree::operation::Operation;
use crate::tree::slice::{TreeSlice, Until, run};
use crate::tree::store::{Opened, Store};
use anyhow::Result;
use logforce_measure::Interrupt;
use logforce_terminal::progress::Progress;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// An operation of a store, and what each round saw of it.
pub struct Line {
    /// Which of the stores.
    pub store: usize,
    /// What.
    pub operation: Operation,
    /// By round; what went wrong where a round has no result.
    pub rounds: Vec<Result<TreeSlice, String>>,
}

/// All operations, in the order in which a round has them: those that change the data last.
pub fn operations(flags: &Flags) -> Vec<Operation> {
    let mut operations = vec![Operation::Load];
    for &threads in &flags.readers {
        let threads = threads as usize;
        operations.push(Operation::Get(threads));
        operations.push(Operation::GetMany(threads));
        operations.push(Operation::Scan(threads));
    }
    for &threads in &flags.threads {
        let threads = threads as usize;
        operations.push(Operation::Put(threads));
    }
    operations
}

/// Runs all rounds, each with fresh stores. The interrupt ends it; rounds that are not complete then
/// are left out.
///
/// # Errors
/// Where no place can be made.
pub fn all(
    stores: &[&dyn Store],
    flags: &Flags,
    ground: &Ground,
    interrupt: &Interrupt,
    progress: &dyn Progress,
) -> Result<Vec<Line>> {
    let operations = operations(flags);
    let mut lines = Vec::new();
    for &operation in &operations {
        lines.extend((0..stores.len()).map(|store| Line {
            store,
            operation,
            rounds: Vec::new(),
        }));
    }
    for round in 0..flags.rounds as usize {
        let what = format!("round {} of {}", round + 1, flags.rounds);
        round_of(
            stores,
            flags,
            ground,
            interrupt,
            &mut lines,
            (round, &what, progress),
        )?;
        if interrupt.is_raised() {
            for line in &mut lines {
                line.rounds.truncate(round);
            }
            return Ok(lines);
        }
    }
    Ok(lines)
}

fn round_of(
    stores: &[&dyn Store],
    flags: &Flags,
    ground: &Ground,
    interrupt: &Interrupt,
    lines: &mut [Line],
    (round, what, progress): (usize, &str, &dyn Progress),
) -> Result<()> {
    let keys = Keys {
        loaded: flags.keys,
        value: flags.value as usize,
    };
    // The stores are closed before their directories go.
    let places: Vec<Fresh> = stores
        .iter()
        .map(|store| ground.fresh(store.name()))
        .collect::<Result<_>>()?;
    let opened: Vec<Result<Box<dyn Opened>>> = stores
        .iter()
        .zip(&places)
        .map(|(store, place)| store.open(place.path()))
        .collect();
    for (number, lines) in lines.chunks_mut(stores.len()).enumerate() {
        for at in shuffled(stores.len()) {
            let line = &mut lines[at];
            let (words, threads) = (line.operation.in_words(), line.operation.threads());
            let name = stores[at].name();
            progress.doing(&format!("{what}: {name}, {words}, {threads} threads"));
            let seed = (round * 100 + number + 1) as u64;
            let until = Until::Time(flags.seconds);
            let seen = match &opened[at] {
                Ok(store) => run(&**store, line.operation, keys, until, seed, interrupt),
                Err(e) => Err(anyhow::anyhow!("cannot open it: {e:#}")),
            };
            if interrupt.is_raised() {
                return Ok(());
            }
            line.rounds.push(seen.map_err(|e| format!("{e:#}")));
        }
    }
    for store in opened.iter().flatten() {
        store.check()?;
    }
    Ok(())
}

/// Another order each time; the standard library's hasher is seeded by the system.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let random = RandomState::new();
    order.sort_by_cached_key(|at| random.hash_one(at));
    order
}
