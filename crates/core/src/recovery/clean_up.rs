//! Removing leftover files of the log that are certainly useless.

use crate::names;
use logforce_device::Directory;
use std::sync::Arc;

/// Removes files of a killed calibration, empty files that were set aside, and an unfinished
/// control file, which means nothing beside the one that was opened. The caller holds the lock. A
/// file that cannot be removed costs only space.
///
/// If another process calibrates in this directory now, its file is removed as well; it notices,
/// and discards its result.
pub(super) fn clear(dir: &Arc<dyn Directory>) {
    for entry in dir.entries().unwrap_or_default() {
        let is_useless = names::is_trial(&entry.name)
            || names::is_set_aside(&entry.name) && entry.len == 0
            || entry.name == names::CONTROL_NEW
            // A torn rename can leave a backup's control file both of its names.
            || entry.name == names::BACKUP;
        if entry.is_file && is_useless {
            let _ = dir.remove(&entry.name);
        }
    }
}
