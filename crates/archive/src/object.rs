//! Objects of an archive as plain data, without their bytes. The keys are in `key`.
//!
//! A chunk and a segment carry raw log beside what is here. The protocol decides by these values alone.

use crate::key::{BaseId, Epoch, Key};
use logforce::{LogId, Lsn};

/// Random number of one opening for writing. Two objects at one key are the same if it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nonce(pub u128);

impl Nonce {
    /// Returns a nonce of the log's opening with the random number `opening`. `random` makes it differ from
    /// those of other claims by that opening.
    pub fn new(opening: u64, random: u64) -> Nonce {
        Nonce(u128::from(opening) << 64 | u128::from(random))
    }

    /// Returns the random number of the log's opening.
    pub fn opening(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// Object of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Object {
    /// Identity of the archive.
    Identity(Identity),
    /// Chunk of the log.
    Chunk(Chunk),
    /// Seal of an epoch.
    Seal(Seal),
    /// Floor of an epoch.
    Floor(Floor),
    /// Whole segment.
    Segment(Segment),
    /// Name for a position.
    Mark(Mark),
    /// Record of a deletion on purpose.
    Pruned(Pruned),
    /// Base copy of a page file.
    Base(Base),
    /// Part of a base copy.
    Part(Part),
    /// Newest known epoch.
    Hint(Hint),
}

/// Identity of the archive. Its creator decides where the archive begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Log in the archive.
    pub log: LogId,
    /// Start of the archive: the log's front when it was created. The first epoch with an owner begins here.
    pub start: Lsn,
}

/// Chunk of the log: the bytes `[from, to)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chunk {
    /// Epoch of its writer.
    pub epoch: Epoch,
    /// Number within the epoch.
    pub place: u64,
    /// Nonce of its writer.
    pub nonce: Nonce,
    /// First byte of the log in it.
    pub from: Lsn,
    /// Exclusive end: a durable LSN, so that no batch is split.
    pub to: Lsn,
    /// Front of the log when the chunk was made.
    pub front: Lsn,
    /// Place below which the writer had seen each place hold a chunk. Saves a taker from reading those.
    pub settled: u64,
    /// Time when the chunk was durable locally, Unix time in ns.
    pub time: u64,
}

/// Seal of an epoch: the fence for its owner, and the claim of the next one.
///
/// It does not say where the log ends. A taker of an epoch with a live owner puts seals in many places at
/// once, and cannot know which chunk will lie below the one that counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seal {
    /// Epoch that ends here.
    pub epoch: Epoch,
    /// Number within the epoch.
    pub place: u64,
    /// Nonce of the owner of the next epoch.
    pub nonce: Nonce,
    /// Name of the next owner, for people.
    pub owner: String,
    /// Place below which the taker had seen each place hold a chunk.
    pub settled: u64,
    /// Time of the claim, Unix time in ns.
    pub time: u64,
}

/// Floor of an epoch: objects at lower places do not count. Largest of an epoch's floors counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Floor {
    /// Epoch whose floor it is.
    pub epoch: Epoch,
    /// Lowest place that counts.
    pub place: u64,
    /// Start of the log at that place. The log below it lies in segments.
    pub lsn: Lsn,
}

/// Whole segment: the bytes `[from, to)`. Its content is decided before it is put, so it has no owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment {
    /// First byte of the log in it.
    pub from: Lsn,
    /// Exclusive end.
    pub to: Lsn,
}

/// Name for a position.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    /// Name.
    pub name: String,
    /// Position.
    pub lsn: Lsn,
    /// Time of its creation, Unix time in ns.
    pub time: u64,
}

/// Record of a deletion on purpose: the log below was deleted. Largest one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pruned {
    /// Exclusive end of the deleted part.
    pub lsn: Lsn,
}

/// Length of the header of a page file in a base copy, bytes. The rest of its slot is zero.
pub const PAGE_HEADER_LEN: usize = 88;

/// Base copy of a page file. It is created last, so it states that all its parts are there, and that the log
/// up to its end is. It has no owner: what it states stays true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Base {
    /// Name.
    pub id: BaseId,
    /// Start of the log's segment with which a restored log begins.
    pub first_segment: Lsn,
    /// Position that the copy stands for: with less of the log it is not complete.
    pub end: Lsn,
    /// Number of parts.
    pub parts: u64,
    /// Bytes of the page file in them.
    pub bytes: u64,
    /// Time at which the log up to `end` was in the archive, Unix time in ns.
    pub time: u64,
    /// Beginning of the page file's header.
    pub header: [u8; PAGE_HEADER_LEN],
}

/// Part of a base copy. It carries pages beside what is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    /// Base copy.
    pub base: BaseId,
    /// Number within the copy, from 0.
    pub number: u64,
    /// Time at which it was made, Unix time in ns.
    pub time: u64,
}

/// Newest known epoch: a true statement about the past, which saves the walk from epoch 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hint {
    /// Epoch.
    pub epoch: Epoch,
    /// Nonce of its owner.
    pub nonce: Nonce,
    /// Name of its owner, for people.
    pub owner: String,
    /// Start of the log in this epoch.
    pub first: Lsn,
}

impl Segment {
    /// Returns the number of bytes of the log in it.
    #[allow(clippy::len_without_is_empty, reason = "a segment is not empty")]
    pub fn len(&self) -> u64 {
        self.to.since(self.from)
    }
}

impl Object {
    /// Returns the key of the object.
    pub fn key(&self) -> Key {
        match self {
            Object::Identity(_) => Key::Identity,
            Object::Chunk(Chunk { epoch, place, .. }) | Object::Seal(Seal { epoch, place, .. }) => {
                Key::Place {
                    epoch: *epoch,
                    place: *place,
                }
            }
            Object::Floor(floor) => Key::Floor {
                epoch: floor.epoch,
                place: floor.place,
                lsn: floor.lsn,
            },
            Object::Segment(segment) => Key::Segment {
                from: segment.from,
                to: segment.to,
            },
            Object::Mark(mark) => Key::Mark(mark.name.clone()),
            Object::Pruned(pruned) => Key::Pruned(pruned.lsn),
            Object::Base(base) => Key::Base(base.id),
            Object::Part(Part { base, number, .. }) => Key::Part {
                base: *base,
                number: *number,
            },
            Object::Hint(_) => Key::Hint,
        }
    }
}
