//! Known bugs that the exhaustive tests catch.

use super::{KnownBug, bug};

/// Caught by the exhaustive suite: every bit, length, subset of names, pair of crashes.
pub const EXHAUSTIVE: &[KnownBug] = &[
    bug(
        "header-checksum-ignored",
        "2: a batch header is believed as it is",
    ),
    bug(
        "segment-header-checksum-ignored",
        "8: a segment's place is believed as it is",
    ),
    bug("metadata-checksum-ignored", "metadata that rotted is shown"),
    bug(
        "lost-metadata-is-none",
        "lost metadata passes for metadata never set",
    ),
    bug(
        "short-segment-accepted",
        "9: a segment that was cut short counts as there",
    ),
    bug(
        "epoch-not-announced",
        "10: an epoch is used that the control file does not know",
    ),
    bug(
        "control-named-before-forced",
        "12: the control file has its name before its bytes",
    ),
    bug(
        "tail-not-forced",
        "10: what was recovered is lost by the next crash",
    ),
    bug(
        "control-not-settled",
        "9: an opening builds on a control slot that the next crash takes away",
    ),
    bug(
        "metadata-not-settled",
        "metadata that an opening showed is lost by the next crash",
    ),
    bug(
        "epoch-not-forced",
        "10: the first batch of an opening is not durable when it returns",
    ),
    bug(
        "spare-of-two-names",
        "12: a file that a torn rename left with two names is used twice",
    ),
    bug(
        "discarded-stays",
        "12: a file that could not be prepared has the header of one that was prepared later",
    ),
    bug(
        "any-error-is-damage",
        "a read that fails for lack of memory is evidence of damage",
    ),
    bug("one-look-at-the-medium", "what a second look reads is lost"),
    bug(
        "short-read-is-the-end",
        "a read that answers too little is the log's end",
    ),
    bug(
        "control-slot-error-is-damage",
        "a slot of the control file that cannot be read just now is a broken slot",
    ),
    bug(
        "header-error-is-damage",
        "a segment whose header cannot be read just now is a lost segment",
    ),
    bug(
        "listing-believed",
        "a listing that is short is all there is",
    ),
    bug(
        "write-limit-unannounced",
        "3: batches lie above the limit, where nobody looks for the stamps in them",
    ),
    bug(
        "backup-begun-unsynced",
        "12: segments of a backup that nothing says to be unfinished",
    ),
    bug(
        "backup-segment-unforced",
        "1: a backup was reported as made, and a segment is not durable",
    ),
    bug(
        "backup-names-unsynced",
        "12: a backup opens and lacks a segment",
    ),
    bug(
        "backup-done-unsynced",
        "12: a backup was reported as made, and a crash takes it back",
    ),
    bug(
        "backup-control-first",
        "12: a backup opens before all of it is there",
    ),
    bug(
        "backup-of-what-was-truncated",
        "a truncation while a backup is made passes for damage",
    ),
    bug(
        "recovered-drop-believed",
        "pages that were dropped come back: a failed sync left that in the cache only",
    ),
];
