use serde::{Deserialize, Serialize};

/// Bytes of an entry.
pub const LEN: usize = 40;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// The log is open: recovered up to `end`, its front at `start`. What it shows is durable.
    Opened,
    /// A record was accepted, at these LSNs; nothing is promised.
    RecordRange,
    /// A record was acknowledged, with a guarantee.
    Acked,
    /// Everything below `end` was acknowledged, with a guarantee.
    Forced,
    /// The front is about to be moved to `start`.
    FrontIntent,
    /// It was.
    FrontDone,
    /// The records in `start..end` are about to be voided.
    BackIntent,
    /// It was.
    BackDone,
    /// Metadata number `sequence` is about to be set.
    MetaIntent,
    /// It was.
    MetaDone,
    /// The log refused to go on.
    Failed,
    /// There was no space; nothing was accepted.
    Refused,
    /// A reader was shown record `sequence`, at these LSNs; `guarantee` says whose it is.
    Shown,
    /// A reader got the error that `start..end` was voided.
    Voided,
    /// A reader got the error that the front had passed it, and continued at `start`.
    Passed,
    /// A process gives the log back.
    Closing,
}

const KINDS: [Kind; 16] = [
    Kind::Opened,
    Kind::RecordRange,
    Kind::Acked,
    Kind::Forced,
    Kind::FrontIntent,
    Kind::FrontDone,
    Kind::BackIntent,
    Kind::BackDone,
    Kind::MetaIntent,
    Kind::MetaDone,
    Kind::Failed,
    Kind::Refused,
    Kind::Shown,
    Kind::Voided,
    Kind::Passed,
    Kind::Closing,
];

/// One thing that the subject saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The kind.
    pub kind: Kind,
    /// The number of the thread's record, or of the metadata.
    pub sequence: u64,
    /// An LSN.
    pub start: u64,
    /// An LSN.
    pub end: u64,
    /// The guarantee's rank, weakest first.
    pub guarantee: u64,
}

impl Entry {
    /// One with nothing but its kind.
    pub fn of(kind: Kind) -> Entry {
        Entry {
            kind,
            sequence: 0,
            start: 0,
            end: 0,
            guarantee: 0,
        }
    }

    /// One that says something about a range of the log.
    pub fn range(kind: Kind, start: u64, end: u64) -> Entry {
        Entry {
            start,
            end,
            ..Entry::of(kind)
        }
    }

    pub(super) fn encode(&self) -> [u8; LEN] {
        let kind = KINDS.iter().position(|k| *k == self.kind).unwrap_or(0) as u64 + 1;
        let words = [kind, self.sequence, self.start, self.end, self.guarantee];
        let mut bytes = [0; LEN];
        for (place, word) in bytes.chunks_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Entry> {
        let word = |i: usize| {
            Some(u64::from_le_bytes(
                bytes.get(i * 8..i * 8 + 8)?.try_into().ok()?,
            ))
        };
        let kind = *KINDS.get(usize::try_from(word(0)?).ok()?.checked_sub(1)?)?;
        Some(Entry {
            kind,
            sequence: word(1)?,
            start: word(2)?,
            end: word(3)?,
            guarantee: word(4)?,
        })
    }
}
