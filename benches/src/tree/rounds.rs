//! Rounds: each store does each operation, in a new random order each time.

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

/// An operation of a store, and the results of its rounds.
pub struct Line {
    /// Index of the store.
    pub store: usize,
    /// Operation.
    pub operation: Operation,
    /// Results by round, or the error of a failed round.
    pub rounds: Vec<Result<TreeSlice, String>>,
}

/// Returns all operations, in the order of a round: those that change the data come last.
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

/// Runs all rounds, each with new stores. The interrupt ends the run; incomplete rounds are then
/// dropped.
///
/// # Errors
/// If a directory cannot be created.
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
    // Declared before the stores, which must be closed before their directories are removed.
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

/// Returns a new random order: the system seeds the standard library's hasher.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let random = RandomState::new();
    order.sort_by_cached_key(|at| random.hash_one(at));
    order
}
