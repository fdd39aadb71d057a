//! Counts of power cuts.

use crate::check::{CheckOutcome, Opening, Session};
use crate::ledger::Kind;
use crate::subject;
use logforce::{Guarantee, Method};
use logforce_crashtest::disk::Met;
use logforce_crashtest::testbed::Filesystem;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A combination under test: one filesystem, one method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The filesystem.
    pub filesystem: Filesystem,
    /// The method, by its place in [`Method::LINUX`], so that cells have an order.
    method: usize,
}

impl Cell {
    /// Combines a filesystem and a method.
    pub fn new(filesystem: Filesystem, method: Method) -> Cell {
        let place = Method::LINUX.iter().position(|m| *m == method);
        Cell {
            filesystem,
            method: place.unwrap_or(0),
        }
    }

    /// Returns the method.
    pub fn method(&self) -> Method {
        Method::LINUX[self.method]
    }

    /// Returns the options of an opening after a power cut.
    pub(crate) fn opening(&self) -> Opening {
        Opening {
            method: self.method(),
            claims: Guarantee::PowerLoss,
        }
    }
}

/// Bytes that every filesystem here writes whole. Only a cut that tears smaller pieces may destroy a filesystem.
const WHOLE: u64 = 4096;

/// The counts of one filesystem and method.
#[derive(Debug, Default, Clone)]
struct CellCounts {
    cycles: u64,
    empty: u64,
    filesystem_lost: u64,
    acknowledged: u64,
    lost: u64,
    unflushed: Vec<u64>,
    held: Vec<u64>,
}

impl CellCounts {
    fn with(mut self, more: &CellCounts) -> CellCounts {
        self.cycles += more.cycles;
        self.empty += more.empty;
        self.filesystem_lost += more.filesystem_lost;
        self.acknowledged += more.acknowledged;
        self.lost += more.lost;
        self.unflushed.extend(&more.unflushed);
        self.held.extend(&more.held);
        self
    }

    fn counts(&self) -> Counts {
        Counts {
            cycles: self.cycles,
            empty: self.empty,
            filesystem_lost: self.filesystem_lost,
            acknowledged: self.acknowledged,
            lost: self.lost,
            median_unflushed_sectors: median(&self.unflushed),
            median_held_writes: median(&self.held),
        }
    }
}

/// Counts of one filesystem and method, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Cuts that met unflushed sectors.
    pub cycles: u64,
    /// Cuts that met none, or came before anything was acknowledged; they do not count.
    pub empty: u64,
    /// Cuts after which the filesystem itself was lost, because a write tore one of its 4096-byte blocks; they do
    /// not count.
    pub filesystem_lost: u64,
    /// Acknowledged records that had to be there, summed over the cuts.
    pub acknowledged: u64,
    /// Acknowledged records that were missing.
    pub lost: u64,
    /// Median of the unflushed sectors at a cut.
    pub median_unflushed_sectors: u64,
    /// Median of the writes in flight at a cut.
    pub median_held_writes: u64,
}

/// Row of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CellRow {
    /// The filesystem.
    pub filesystem: &'static str,
    /// The method.
    pub method: &'static str,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Events in the sessions that were cut. A suite whose subject does less shows less.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Cuts while the filesystem was mounted or the log recovered.
    pub cut_before_open: u64,
    /// Cuts with writes held in flight.
    pub cut_with_held: u64,
    /// Cuts that tore writes in pieces of 512 bytes.
    pub torn_fine: u64,
    /// Fronts that were moved.
    pub fronts: u64,
    /// Times that records were voided.
    pub backs: u64,
    /// Times that metadata was set.
    pub metas: u64,
    /// Commits by threads that block.
    pub blocking: u64,
    /// Commits by threads that submit.
    pub submitted: u64,
    /// Acknowledgements of less than a force.
    pub weaker: u64,
    /// Sessions that appended further than four of the largest segments.
    pub rolled_over: u64,
    /// Cuts while the log was repaired: the next repair had something left to do.
    pub cut_in_repair: u64,
}

/// Bytes of log beyond which segments were filled and used again.
const ROLLED_OVER: u64 = 1 << 20;

impl Coverage {
    /// Counts the events of one session and its cut.
    pub fn of(session: &Session, held: u64, grain: u64) -> Coverage {
        let count = |kind| session.claims(kind).count() as u64;
        let acked = |threads: std::ops::Range<usize>| -> u64 {
            let threads = session
                .claimed
                .iter()
                .skip(threads.start)
                .take(threads.len());
            let acked = threads.flatten().filter(|e| e.kind == Kind::Acked);
            acked.count() as u64
        };
        let opened = session.claims(Kind::Opened).next();
        let begun = opened.map_or(0, |e| e.end);
        let furthest = session.claims(Kind::Acked).map(|e| e.end).max();
        let power_loss = subject::rank(Guarantee::PowerLoss);
        let weaker = session
            .claims(Kind::Acked)
            .filter(|e| e.guarantee < power_loss);
        Coverage {
            cut_before_open: u64::from(opened.is_none()),
            cut_with_held: u64::from(held > 0),
            torn_fine: u64::from(grain < WHOLE),
            fronts: count(Kind::FrontDone),
            backs: count(Kind::BackDone),
            metas: count(Kind::MetaDone),
            blocking: acked(0..subject::BLOCKING),
            submitted: acked(subject::BLOCKING..subject::CONTROL),
            weaker: weaker.count() as u64,
            rolled_over: u64::from(furthest.is_some_and(|f| f - begun.min(f) > ROLLED_OVER)),
            cut_in_repair: 0,
        }
    }

    /// Counts the check after a power cut.
    pub fn of_repair(outcome: &CheckOutcome) -> Coverage {
        Coverage {
            cut_in_repair: u64::from(outcome.repaired),
            ..Coverage::default()
        }
    }

    fn fields(&self) -> [(&'static str, u64); 11] {
        [
            ("cuts before the log was open", self.cut_before_open),
            ("cuts with writes held", self.cut_with_held),
            ("cuts that tore 512 bytes", self.torn_fine),
            ("fronts moved", self.fronts),
            ("truncations at the back", self.backs),
            ("metadata set", self.metas),
            ("blocking commits", self.blocking),
            ("submitted commits", self.submitted),
            ("weaker acknowledgements", self.weaker),
            ("sessions that came round the segments", self.rolled_over),
            ("cuts while the log was repaired", self.cut_in_repair),
        ]
    }

    /// Returns the events that happened in fewer than one of fifty of `cuts`. `repairs`: logs were repaired. On a busy
    /// machine few sessions reuse segments, so that is required of 200 cuts or more.
    pub fn missing(&self, cuts: u64, repairs: bool) -> impl Iterator<Item = &'static str> {
        let least = cuts.div_ceil(50).max(1);
        let asked = Coverage {
            rolled_over: if cuts < 200 { least } else { self.rolled_over },
            // Repairs are short: a third of that.
            cut_in_repair: if repairs {
                3 * self.cut_in_repair
            } else {
                least
            },
            ..*self
        };
        let fields = asked.fields().into_iter();
        fields
            .filter(move |(_, n)| *n < least)
            .map(|(what, _)| what)
    }
}

impl std::ops::AddAssign for Coverage {
    fn add_assign(&mut self, more: Coverage) {
        self.cut_before_open += more.cut_before_open;
        self.cut_with_held += more.cut_with_held;
        self.torn_fine += more.torn_fine;
        self.fronts += more.fronts;
        self.backs += more.backs;
        self.metas += more.metas;
        self.blocking += more.blocking;
        self.submitted += more.submitted;
        self.weaker += more.weaker;
        self.rolled_over += more.rolled_over;
        self.cut_in_repair += more.cut_in_repair;
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = self.fields().map(|(what, n)| format!("{n} {what}"));
        f.write_str(&fields.join(", "))
    }
}

/// Results of several threads.
#[derive(Debug)]
pub struct Sink {
    coverage: Mutex<Coverage>,
    cells: Mutex<BTreeMap<Cell, CellCounts>>,
    broken: Mutex<Vec<String>>,
    until: Option<Instant>,
    enough: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sink {
    /// Returns an empty one. It is over at `until`, or after `enough` findings.
    pub fn new(until: Option<Instant>, enough: usize) -> Sink {
        Sink {
            coverage: Mutex::default(),
            cells: Mutex::default(),
            broken: Mutex::default(),
            until,
            enough,
        }
    }

    /// Adds the check after a cut. Returns false if the cut could lose nothing, or came before anything was acknowledged:
    /// then it shows nothing.
    pub fn cut(&self, cell: Cell, outcome: CheckOutcome, met: Met) -> bool {
        let is_lost = outcome.filesystem_lost.is_some();
        let counts = met.unflushed_sectors > 0 && outcome.acknowledged > 0 && !is_lost;
        {
            let mut cells = lock(&self.cells);
            let of_cell = cells.entry(cell).or_default();
            of_cell.lost += outcome.lost;
            if counts {
                of_cell.cycles += 1;
                of_cell.acknowledged += outcome.acknowledged;
                of_cell.unflushed.push(met.unflushed_sectors);
                of_cell.held.push(met.in_flight);
            } else if is_lost {
                of_cell.filesystem_lost += 1;
            } else {
                of_cell.empty += 1;
            }
        }
        for broken in outcome.broken {
            self.broken(format!("{} {}: {broken}", cell.filesystem, cell.method()));
        }
        counts
    }

    /// Adds the events of a session.
    pub fn session(&self, coverage: Coverage) {
        *lock(&self.coverage) += coverage;
    }

    /// Returns the events of all sessions.
    pub fn coverage(&self) -> Coverage {
        *lock(&self.coverage)
    }

    /// Adds a finding.
    pub fn broken(&self, what: String) {
        eprintln!("BROKEN: {what}");
        lock(&self.broken).push(what);
    }

    /// Returns true if the time is over or enough is broken.
    pub fn is_over(&self) -> bool {
        lock(&self.broken).len() >= self.enough || self.until.is_some_and(|u| Instant::now() >= u)
    }

    /// Returns all findings.
    pub fn all_broken(&self) -> Vec<String> {
        lock(&self.broken).clone()
    }

    /// Returns the rows, by filesystem and method.
    pub fn rows(&self) -> Vec<CellRow> {
        let cells = lock(&self.cells);
        let row = |(cell, counts): (&Cell, &CellCounts)| CellRow {
            filesystem: cell.filesystem.name(),
            method: cell.method().name(),
            counts: counts.counts(),
        };
        cells.iter().map(row).collect()
    }

    /// Returns the sums and the medians over all cells.
    pub fn total(&self) -> Counts {
        let cells = lock(&self.cells);
        let all = cells.values().fold(CellCounts::default(), CellCounts::with);
        all.counts()
    }
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hardly_happened_is_named() {
        let mut coverage = Coverage {
            cut_before_open: 2,
            cut_with_held: 3,
            torn_fine: 3,
            fronts: 3,
            backs: 3,
            metas: 3,
            blocking: 3,
            submitted: 3,
            weaker: 3,
            rolled_over: 3,
            cut_in_repair: 3,
        };
        let rare = |c: &Coverage, cuts| c.missing(cuts, true).collect::<Vec<_>>();
        assert_eq!(rare(&coverage, 100), [""; 0]);
        assert_eq!(rare(&coverage, 101), ["cuts before the log was open"]);
        coverage.weaker = 0;
        assert_eq!(rare(&coverage, 1), ["weaker acknowledgements"]);
        coverage.cut_in_repair = 0;
        assert_eq!(rare(&coverage, 1).len(), 2);
        assert_eq!(coverage.missing(1, false).count(), 1);
    }
}
