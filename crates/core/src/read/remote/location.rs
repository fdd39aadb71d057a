//! What was at a followed log's path, and when to look again.

use crate::names;
use crate::storage::directory::directory_displaced;
use logforce_device::{Directory, FileIdentity};
use logforce_format::{Epoch, Lsn};
use std::io;
use std::time::Duration;

/// The interval of checks.
pub(super) const EVERY: Duration = Duration::from_millis(500);

/// What was at the log's path, and when to look again.
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

    /// Whether other files are at the log's path.
    pub(super) fn is_displaced(&self, dir: &dyn Directory) -> bool {
        directory_displaced(dir).is_some()
            || match dir.identity_of(names::CONTROL) {
                Ok(now) => self.control.is_some_and(|known| known != now),
                Err(e) => e.kind() == io::ErrorKind::NotFound,
            }
    }
}
