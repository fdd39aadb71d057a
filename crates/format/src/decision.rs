//! Recovery's decision table. It is total, and each case has a label. `docs/format.md` prints the same table,
//! and a test walks both.

use crate::Reject;

/// State of the position where the next batch must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NextBatch {
    /// The batch that must come next, with valid checksums and frames.
    Linked,
    /// Zeroes: prepared and never written.
    Blank,
    /// A whole batch of another position or time: from earlier use of the segment, of an older epoch, or of
    /// another log.
    Stale,
    /// Bytes that are not a whole batch.
    Broken,
    /// Valid checksums but invalid frames: the batch was written wrong.
    Malformed,
    /// The device reports an error on reading.
    Unreadable,
    /// The control file lists a segment here, but the file is missing or its header is broken.
    NoSegment,
    /// Past the last prepared segment.
    PastEnd,
}

impl NextBatch {
    /// All states.
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

    /// Returns the word in the table.
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

    /// Returns the state for a rejected batch.
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
            // Log, position, epoch and nonce fit, so this opening wrote the batch there. No crash can produce
            // these.
            Reject::PastSegment | Reject::Chain | Reject::Frames => NextBatch::Malformed,
        }
    }
}

/// State that recovery finds at a position where it expects the next batch. `RecoveryReport::case` is the
/// state at the log's end, and gives the reason for the end. `docs/format.md` lists for each case its causes
/// and what recovery does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecoveryCase {
    /// The next batch is there.
    Next,
    /// A repair, or a later opening, has ended the log at this position. The log continues further up.
    Resumed,
    /// Data known to have been durable is missing.
    Damaged,
    /// A segment that must exist is missing.
    SegmentLost,
    /// Valid checksums, but invalid contents.
    WrittenWrong,
    /// A read error, where nothing proves that there was acknowledged data.
    ReadError,
    /// The log ends between two writes: nothing was ever written here. This does not tell how the log ended,
    /// which may have been a crash; see `RecoveryReport::clean`.
    CleanEnd,
    /// The log ends before old bytes of a recycled segment, or of an opening that a later one has dropped.
    StaleEnd,
    /// The log ends before a write that was in flight when everything stopped.
    TornEnd,
    /// The log ends at the end of the last prepared segment, which is exactly full. Nothing is missing.
    FullEnd,
}

impl std::fmt::Display for RecoveryCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.label())
    }
}

impl RecoveryCase {
    /// All cases, in the order of the table.
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

    /// Returns the label in the table.
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

    /// Returns the decision of recovery.
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

/// Decision of recovery about a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Accept the batch and continue behind it.
    Accept,
    /// Continue at the epoch batch that voids from here.
    Jump,
    /// End the log here.
    End,
    /// Refuse to open, and report the position. A repair ends the log here; salvage continues behind the
    /// hole.
    Refuse,
}

impl Decision {
    /// All decisions.
    pub const ALL: [Decision; 4] = [
        Decision::Accept,
        Decision::Jump,
        Decision::End,
        Decision::Refuse,
    ];

    /// Returns the word in the table.
    pub fn label(self) -> &'static str {
        match self {
            Decision::Accept => "accept",
            Decision::Jump => "jump",
            Decision::End => "end",
            Decision::Refuse => "refuse",
        }
    }
}

/// Returns the case of the table.
///
/// `stamped`: behind this position there is a stamp above it, or an anchor. So the data here has been
/// durable. `resumed`: the first batch of a later segment is an epoch batch that chains to the last valid
/// batch and voids from here or below.
pub fn decide(seen: NextBatch, stamped: bool, resumed: bool) -> RecoveryCase {
    match (seen, stamped, resumed) {
        // A crash or damage here, and then an opening or a repair, whose epoch batch voids the rest.
        (_, _, true) => RecoveryCase::Resumed,
        // No crash here.
        (NextBatch::Linked, _, false) => RecoveryCase::Next,
        // No crash: the control file lists a segment from the time when it is durable until it has been
        // removed. A file was deleted, or a directory entry lost.
        (NextBatch::NoSegment, _, false) => RecoveryCase::SegmentLost,
        // No crash: a torn write fails its checksum. A bug or a forgery wrote it this way.
        (NextBatch::Malformed, _, false) => RecoveryCase::WrittenWrong,
        // No crash: the stamp proves that these bytes were durable. Rot, a lost or misdirected write, or a
        // device that did not flush.
        (_, true, false) => RecoveryCase::Damaged,
        // A crash may tear a sector so that the device refuses to read it, but so may rot of acknowledged
        // data. The two cannot be distinguished, so an opening refuses.
        (NextBatch::Unreadable, false, false) => RecoveryCase::ReadError,
        // A crash between two writes, or before any byte of a write reached the medium.
        (NextBatch::Blank, false, false) => RecoveryCase::CleanEnd,
        // Same, in a recycled segment or behind a torn tail that an opening has dropped.
        (NextBatch::Stale, false, false) => RecoveryCase::StaleEnd,
        // A crash in the middle of a write that was not acknowledged.
        (NextBatch::Broken, false, false) => RecoveryCase::TornEnd,
        // A crash after the last prepared segment was filled and before the next one was ready.
        (NextBatch::PastEnd, false, false) => RecoveryCase::FullEnd,
    }
}
