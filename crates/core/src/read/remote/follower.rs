//! State of a follower that reads the files of a log, usually in another process than the writer.

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

/// Number of times that an unreadable batch is read again before it counts as damaged.
pub(super) const RETRIES: u32 = 5;

/// Reads a log's records as they become durable, in another process than the one that writes the log, or
/// in the same. It locks and writes nothing, and does not block the writer. Each call reads the files.
///
/// It returns only records that are *proven* durable, by a stamp or by the control file. The writer puts
/// a stamp into every batch. After the last force it waits for `Tuning::idle_stamp`, and then writes a
/// batch only for its stamp. So a follower lags behind the writer by one commit under load, and otherwise
/// by the idle stamp (50 ms by default), plus the poll interval. A method weaker than `PowerLoss` has no
/// stamps. The follower then returns the records that were written before the last barrier. A segment
/// change, `truncate_front` and closing make a barrier.
///
/// It continues through crashes, closes and openings of the writer. Within a second it notices that a
/// restored backup, or another log, has replaced the log's directory or files. If the new log contains
/// the same history, it continues there. Otherwise it returns [`Error::Diverged`](crate::Error::Diverged)
/// or [`Error::OtherLog`](crate::Error::OtherLog), or [`Error::NoLog`](crate::Error::NoLog) if the log is
/// gone.
///
/// Besides records it returns these errors:
/// - [`Error::Voided`](crate::Error::Voided), once, when records were voided that it had returned, or
///   that lie below its starting position. It continues after them.
/// - [`Error::Truncated`](crate::Error::Truncated) when the front has passed it. It ends.
/// - [`Error::Io`](crate::Error::Io) (no descriptors, no memory). The next call continues at the same
///   position.
/// - Others. Each of them ends it.
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
    /// Alarm that wakes the task that awaits the next record.
    pub(super) alarm: Option<Alarm>,
    pub(super) ended: bool,
}

/// Position at which a follower is to begin.
#[derive(Clone, Copy)]
pub(super) enum Begin<'a> {
    Lsn(Lsn),
    Position(&'a Position),
}

/// Position at which a follower began.
pub(super) struct Start {
    /// LSN below which records are skipped.
    pub(super) from: Lsn,
    /// Epoch of the latest opening at that time. A later opening that begins below `from` has dropped
    /// records that the caller has.
    pub(super) epoch: Epoch,
}

/// Position up to which whole batches are read, and the records in them.
pub(super) struct BatchPosition {
    /// Boundary up to which batches were consumed.
    pub(super) consumed: ScanState,
    /// True if the byte before `consumed` was voided when it was consumed. The follower's position does not
    /// move to the end of a void range. Otherwise it would lie within an append of a history that lacks the
    /// range and replaces the log.
    pub(super) is_voided: bool,
    /// LSN and header checksum of the last batch that was consumed.
    pub(super) last: Option<(Lsn, u32)>,
    pub(super) history: History,
    pub(super) read_buffer: ReadBuffer,
    pub(super) records: Records,
    /// Number of times that the next batch could not be read.
    pub(super) retries: u32,
}

/// Interval of the checks that the log is still at its path.
pub(super) const EVERY: Duration = Duration::from_millis(500);

/// The files that were at the log's path, and the time of the next check.
#[derive(Clone)]
pub(super) struct FollowedLocation {
    control: Option<FileIdentity>,
    pub(super) next: Duration,
    /// True if the log may have been replaced, for example because it was opened again, or because its
    /// control file does not follow the last one.
    pub(super) suspect: bool,
    /// Position and control file (sequence, epoch) at which the follower last began again. It does not
    /// begin again from the same state. Otherwise bytes that stay suspicious would make it do so forever.
    pub(super) begun: Option<(Lsn, u64, Epoch)>,
    /// True if this call has begun again: the files contain the history of the position.
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

    /// Returns true if the log's path now has other files, or none.
    pub(super) fn is_displaced(&self, dir: &dyn Directory) -> bool {
        directory_displaced(dir).is_some()
            || match dir.identity_of(names::CONTROL) {
                Ok(now) => self.control.is_some_and(|known| known != now),
                Err(e) => e.kind() == io::ErrorKind::NotFound,
            }
    }
}
