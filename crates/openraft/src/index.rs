//! Index of a store, in memory: which entries the Raft log has, and where they lie. Correct only if the
//! records are applied in the order of the log.

use crate::record::{Record, State};
use logforce::{Lsn, RecordRange};
use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// Bytes of durable entries that stay in memory. Replication and the state machine read an entry soon after
/// it was appended; the log has written it past the page cache, so that a read would go to the device.
pub const CACHE_BYTES: usize = 1 << 20;

/// Position of an entry.
#[derive(Debug, Clone)]
pub struct Place {
    /// Range of its record.
    pub at: RecordRange,
    /// Its body, while it is not durable or was appended recently. The log shows no record before it is
    /// durable, but Raft reads entries as soon as they are appended.
    pub body: Option<Arc<[u8]>>,
}

/// Entries and state of a store.
#[derive(Debug, Default)]
pub struct Index {
    /// Index of the first entry in `places`.
    first: u64,
    /// Entries without gaps.
    places: VecDeque<Place>,
    /// Number of entries at the beginning of `places` whose bodies were dropped.
    dropped: usize,
    cached: usize,
    /// The state as saved, or as it will be with the next record.
    pub state: State,
    /// Position of the record that last had the state.
    pub state_lsn: Lsn,
    /// True if the state has a committed log id that is in no record yet.
    pub unsaved: bool,
}

impl Index {
    /// Returns the index of the next entry; `None` if any is possible.
    pub fn next(&self) -> Option<u64> {
        match self.places.len() as u64 {
            0 => self.purged().map(|p| p.saturating_add(1)),
            len => Some(self.first.saturating_add(len)),
        }
    }

    /// Returns the index of the last entry.
    pub fn last(&self) -> Option<u64> {
        (self.places.len() as u64)
            .checked_sub(1)
            .map(|n| self.first.saturating_add(n))
    }

    /// Returns the start of the first entry.
    pub fn front(&self) -> Option<Lsn> {
        self.places.front().map(|p| p.at.start)
    }

    /// Returns the index of the last purged entry.
    pub fn purged(&self) -> Option<u64> {
        self.state.purged.as_ref().map(|p| p.index)
    }

    /// Adds an entry behind the last one.
    pub fn push(&mut self, index: u64, at: RecordRange, body: Option<Arc<[u8]>>) {
        if self.places.is_empty() {
            self.first = index;
            self.dropped = 0;
        }
        self.cached += body.as_ref().map_or(0, |b| b.len());
        self.places.push_back(Place { at, body });
    }

    /// Removes the entries from this index on.
    pub fn cut(&mut self, from: u64) {
        let keep = from
            .saturating_sub(self.first)
            .min(self.places.len() as u64) as usize;
        let gone: usize = self.places.drain(keep..).map(|p| size(&p)).sum();
        self.cached -= gone;
        self.dropped = self.dropped.min(keep);
    }

    /// Removes the entries up to this index.
    pub fn purge(&mut self, upto: u64) {
        let gone = upto.saturating_add(1).saturating_sub(self.first);
        let gone = gone.min(self.places.len() as u64) as usize;
        let bytes: usize = self.places.drain(..gone).map(|p| size(&p)).sum();
        self.cached -= bytes;
        self.dropped = self.dropped.saturating_sub(gone);
        self.first += gone as u64;
    }

    /// Drops the bodies of the oldest durable entries beyond [`CACHE_BYTES`]. An entry that is not durable
    /// stays, because it can be read nowhere else.
    pub fn trim(&mut self, durable: Lsn) {
        while self.cached > CACHE_BYTES
            && let Some(place) = self.places.get_mut(self.dropped)
            && place.at.end <= durable
        {
            self.cached -= place.body.take().map_or(0, |b| b.len());
            self.dropped += 1;
        }
    }

    /// Returns the existing entries of a range, with the index of the first one.
    pub fn range(&self, range: impl RangeBounds<u64>) -> (u64, Vec<Place>) {
        let from = match range.start_bound() {
            Bound::Included(n) => *n,
            Bound::Excluded(n) => n.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(n) => n.saturating_add(1),
            Bound::Excluded(n) => *n,
            Bound::Unbounded => u64::MAX,
        };
        let from = from.max(self.first);
        let take = to.saturating_sub(from);
        let skip = usize::try_from(from - self.first).unwrap_or(usize::MAX);
        let take = usize::try_from(take).unwrap_or(usize::MAX);
        let found = self.places.iter().skip(skip).take(take).cloned();
        (from, found.collect())
    }

    /// Applies a record while the log is replayed.
    pub fn replay(&mut self, record: Record<'_>, at: RecordRange) -> Result<(), String> {
        match record {
            Record::Entry { index, .. } => {
                let next = self.next();
                let follows = match self.places.is_empty() {
                    // Entries between the purged one and this one may lie below the front.
                    true => next.is_none_or(|next| index >= next),
                    false => next == Some(index),
                };
                if !follows {
                    let next = next.unwrap_or_default();
                    return Err(format!("is entry {index}, where entry {next} must follow"));
                }
                self.push(index, at, None);
                self.dropped = self.places.len();
            }
            Record::Cut { from } => self.cut(from),
            Record::State(state) => {
                self.state = state;
                self.state_lsn = at.start;
                if let Some(upto) = self.purged() {
                    self.purge(upto);
                }
            }
        }
        Ok(())
    }
}

fn size(place: &Place) -> usize {
    place.body.as_ref().map_or(0, |b| b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(bodies: &[usize]) -> Index {
        let mut index = Index::default();
        for (n, len) in (0..).zip(bodies) {
            let at = RecordRange {
                start: Lsn(n * 10),
                end: Lsn(n * 10 + 10),
            };
            index.push(n, at, Some(vec![0; *len].into()));
        }
        index
    }

    fn in_memory(index: &Index) -> Vec<u64> {
        let (first, places) = index.range(..);
        let places = (first..).zip(places);
        let kept = places.filter(|(_, p)| p.body.is_some());
        kept.map(|(n, _)| n).collect()
    }

    #[test]
    fn the_oldest_durable_bodies_are_dropped() {
        let mut index = index(&[CACHE_BYTES / 2; 5]);
        // The end of entry 1 is 20: it cannot be read from the log yet.
        index.trim(Lsn(19));
        assert_eq!(in_memory(&index), [1, 2, 3, 4]);
        index.trim(Lsn(50));
        assert_eq!(in_memory(&index), [3, 4]);
        index.cut(4);
        index.trim(Lsn(50));
        assert_eq!(in_memory(&index), [3]);
        index.purge(2);
        assert_eq!((index.last(), index.next()), (Some(3), Some(4)));
        let at = RecordRange {
            start: Lsn(60),
            end: Lsn(70),
        };
        index.push(4, at, Some(vec![0; CACHE_BYTES].into()));
        index.trim(Lsn(70));
        assert_eq!(in_memory(&index), [4]);
        index.cut(0);
        assert_eq!((index.last(), index.cached, index.dropped), (None, 0, 0));
    }

    #[test]
    fn ranges_have_the_existing_entries() {
        let mut index = index(&[1; 10]);
        index.purge(2);
        let found = |range: (Bound<u64>, Bound<u64>)| {
            let (first, places) = index.range(range);
            (first, places.len())
        };
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(found((Unbounded, Unbounded)), (3, 7));
        assert_eq!(found((Included(0), Excluded(5))), (3, 2));
        assert_eq!(found((Excluded(4), Included(4))).1, 0);
        assert_eq!(found((Excluded(4), Included(6))), (5, 2));
        assert_eq!(found((Included(9), Included(u64::MAX))), (9, 1));
        assert_eq!(found((Included(u64::MAX), Unbounded)).1, 0);
    }
}
