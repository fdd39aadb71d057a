//! The state of a follower in another process.

use crate::names;
use crate::read::history::{History, Position};
use crate::read::position::FollowerPosition;
use crate::read::records::Records;
use crate::read::remote::alarm::Alarm;
use crate::read::remote::files::FollowedFiles;
use crate::read::remote::files::HeaderPosition;
use crate::scan::batch::ScanState;
use crate::storage::directory::directory_displaced;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::voids::Voids;
use logforce_device::{Directory, FileIdentity, Runtime};
use logforce_format::{Epoch, Lsn};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How often an unreadable batch is read again before it counts as damaged.
pub(super) const RETRIES: u32 = 5;

/// Reads a log's records as they become durable, in another process than the one that writes it (or
/// in the same). It locks and writes nothing and does not block the writer; each call reads the
/// files.
///
/// It returns what is *proven* to be durable: by a stamp, which the writer writes into every batch
/// and, `Tuning::idle_stamp` after the last force, into a batch of
/// its own; or by the control file. So it lags by one commit under load, otherwise by the idle
/// stamp (50 ms by default), plus the polling interval. With a method weaker than `PowerLoss` there
/// are no stamps: it returns what was written before the last barrier, which comes with segment
/// changes, `truncate_front` and closing.
///
/// It continues through crashes, closes and openings of the writer. Within a second it notices that a
/// restored backup, or another log, has replaced the log's directory or its files: it goes on where
/// that log contains the same history, and otherwise answers [`Error::Diverged`](crate::Error::Diverged)
/// or [`Error::OtherLog`](crate::Error::OtherLog); [`Error::NoLog`](crate::Error::NoLog) if nothing is
/// there any more. Besides records it returns
/// [`Error::Voided`](crate::Error::Voided), once, when records were voided that it had returned or that lie below where
/// it began (it continues after them); [`Error::Truncated`](crate::Error::Truncated) when the front has passed it; other
/// errors. Every error but `Voided` and [`Error::Io`](crate::Error::Io) ends it. After `Io` (no descriptors, no
/// memory) the next call continues where it was.
pub struct ReadOnlyFollower {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) poll: Duration,
    pub(super) start: Start,
    pub(super) location: FollowedLocation,
    pub(super) files: FollowedFiles,
    pub(super) headers: HeaderPosition,
    pub(super) batches: BatchPosition,
    pub(super) voids: Voids,
    pub(super) position: FollowerPosition,
    /// Wakes the task that awaits the next record.
    pub(super) alarm: Option<Alarm>,
    pub(super) ended: bool,
}

/// Where a follower is to begin.
#[derive(Clone, Copy)]
pub(super) enum Begin<'a> {
    Lsn(Lsn),
    Position(&'a Position),
}

/// Where a follower began.
pub(super) struct Start {
    /// Records below are skipped.
    pub(super) from: Lsn,
    /// The latest opening then. A later one that begins below `from` has dropped records that the
    /// caller has.
    pub(super) epoch: Epoch,
}

/// The position that reads whole batches, and the records in them.
pub(super) struct BatchPosition {
    /// The boundary up to which batches were consumed.
    pub(super) consumed: ScanState,
    /// The byte before it was voided when it was consumed. Without this, a history without that void range,
    /// which takes the log's place, would find the position in the middle of an append.
    pub(super) is_voided: bool,
    /// LSN and header checksum of the last batch that was consumed.
    pub(super) last: Option<(Lsn, u32)>,
    pub(super) history: History,
    pub(super) read_buffer: ReadBuffer,
    pub(super) records: Records,
    /// How often the next batch could not be read.
    pub(super) retries: u32,
}

/// The interval of checks.
pub(super) const EVERY: Duration = Duration::from_millis(500);

/// The files that were at the log's path, and the time of the next check.
#[derive(Clone)]
pub(super) struct FollowedLocation {
    control: Option<FileIdentity>,
    pub(super) next: Duration,
    /// The log was opened anew, or its control file is not one that follows the last.
    pub(super) suspect: bool,
    /// Position and control file (sequence, epoch) of the last new beginning. Another one there would find the
    /// same: bytes that go on to look suspicious must not have a follower begin for ever.
    pub(super) begun: Option<(Lsn, u64, Epoch)>,
    /// This call has begun anew: the files contain the history of its position.
    pub(super) just_begun: bool,
}

impl FollowedLocation {
    pub(super) fn of(dir: &dyn Directory, now: Duration) -> Self {
        FollowedLocation {
            control: dir.identity_of(names::CONTROL).ok(),
            next: now.saturating_add(EVERY),
            suspect: false,
            begun: None,
            just_begun: false,
        }
    }

    /// Returns whether other files are at the log's path.
    pub(super) fn is_displaced(&self, dir: &dyn Directory) -> bool {
        directory_displaced(dir).is_some()
            || match dir.identity_of(names::CONTROL) {
                Ok(now) => self.control.is_some_and(|known| known != now),
                Err(e) => e.kind() == io::ErrorKind::NotFound,
            }
    }
}
