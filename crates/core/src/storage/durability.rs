//! Barriers, each with the crash against which it protects.
//!
//! A missing barrier is a bug that shows only after a loss of power. So each barrier names its reason. A
//! build with `--cfg planted` can leave out any one of them, to show that simulated and real power cuts find
//! the bug.

use logforce_device::{Barrier, Directory, File};
use logforce_format::planted;
use std::io;

/// Reason for a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A commit is acknowledged afterwards. Without it, a crash loses acknowledged records.
    Commit,
    /// Recovery read these batches from the system's cache; their writer may have crashed before
    /// its barrier. Without it, the next crash loses records that this opening has returned.
    RecoveredTail,
    /// The control file lists the segment afterwards. Without it, a crash leaves a listed segment
    /// without a header, which is damage.
    NewSegment,
    /// Batches in the segment are acknowledged afterwards. Without it, a crash loses the name, and
    /// with it the whole file.
    NewSegmentName,
    /// The epoch's first batch voids the records that recovery has dropped. Without it, a crash brings them
    /// back.
    Epoch,
    /// The other slot is overwritten next. Without it, a crash can tear both.
    ControlSlot,
    /// The file gets its name afterwards. Without it, a crash leaves a control file of zeroes.
    NewControlFile,
    /// Recovery read the slot from the system's cache. Without it, a crash may bring back a slot
    /// that lists segments which recovery removes next.
    RecoveredControl,
    /// The other slot is overwritten next, or the call returns. Without it, a crash brings back the
    /// old metadata.
    MetadataSlot,
    /// Segments get their names in the directory afterwards. Without it, a crash leaves segments that are not
    /// marked as parts of an unfinished backup.
    BackupBegun,
    /// The backup's control file lists the segment afterwards. Without it, a crash leaves a backup
    /// that opens and lacks records.
    BackupSegment,
    /// The control file gets its name afterwards. Without it, a crash leaves a backup that opens and
    /// lacks a segment.
    BackupNames,
    /// The call returns. Without it, a crash takes back a backup that was reported as made.
    BackupDone,
    /// A repair changes the file afterwards. Without it, a crash loses the records that the repair cuts.
    Copy,
    /// A repair returns. Without it, the cut records may come back if the batch that voids them is lost.
    CutEnd,
}

impl Why {
    /// Returns true if a known bug leaves this barrier out; always `false` except in a planted build.
    fn is_forgotten(self) -> bool {
        match self {
            Why::Commit => planted!("barrier-left-out"),
            Why::RecoveredTail => planted!("tail-not-forced"),
            Why::NewSegment => planted!("segment-unforced"),
            Why::NewSegmentName => planted!("segment-name-unsynced"),
            Why::Epoch => planted!("epoch-not-forced"),
            Why::ControlSlot => planted!("control-unforced"),
            Why::NewControlFile => planted!("control-named-before-forced"),
            Why::RecoveredControl => planted!("control-not-settled"),
            Why::MetadataSlot => planted!("metadata-unforced"),
            Why::BackupBegun => planted!("backup-begun-unsynced"),
            Why::BackupSegment => planted!("backup-segment-unforced"),
            Why::BackupNames => planted!("backup-names-unsynced"),
            Why::BackupDone => planted!("backup-done-unsynced"),
            Why::Copy => planted!("copy-unforced"),
            Why::CutEnd => planted!("cut-end-unforced"),
        }
    }
}

/// Runs a barrier on everything that was written to `file`.
pub(crate) fn barrier(file: &dyn File, kind: Barrier, why: Why) -> io::Result<()> {
    if why.is_forgotten() {
        return Ok(());
    }
    file.barrier(kind)
}

/// Makes the names in `dir` durable.
pub(crate) fn sync_names(dir: &dyn Directory, why: Why) -> io::Result<()> {
    if why.is_forgotten() {
        return Ok(());
    }
    dir.sync()
}
