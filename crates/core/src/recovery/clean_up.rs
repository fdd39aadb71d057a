//! Files that are certainly ours and of no use to anybody.

use crate::names;
use logforce_device::Directory;
use std::sync::Arc;

/// Removes what a killed calibration left, empty files that were set aside, and a control file that was
/// being made: beside one that has been made, by which the log was opened, it is of no log. With the
/// lock held. One that cannot be removed costs space and nothing else.
///
/// A calibration that another process has under way in this directory loses the name of its file by
/// this; it notices, and throws its result away.
pub(super) fn clear(dir: &Arc<dyn Directory>) {
    for entry in dir.entries().unwrap_or_default() {
        let dead = names::is_trial(&entry.name)
            || names::is_set_aside(&entry.name) && entry.len == 0
            || entry.name == names::CONTROL_NEW;
        if entry.is_file && dead {
            let _ = dir.remove(&entry.name);
        }
    }
}
