//! Recovery's decision table: total, each case with its label. `docs/format.md` prints the same
//! table, and a test walks both.

use crate::Reject;

/// State of the position where the next batch must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NextBatch {
    /// The batch that must come next, checksums and frames right.
    Linked,
    /// Zeroes: prepared and never written.
    Blank,
    /// A whole batch of another place or time: the segment's earlier life, an older epoch, another
    /// log.
    Stale,
    /// Bytes that are no whole batch.
    Broken,
    /// Checksums are right, frames are not: written wrong.
    Malformed,
    /// The device reports an error on reading.
    Unreadable,
    /// The control file says that a segment is here; there is none, or its header is broken.
    NoSegment,
    /// Past the last prepared segment.
    PastEnd,
}

impl NextBatch {
    /// All of them.
    pub const ALL: [NextBatch; 8] = [
        NextBatch::Linked,
        NextBatch::Blank,
        NextBatch::Stale,
        NextBatch::Broken,
        NextBatch::Malformed,
        NextBatch::Unreadable,
        NextBatch::NoSegment,
        NextBatch::PastEnd,
    ];

    /// The word in the table.
    pub fn label(self) -> &'static str {
        match self {
            NextBatch::Linked => "linked",
            NextBatch::Blank => "blank",
            NextBatch::Stale => "stale",
            NextBatch::Broken => "broken",
            NextBatch::Malformed => "malformed",
            NextBatch::Unreadable => "unreadable",
            NextBatch::NoSegment => "no-segment",
            NextBatch::PastEnd => "past-end",
        }
    }

    /// What a rejected batch counts as.
    pub fn of(reject: Reject) -> NextBatch {
        match reject {
            Reject::Zero => NextBatch::Blank,
            Reject::Magic
            | Reject::ForeignLog
            | Reject::WrongLsn(_)
            | Reject::EpochLower(_)
            | Reject::EpochUnlinked(_) => NextBatch::Stale,
            Reject::HeaderChecksum
            | Reject::Version(_)
            | Reject::Kind(_)
            | Reject::Reserved
            | Reject::Length(_)
            | Reject::StampAhead
            | Reject::VoidRange
            | Reject::PrevEpoch
            | Reject::PayloadChecksum => NextBatch::Broken,
            // Log, place, epoch and nonce fit, so this opening wrote it there: no crash makes these.
            Reject::PastSegment | Reject::Chain | Reject::Frames => NextBatch::Malformed,
        }
    }
}

/// What recovery finds at a position, where it looks for the next batch. `RecoveryReport::case` is
/// that of the log's end: it says why the log ends there. `docs/format.md` tells of each what produces
/// it and what recovery does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecoveryCase {
    /// The next batch is there.
    Next,
    /// A repair, or a later opening, has ended the log at this position and goes on further up.
    Resumed,
    /// Data known to have been durable is not there any more.
    Damaged,
    /// A segment that must exist does not.
    SegmentLost,
    /// Checksums right, contents wrong.
    WrittenWrong,
    /// A read error where nothing proves that there was acknowledged data.
    ReadError,
    /// The log ends between two writes: nothing was ever written here. It says nothing of how the
    /// log ended, which may have been a crash; that is `RecoveryReport::clean`.
    CleanEnd,
    /// The log ends before old bytes of a recycled segment, or of an opening that a later one has dropped.
    StaleEnd,
    /// The log ends before a write that was in flight when everything stopped.
    TornEnd,
    /// The log ends where the last prepared segment does, which is exactly full. Nothing is missing.
    FullEnd,
}

impl std::fmt::Display for RecoveryCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.label())
    }
}

impl RecoveryCase {
    /// All of them, in the table's order.
    pub const ALL: [RecoveryCase; 10] = [
        RecoveryCase::Next,
        RecoveryCase::Resumed,
        RecoveryCase::Damaged,
        RecoveryCase::SegmentLost,
        RecoveryCase::WrittenWrong,
        RecoveryCase::ReadError,
        RecoveryCase::CleanEnd,
        RecoveryCase::StaleEnd,
        RecoveryCase::TornEnd,
        RecoveryCase::FullEnd,
    ];

    /// The label in the table.
    pub fn label(self) -> &'static str {
        match self {
            RecoveryCase::Next => "next",
            RecoveryCase::Resumed => "resumed",
            RecoveryCase::Damaged => "damaged",
            RecoveryCase::SegmentLost => "segment-lost",
            RecoveryCase::WrittenWrong => "written-wrong",
            RecoveryCase::ReadError => "read-error",
            RecoveryCase::CleanEnd => "clean-end",
            RecoveryCase::StaleEnd => "stale-end",
            RecoveryCase::TornEnd => "torn-end",
            RecoveryCase::FullEnd => "full-end",
        }
    }

    /// What recovery does.
    #[doc(hidden)]
    pub fn decision(self) -> Decision {
        match self {
            RecoveryCase::Next => Decision::Accept,
            RecoveryCase::Resumed => Decision::Jump,
            RecoveryCase::Damaged
            | RecoveryCase::SegmentLost
            | RecoveryCase::WrittenWrong
            | RecoveryCase::ReadError => Decision::Refuse,
            RecoveryCase::CleanEnd
            | RecoveryCase::StaleEnd
            | RecoveryCase::TornEnd
            | RecoveryCase::FullEnd => Decision::End,
        }
    }
}

/// What recovery does with a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Take the batch, go on behind it.
    Accept,
    /// Go on at the epoch batch that voids from here.
    Jump,
    /// The log ends here.
    End,
    /// An opening fails and says where. A repair ends the log here; salvage goes on behind the hole.
    Refuse,
}

impl Decision {
    /// All of them.
    pub const ALL: [Decision; 4] = [
        Decision::Accept,
        Decision::Jump,
        Decision::End,
        Decision::Refuse,
    ];

    /// The word in the table.
    pub fn label(self) -> &'static str {
        match self {
            Decision::Accept => "accept",
            Decision::Jump => "jump",
            Decision::End => "end",
            Decision::Refuse => "refuse",
        }
    }
}

/// The table.
///
/// `stamped`: behind this position there is a stamp above it, or an anchor: what was here has been
/// durable. `resumed`: the first batch of a later segment is an epoch batch that chains to the last
/// valid batch and voids from here or below.
pub fn decide(seen: NextBatch, stamped: bool, resumed: bool) -> RecoveryCase {
    match (seen, stamped, resumed) {
        // A crash or damage here, then an opening or a repair: its epoch batch voids what is left.
        (_, _, true) => RecoveryCase::Resumed,
        // No crash here.
        (NextBatch::Linked, _, false) => RecoveryCase::Next,
        // No crash: the control file lists a segment once it is durable, until it has left. A deleted
        // file, or a directory entry that was lost.
        (NextBatch::NoSegment, _, false) => RecoveryCase::SegmentLost,
        // No crash: a torn write fails its checksum. A bug, or a forgery, wrote it so.
        (NextBatch::Malformed, _, false) => RecoveryCase::WrittenWrong,
        // No crash: the stamp says that these bytes were durable. Rot, a lost or misdirected write, or a
        // device that lied about a flush.
        (_, true, false) => RecoveryCase::Damaged,
        // A crash may tear a sector so that the device refuses to read it, but so may rot of acknowledged
        // data: the two cannot be told apart, so an opening refuses.
        (NextBatch::Unreadable, false, false) => RecoveryCase::ReadError,
        // A crash between two writes, or before any byte of a write reached the medium.
        (NextBatch::Blank, false, false) => RecoveryCase::CleanEnd,
        // The same in a recycled segment, or behind a torn tail that an opening has dropped.
        (NextBatch::Stale, false, false) => RecoveryCase::StaleEnd,
        // A crash in the middle of a write that nothing had acknowledged.
        (NextBatch::Broken, false, false) => RecoveryCase::TornEnd,
        // A crash after the last prepared segment was filled, before the next one was ready.
        (NextBatch::PastEnd, false, false) => RecoveryCase::FullEnd,
    }
}
