//! A follower in another process: its two positions on the chain, and what it has shown.

use crate::error::Error;
use crate::read::records::Records;
use crate::read::remote::tip::Ahead;
use crate::read::shown::Shown;
use crate::scan::batch::ScanState;
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use crate::storage::window::Window;
use logforce_device::{Directory, Runtime};
use logforce_format::{Control, Epoch, Lsn};
use std::sync::Arc;
use std::time::Duration;

/// How often a doubtful place is looked at again before it counts as damaged.
pub(super) const LOOK_AGAIN: u32 = 5;

/// Reads a log's records as they become durable, in another process than the one that writes it
/// (or in the same). It locks nothing, writes nothing and does not hold up the writer; it looks
/// into the files whenever it is asked.
///
/// It shows what is *proven* to be durable: by a stamp, which the writer puts into every batch and,
/// [`Options::idle_stamp`](crate::Options::idle_stamp) after the last force, into one by itself; or
/// by the control file. So it lags by one commit while commits follow each other, else by the idle
/// stamp (50 ms by default), and by the time from one look to the next. Under a method weaker than
/// `PowerLoss` there are no stamps: it sees what was written before the last barrier, which comes
/// with segment changes, `truncate_front` and closing.
///
/// It goes on through crashes, closings and openings of the writer. What it answers besides
/// records: [`Error::Voided`] once when records were taken back that it had shown or that lie below
/// where it began (it goes on behind them); [`Error::Truncated`] when the front passed it; other
/// errors. Every error but `Voided` and [`Error::Io`] ends it, and is answered again from then on;
/// after `Io` (no descriptors, no memory) it goes on where it was when it is asked again.
pub struct ReadOnlyFollower {
    pub(super) dir: Arc<dyn Directory>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) poll: Duration,
    /// Records below are not shown.
    pub(super) from: Lsn,
    /// The latest opening when this began. A later one that begins below `from` has cut what the
    /// caller has.
    pub(super) began: Epoch,
    pub(super) segments: Segments,
    pub(super) control: Control,
    /// The boundary up to which batches were taken.
    pub(super) taken: ScanState,
    pub(super) window: Window,
    pub(super) records: Records,
    pub(super) ahead: Ahead,
    pub(super) voids: Voids,
    pub(super) shown: Shown,
    pub(super) doubts: u32,
    pub(super) failed: Option<Error>,
}
