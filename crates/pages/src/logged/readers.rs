//! Table of readers: which states are read, and which states new readers get. It is outside the state and its
//! mutex, so that threads that begin and end to read at the same time wait neither for each other nor for
//! commits.
//!
//! The table has a few lanes. A thread uses the same lane each time, and takes only that lane's lock. The
//! states that a lane shows to new readers are set with the state locked.
//!
//! A version may be forgotten if no reader reads it, and no new reader can begin to. So, with the state
//! locked, the lanes first show the new durable state, and are then asked for their readers. A reader that
//! comes to a lane before it was asked is seen. A reader that comes later gets a state at least as new as the
//! one shown, whose versions stay.
//!
//! Lanes learn of a commit one after the other. No thread may get an older state than another one got before
//! it. So a reader compares its lane with what it can know: the durable state with the log, and the latest
//! state with a number that is set first. If its lane is behind, the reader waits for the state.

use logforce_device::sync::{Apart, AtomicU64, Mutex, MutexGuard, lane};
use logforce_format::{Lsn, planted};
use std::cell::OnceCell;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Number of lanes. Threads in different lanes begin and end to read without contention. A commit shows its
/// state in each lane.
const LANES: usize = 8;

/// States that a lane shows to new readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) latest: CommitPoint,
    pub(super) durable: CommitPoint,
    /// End of the first state after `durable`; `None` if there is none.
    pub(super) next: Option<Lsn>,
    pub(super) is_closing: bool,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct ReaderTable {
    lanes: Vec<Apart<Mutex<Lane>>>,
    /// End of the latest state that any lane shows.
    latest: Apart<AtomicU64>,
}

#[derive(Debug)]
struct Lane {
    shown: Shown,
    readers: Readers,
}

/// State that is registered in this lane as being read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) at: CommitPoint,
    pub(super) lane: usize,
}

/// Answer to a thread that begins to read.
#[derive(Debug)]
pub(super) enum Beginning {
    Begun(Begun),
    /// The lane does not show the newest state yet. The caller must lock the state first.
    Behind,
    Closing,
}

impl ReaderTable {
    pub(super) fn new(shown: Shown) -> ReaderTable {
        let lane = || Lane {
            shown,
            readers: Readers::default(),
        };
        ReaderTable {
            lanes: (0..LANES).map(|_| Apart(Mutex::new(lane()))).collect(),
            latest: Apart(AtomicU64::new(shown.latest.end.0)),
        }
    }

    /// Returns the number of lanes.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn lane(&self, lane: usize) -> MutexGuard<'_, Lane> {
        let lane = self.lanes[lane].lock();
        lane.unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a newer state, in one lane after the other. Call with the state locked.
    pub(super) fn show(&self, shown: Shown) {
        self.latest.store(shown.latest.end.0, Release);
        for lane in 0..self.lanes.len() {
            self.lane(lane).shown = shown;
        }
    }

    /// Begins to read the latest committed state.
    pub(super) fn latest(&self) -> Beginning {
        // Every lane shows a state only after this number was set. So the number covers each state that
        // another thread has got before.
        let least = Lsn(self.latest.load(Acquire));
        self.begin(|shown| {
            let is_newest = planted!("latest-goes-back", true, else shown.latest.end >= least);
            is_newest.then_some(shown.latest)
        })
    }

    /// Begins to read the durable state. The log is durable up to `forced`.
    pub(super) fn durable(&self, forced: Lsn) -> Beginning {
        self.begin(|shown| {
            let is_newest = shown.next.is_none_or(|next| next > forced);
            is_newest.then_some(shown.durable)
        })
    }

    fn begin(&self, choose: impl Fn(&Shown) -> Option<CommitPoint>) -> Beginning {
        let number = lane(self.lanes.len());
        let mut lane = self.lane(number);
        if lane.shown.is_closing {
            return Beginning::Closing;
        }
        let Some(at) = choose(&lane.shown) else {
            return Beginning::Behind;
        };
        lane.readers.add(at.end);
        Beginning::Begun(Begun { at, lane: number })
    }

    /// Ends a registration.
    pub(super) fn end(&self, begun: Begun) {
        self.lane(begun.lane).readers.remove(begun.at.end);
    }

    /// Returns the present readers. Call with the state locked, after the states for new readers were shown.
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            table: self,
            all: OnceCell::new(),
        }
    }

    fn all(&self) -> Readers {
        let mut all = Readers::default();
        let lanes = if planted!("one-lane-asked") {
            1
        } else {
            self.lanes.len()
        };
        for lane in 0..lanes {
            all.merge(&self.lane(lane).readers);
        }
        all
    }
}

/// States that are being read, from all lanes. The lanes are asked when the answer is needed first: most
/// commits leave only one version of a page and do not need it.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    table: &'a ReaderTable,
    all: OnceCell<Readers>,
}

impl Asked<'_> {
    fn all(&self) -> &Readers {
        self.all.get_or_init(|| self.table.all())
    }

    /// Returns true if a state from `from` on and below `to` is being read.
    pub(super) fn any_in(&self, from: Lsn, to: Lsn) -> bool {
        self.all().any_in(from, to)
    }

    /// Returns the oldest state that is being read.
    pub(super) fn oldest(&self) -> Option<Lsn> {
        self.all().oldest()
    }
}

/// States that readers and transactions hold, in ascending order, with the number of holders of each. Most
/// come and go at the end of the list, which costs no allocation.
#[derive(Debug, Default)]
struct Readers(Vec<(Lsn, usize)>);

impl Readers {
    fn find(&self, at: Lsn) -> Result<usize, usize> {
        self.0.binary_search_by_key(&at, |(at, _)| *at)
    }

    fn add(&mut self, at: Lsn) {
        self.add_many(at, 1);
    }

    fn add_many(&mut self, at: Lsn, count: usize) {
        match self.find(at) {
            Ok(i) => self.0[i].1 += count,
            Err(i) => self.0.insert(i, (at, count)),
        }
    }

    fn merge(&mut self, others: &Readers) {
        for (at, count) in &others.0 {
            self.add_many(*at, *count);
        }
    }

    fn remove(&mut self, at: Lsn) {
        if let Ok(i) = self.find(at) {
            self.0[i].1 -= 1;
            if self.0[i].1 == 0 {
                self.0.remove(i);
            }
        }
    }

    fn any_in(&self, from: Lsn, to: Lsn) -> bool {
        let first = self.0.partition_point(|(at, _)| *at < from);
        self.0.get(first).is_some_and(|(at, _)| *at < to)
    }

    fn oldest(&self) -> Option<Lsn> {
        self.0.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn point(end: u64) -> CommitPoint {
        CommitPoint {
            end: Lsn(end),
            commit: end,
            page_count: 1,
        }
    }

    fn shown(durable: u64, next: Option<u64>, latest: u64) -> Shown {
        Shown {
            latest: point(latest),
            durable: point(durable),
            next: next.map(Lsn),
            is_closing: false,
        }
    }

    #[test]
    fn no_lane_gives_an_older_state_than_another_has_shown() {
        let table = ReaderTable::new(shown(10, None, 10));
        // A commit shows its state, and has not reached any lane yet.
        table.latest.store(20, Release);
        assert!(matches!(table.latest(), Beginning::Behind));
        table.show(shown(10, Some(20), 20));
        assert!(matches!(table.latest(), Beginning::Begun(b) if b.at == point(20)));
    }

    /// Makes a table in which these states are read, each in another lane as far as there are lanes.
    pub(in crate::logged) fn table(reading: &[u64]) -> ReaderTable {
        let table = ReaderTable::new(shown(0, None, 0));
        for (i, at) in reading.iter().enumerate() {
            table.lane(i % LANES).readers.add(Lsn(*at));
        }
        table
    }

    #[test]
    fn who_reads_is_asked_of_all_lanes() {
        let reading: Vec<u64> = (0..2 * LANES as u64).map(|n| 100 - n).collect();
        let table = table(&reading);
        let asked = table.asked();
        assert_eq!(asked.oldest(), reading.last().map(|at| Lsn(*at)));
        assert!(reading.iter().all(|at| asked.any_in(Lsn(*at), Lsn(at + 1))));
        assert!(!asked.any_in(Lsn(0), Lsn(100 - 2 * LANES as u64 + 1)));
    }

    #[test]
    fn a_state_is_read_until_the_last_reader_of_it_ends() {
        let table = ReaderTable::new(shown(10, None, 10));
        let begin = || match table.latest() {
            Beginning::Begun(begun) => begun,
            other => panic!("{other:?}"),
        };
        let (first, second) = (begin(), begin());
        assert_eq!(first.at, point(10));
        table.end(first);
        assert_eq!(table.asked().oldest(), Some(Lsn(10)));
        table.end(second);
        assert_eq!(table.asked().oldest(), None);
    }

    #[test]
    fn a_reader_may_end_in_another_thread() {
        let table = ReaderTable::new(shown(10, None, 10));
        let begun: Vec<Begun> = std::thread::scope(|scope| {
            let begin = || match table.latest() {
                Beginning::Begun(begun) => begun,
                other => panic!("{other:?}"),
            };
            let threads: Vec<_> = (0..LANES + 1).map(|_| scope.spawn(begin)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let lanes: std::collections::HashSet<usize> = begun.iter().map(|b| b.lane).collect();
        assert!(lanes.len() > 1, "threads use different lanes");
        begun.into_iter().for_each(|begun| table.end(begun));
        assert_eq!(table.asked().oldest(), None);
    }

    #[test]
    fn a_reader_of_what_is_durable_gets_all_of_it() {
        let table = ReaderTable::new(shown(10, None, 10));
        let durable = |forced| table.durable(Lsn(forced));
        let begun_at = |beginning| match beginning {
            Beginning::Begun(begun) => Some(begun.at.end.0),
            Beginning::Behind | Beginning::Closing => None,
        };
        assert_eq!(
            begun_at(durable(15)),
            Some(10),
            "nothing is committed above"
        );
        table.show(shown(10, Some(20), 30));
        assert_eq!(begun_at(durable(19)), Some(10));
        assert_eq!(begun_at(durable(20)), None, "that commit is acknowledged");
        table.show(shown(20, Some(30), 30));
        assert_eq!(begun_at(durable(20)), Some(20));
        table.show(Shown {
            is_closing: true,
            ..shown(20, Some(30), 30)
        });
        assert!(matches!(table.latest(), Beginning::Closing));
    }
}

/// Committed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommitPoint {
    /// End of the last commit's record, which serves as the number of the state.
    pub(super) end: Lsn,
    /// Number of that commit.
    pub(super) commit: u64,
    /// Exclusive end of the page numbers.
    pub(super) page_count: u64,
}
