//! Promised contents of a log, over several sessions and cuts.

use super::Present;
use crate::ledger::{Entry, Kind};
use crate::subject::Identity;
use std::collections::BTreeMap;

/// Parts of the log, from an LSN up to another.
pub type Ranges = Vec<(u64, u64)>;

/// Session of the subject: what it had been promised at the power cut, and everything that it may have done.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// Number of the session.
    pub number: u64,
    /// Entries of each thread that were there before the cut.
    pub claimed: Vec<Vec<Entry>>,
    /// All entries: what was begun in the instant of the cut may have happened too.
    pub all: Vec<Vec<Entry>>,
}

impl Session {
    /// Returns its claims of one kind.
    pub fn claims(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.claimed
            .iter()
            .flatten()
            .filter(move |e| e.kind == kind)
    }

    /// Returns all entries of one kind.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.all.iter().flatten().filter(move |e| e.kind == kind)
    }

    /// Returns the records whose positions are known, by their starts.
    pub fn records(&self) -> BTreeMap<u64, Present> {
        let mut records = BTreeMap::new();
        for (thread, entries) in self.all.iter().enumerate() {
            for e in entries {
                if matches!(e.kind, Kind::RecordRange | Kind::Acked) {
                    records.insert(e.start, self.record(thread, e));
                }
            }
        }
        records
    }

    fn record(&self, thread: usize, entry: &Entry) -> Present {
        let identity = Identity {
            session: self.number,
            thread: thread as u64,
            sequence: entry.sequence,
            // Unknown to the ledger; only whose record it is gets compared.
            first: entry.sequence,
            count: 1,
        };
        Present {
            identity,
            end: entry.end,
        }
    }

    /// Returns the records that were acknowledged with a guarantee of at least that rank.
    fn required(&self, rank: u64) -> BTreeMap<u64, Present> {
        let mut required = BTreeMap::new();
        for (thread, entries) in self.claimed.iter().enumerate() {
            for e in entries {
                if e.kind == Kind::Acked && e.guarantee >= rank {
                    required.insert(e.start, self.record(thread, e));
                }
            }
        }
        let forced = self.claims(Kind::Forced).filter(|e| e.guarantee >= rank);
        if let Some(upto) = forced.map(|e| e.end).max() {
            let below = self.records().into_iter().filter(|(_, r)| r.end <= upto);
            required.extend(below);
        }
        required
    }
}

/// Contents of a log.
#[derive(Debug, Clone, Default)]
pub struct Survivor {
    /// Front of the log.
    pub front: u64,
    /// Exclusive end of the recovered part.
    pub end: u64,
    /// Records, by their starts.
    pub present: BTreeMap<u64, Present>,
    /// The metadata.
    pub meta: Option<Vec<u8>>,
}

/// Everything that was promised since a log was last known whole, and what it held then.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// Contents that an opening showed, and that must stay.
    pub base: Option<Survivor>,
    /// The sessions since.
    pub sessions: Vec<Session>,
    /// Number of the last session.
    pub last: u64,
    /// Records behind damage, by their starts: a repair has to keep them in its copies. `None` for a log that was
    /// never damaged.
    pub cut: Option<BTreeMap<u64, Present>>,
}

impl Promises {
    /// Adds a session that has ended.
    pub fn add(&mut self, session: Session) {
        self.last = session.number;
        self.sessions.push(session);
    }

    /// Returns true if a process has seen the log open.
    pub fn log_must_exist(&self) -> bool {
        let opened = |l: &Session| l.claims(Kind::Opened).next().is_some();
        self.base.is_some() || self.sessions.iter().any(opened)
    }

    /// Returns the records that must be there at or above `front` and outside of the voided ranges.
    pub fn required(
        &self,
        rank: u64,
        front: u64,
        truncated_back: &[(u64, u64)],
    ) -> BTreeMap<u64, Present> {
        let mut required = self
            .base
            .as_ref()
            .map_or_else(BTreeMap::new, |b| b.present.clone());
        for session in &self.sessions {
            required.extend(session.required(rank));
        }
        required.retain(|start, _| *start >= front && !within(*start, truncated_back));
        required
    }

    /// Returns the ranges that were certainly voided, and those for which the call only began.
    pub fn truncated_back(&self) -> (Ranges, Ranges) {
        let ranges = |entries: &mut dyn Iterator<Item = &Entry>| -> Ranges {
            entries.map(|e| (e.start, e.end)).collect()
        };
        let (mut done, mut begun) = (Ranges::new(), Ranges::new());
        for session in &self.sessions {
            done.extend(ranges(&mut session.claims(Kind::BackDone)));
            begun.extend(ranges(&mut session.all(Kind::BackIntent)));
        }
        begun.retain(|r| !done.contains(r));
        (done, begun)
    }

    /// Makes the contents of an opened log the promise from now on.
    pub fn replace_by(&mut self, survivor: Survivor) {
        self.base = Some(survivor);
        self.sessions.clear();
    }
}

/// Returns true if a position lies in one of the ranges.
pub fn within(at: u64, ranges: &[(u64, u64)]) -> bool {
    ranges
        .iter()
        .any(|(start, end)| (*start..*end).contains(&at))
}
