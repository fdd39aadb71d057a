//! What was counted, as lines and as JSON.

use crate::check::Outcome;
use crate::disk::Met;
use crate::live::{Cell, Ended};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One cut and what was found after it.
#[derive(Debug, Clone)]
pub struct Cycle {
    /// Acknowledged records that had to be there.
    pub acknowledged: u64,
    /// Of those, not there.
    pub lost: u64,
    /// Sectors that were written and not flushed.
    pub unflushed: u64,
    /// Writes held in flight.
    pub held: u64,
    /// What broke.
    pub broken: Vec<String>,
    /// The filesystem did not survive a tear inside of its own blocks.
    pub filesystem_lost: Option<String>,
}

/// The pieces, in bytes, that every filesystem here takes for whole: what is lost by tears inside
/// of them is the filesystem's loss, what is lost without is not excused by anything.
const WHOLE: u64 = 4096;

impl Cycle {
    /// Of a live cut.
    pub fn new(ended: &Ended) -> Cycle {
        Cycle::of(ended.outcome.clone(), ended.report.met, ended.grain)
    }

    /// Of what was found after a cut that met this, and tore in pieces of `grain` bytes.
    pub fn of(outcome: Outcome, met: Met, grain: u64) -> Cycle {
        let mut cycle = Cycle {
            acknowledged: outcome.acknowledged,
            lost: outcome.lost,
            unflushed: met.unflushed_sectors,
            held: met.in_flight,
            broken: outcome.broken,
            filesystem_lost: outcome.filesystem_lost,
        };
        if let Some(why) = cycle.filesystem_lost.take_if(|_| grain >= WHOLE) {
            cycle.broken.push(format!("the filesystem is lost: {why}"));
        }
        cycle
    }

    /// A cut that took nothing away shows nothing.
    pub fn counts(&self) -> bool {
        self.unflushed > 0 && self.filesystem_lost.is_none()
    }
}

/// The counts of one filesystem and method.
#[derive(Debug, Default, Clone)]
struct Tally {
    cycles: u64,
    empty: u64,
    filesystem_lost: u64,
    acknowledged: u64,
    lost: u64,
    unflushed: Vec<u64>,
    held: Vec<u64>,
}

/// A row of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The filesystem.
    pub filesystem: &'static str,
    /// The method.
    pub method: &'static str,
    /// Cuts that met unflushed sectors.
    pub cycles: u64,
    /// Cuts that met none; they do not count.
    pub empty: u64,
    /// Cuts after which the filesystem itself was lost, because a write tore inside of one of its
    /// 4096-byte blocks; they do not count.
    pub filesystem_lost: u64,
    /// Acknowledged records that had to be there, summed over the cuts.
    pub acknowledged: u64,
    /// Of those, not there.
    pub lost: u64,
    /// The median of the unflushed sectors at a cut.
    pub median_unflushed_sectors: u64,
    /// The median of the writes in flight at a cut.
    pub median_held_writes: u64,
}

/// Takes what several threads find.
#[derive(Debug)]
pub struct Sink {
    tallies: Mutex<BTreeMap<Cell, Tally>>,
    broken: Mutex<Vec<String>>,
    until: Option<Instant>,
    enough: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sink {
    /// An empty one; over at `until`, or when so much is broken.
    pub fn new(until: Option<Instant>, enough: usize) -> Sink {
        Sink {
            tallies: Mutex::default(),
            broken: Mutex::default(),
            until,
            enough,
        }
    }

    /// Takes a cycle in.
    pub fn cycle(&self, cell: Cell, cycle: Cycle) {
        let counts = cycle.counts();
        {
            let mut tallies = lock(&self.tallies);
            let tally = tallies.entry(cell).or_default();
            tally.lost += cycle.lost;
            if counts {
                tally.cycles += 1;
                tally.acknowledged += cycle.acknowledged;
                tally.unflushed.push(cycle.unflushed);
                tally.held.push(cycle.held);
            } else if cycle.filesystem_lost.is_some() {
                tally.filesystem_lost += 1;
            } else {
                tally.empty += 1;
            }
        }
        for broken in cycle.broken {
            self.broken(format!("{} {}: {broken}", cell.filesystem, cell.method()));
        }
    }

    /// Something broke.
    pub fn broken(&self, what: String) {
        eprintln!("BROKEN: {what}");
        lock(&self.broken).push(what);
    }

    /// Whether to stop: too much is broken, or the time is over.
    pub fn is_over(&self) -> bool {
        lock(&self.broken).len() >= self.enough || self.until.is_some_and(|u| Instant::now() >= u)
    }

    /// Everything that broke.
    pub fn all_broken(&self) -> Vec<String> {
        lock(&self.broken).clone()
    }

    /// The rows, by filesystem and method.
    pub fn rows(&self) -> Vec<Row> {
        let tallies = lock(&self.tallies);
        let row = |(cell, tally): (&Cell, &Tally)| Row {
            filesystem: cell.filesystem.name(),
            method: cell.method().name(),
            cycles: tally.cycles,
            empty: tally.empty,
            filesystem_lost: tally.filesystem_lost,
            acknowledged: tally.acknowledged,
            lost: tally.lost,
            median_unflushed_sectors: median(&tally.unflushed),
            median_held_writes: median(&tally.held),
        };
        tallies.iter().map(row).collect()
    }

    /// Over all cells: what the rows sum up to, and the medians of everything.
    pub fn total(&self) -> Tallied {
        let tallies = lock(&self.tallies);
        let sum = |of: fn(&Tally) -> u64| tallies.values().map(of).sum();
        let all = |of: fn(&Tally) -> &Vec<u64>| {
            let values: Vec<u64> = tallies.values().flat_map(|t| of(t).clone()).collect();
            median(&values)
        };
        Tallied {
            cycles: sum(|t| t.cycles),
            empty: sum(|t| t.empty),
            filesystem_lost: sum(|t| t.filesystem_lost),
            acknowledged: sum(|t| t.acknowledged),
            lost: sum(|t| t.lost),
            median_unflushed_sectors: all(|t| &t.unflushed),
            median_held_writes: all(|t| &t.held),
        }
    }
}

/// The sum of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tallied {
    /// Cuts that met unflushed sectors.
    pub cycles: u64,
    /// Cuts that met none; they do not count.
    pub empty: u64,
    /// Cuts after which the filesystem itself was lost, because a write tore inside of one of its
    /// 4096-byte blocks; they do not count.
    pub filesystem_lost: u64,
    /// Acknowledged records that had to be there, summed over the cuts.
    pub acknowledged: u64,
    /// Of those, not there.
    pub lost: u64,
    /// The median of the unflushed sectors at a cut.
    pub median_unflushed_sectors: u64,
    /// The median of the writes in flight at a cut.
    pub median_held_writes: u64,
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}
