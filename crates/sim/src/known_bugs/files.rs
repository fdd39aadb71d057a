//! Known bugs of durable files.

use super::{KnownBug, bug};

/// Bugs that random runs catch (`logforce-sim --files`).
pub const FILES: &[KnownBug] = &[
    bug(
        "file-sync-covers-later-writes",
        "a sync covers the writes that have completed while it ran",
    )
    .found_by(53),
    bug(
        "file-write-counted-early",
        "a sync that began before a write had ended covers the write",
    )
    .found_by(55),
    bug(
        "file-failed-sync-releases",
        "a failed sync releases the commits that waited for it",
    )
    .found_by(22),
    bug("file-failed-sync-forgotten", "a failed sync counts as done").found_by(4),
    bug(
        "file-recheck-poison",
        "a commit that waited for a failed sync makes another one, which succeeds",
    )
    .found_by(76),
    bug(
        "file-synced-by-another-descriptor",
        "the syncs of another descriptor miss an error that was reported before it was opened",
    )
    .found_by(447),
    bug(
        "file-through-is-a-barrier",
        "a write-through counts for the writes before it",
    )
    .found_by(16),
    bug(
        "file-itself-unlocked",
        "two openings have the lock, after the lock file was deleted",
    )
    .found_by(0),
    bug(
        "file-opened-unsynced",
        "what an opening showed is lost by the next power cut",
    )
    .found_by(15),
    bug(
        "file-name-unsynced",
        "a power cut takes the name of a file with acknowledged writes",
    )
    .found_by(0),
    bug(
        "file-directory-unsynced",
        "a file is created whose directory a power cut takes",
    )
    .found_by(4),
    bug(
        "file-prepares-nothing",
        "blocks that were to be written are only reserved",
    )
    .found_by(7),
    bug(
        "file-prepared-unsynced",
        "a power cut takes back the size of a prepared file",
    )
    .found_by(48),
    bug(
        "file-created-unsynced",
        "a power cut takes the name of a file that was created durably",
    )
    .found_by(0),
    bug(
        "file-renamed-before-sync",
        "a power cut leaves the new name with a file in parts",
    )
    .found_by(2),
    bug(
        "file-rename-unsynced",
        "a power cut takes back a durable rename",
    )
    .found_by(12),
];
