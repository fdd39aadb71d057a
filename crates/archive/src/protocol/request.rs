//! Requests to object storage, and their answers.

use crate::key::{Epoch, Key};
use crate::object::{Hint, Object};
use logforce::Lsn;

/// Request to object storage. A machine never has two equal requests open, so a request names its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Returns the keys of a listing.
    List(Listing),
    /// Returns the object at a key.
    Get(Key),
    /// Creates the object at its key if nothing is there. A chunk or segment says which bytes the caller adds.
    Create(Object),
    /// Replaces the hint.
    Replace(Hint),
    /// Deletes the object at a key.
    Delete(Key),
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// The object was created, replaced or deleted.
    Done,
    /// The object was not created, since the key exists. It may be the object itself, from an earlier try.
    Exists,
    /// Nothing is at the key.
    Missing,
    /// The object at the key.
    Found(Object),
    /// Keys of the listing, in any order, those of all pages.
    Listed(Vec<Key>),
    /// It is not known if the request took effect or will: a lost answer, a time-out, an error of the server.
    Unknown,
}

/// Set of keys to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Listing {
    /// Chunks and seals of an epoch, in a range of places.
    Places {
        /// Epoch.
        epoch: Epoch,
        /// Lowest place.
        from: u64,
        /// Exclusive end.
        to: u64,
    },
    /// Chunks and seals of all epochs before this one.
    Before(Epoch),
    /// Chunks and seals of all epochs after this one.
    After(Epoch),
    /// Floors of an epoch.
    Floors(Epoch),
    /// Segments that start at or above a position.
    Segments(Lsn),
    /// Records of pruning.
    Pruned,
}

impl Listing {
    /// Returns the common beginning of the names.
    pub fn prefix(&self) -> String {
        match self {
            Listing::Places { epoch, .. } => format!("e/{:020}/", epoch.0),
            Listing::Before(_) | Listing::After(_) => "e/".to_owned(),
            Listing::Floors(epoch) => format!("f/{:020}/", epoch.0),
            Listing::Segments(_) => "s/".to_owned(),
            Listing::Pruned => "p/".to_owned(),
        }
    }

    /// Returns the name behind which the listing begins, if that is not its prefix.
    pub fn after(&self) -> Option<String> {
        match self {
            Listing::Places { epoch, from, .. } => from.checked_sub(1).map(|place| {
                let epoch = *epoch;
                Key::Place { epoch, place }.to_string()
            }),
            // Sorts behind each name of this epoch, since a digit sorts behind a slash.
            Listing::After(epoch) => Some(format!("e/{:020}0", epoch.0)),
            // Sorts before each name of a segment that starts there.
            Listing::Segments(from) => Some(format!("s/{:020}", from.0)),
            Listing::Before(_) | Listing::Floors(_) | Listing::Pruned => None,
        }
    }

    /// Returns true if the key belongs to the listing. The first later one that does not ends it.
    pub fn contains(&self, key: &Key) -> bool {
        match (self, key) {
            (Listing::Places { epoch, from, to }, Key::Place { epoch: e, place }) => {
                e == epoch && (from..to).contains(&place)
            }
            (Listing::Before(end), Key::Place { epoch, .. }) => epoch < end,
            (Listing::After(start), Key::Place { epoch, .. }) => epoch > start,
            (Listing::Floors(epoch), Key::Floor { epoch: e, .. }) => e == epoch,
            (Listing::Segments(lsn), Key::Segment { from, .. }) => from >= lsn,
            (Listing::Pruned, Key::Pruned(_)) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what object storage lists: names with the prefix, behind `after`, up to the first that does not
    /// belong.
    fn listed(listing: Listing, keys: &[Key]) -> Vec<Key> {
        let mut names: Vec<(String, &Key)> =
            keys.iter().map(|key| (key.to_string(), key)).collect();
        names.sort();
        let from = names.into_iter().filter(|(name, _)| {
            let is_behind = listing.after().is_none_or(|after| *name > after);
            name.starts_with(&listing.prefix()) && is_behind
        });
        let keys = from.map(|(_, key)| key.clone());
        keys.take_while(|key| listing.contains(key)).collect()
    }

    #[test]
    fn a_listing_returns_all_keys_that_it_contains() {
        let numbers = [0, 1, 2, 9, 10, 11, u64::MAX];
        let mut keys = vec![Key::Identity, Key::Hint, Key::Mark("x".to_owned())];
        for a in numbers {
            keys.push(Key::Pruned(Lsn(a)));
            for place in numbers {
                let (epoch, from) = (Epoch(a), Lsn(a));
                let (lsn, to) = (Lsn(place), Lsn(place));
                keys.push(Key::Place { epoch, place });
                keys.push(Key::Floor { epoch, place, lsn });
                keys.push(Key::Segment { from, to });
            }
        }
        keys.sort();
        for a in numbers {
            let epoch = Epoch(a);
            let listings = [
                Listing::Before(epoch),
                Listing::After(epoch),
                Listing::Floors(epoch),
                Listing::Segments(Lsn(a)),
                Listing::Pruned,
                Listing::Places {
                    epoch,
                    from: 0,
                    to: 10,
                },
                Listing::Places {
                    epoch,
                    from: 9,
                    to: u64::MAX,
                },
            ];
            for listing in listings {
                let mut all = keys.clone();
                all.retain(|key| listing.contains(key));
                assert_eq!(listed(listing, &keys), all, "{listing:?}");
            }
        }
    }
}
