//! Known bugs of the page file.

use super::{KnownBug, bug};

/// Bugs that random runs catch (`logforce-sim --pages`).
pub const PAGES: &[KnownBug] = &[
    bug(
        "page-before-log",
        "a page is written before its commit is durable in the log",
    ).found_by(40),
    bug(
        "data-file-unsynced",
        "the log is truncated before the data file is synced",
    ).found_by(29),
    bug(
        "failed-flush-forgotten",
        "a sync between two parts of a checkpoint fails, and counts as done",
    ).found_by(2309),
    bug(
        "log-truncated-early",
        "the log is truncated before the header says where redo begins",
    ).found_by(6),
    bug(
        "range-without-image",
        "ranges of a page are logged whose image lies before the place where redo begins",
    ).found_by(2),
    bug(
        "holes-are-room",
        "holes of a data file that is opened again count as space that a commit has",
    ).found_by(308),
    bug(
        "room-for-the-last-page",
        "a commit far behind the end takes space for its last page alone",
    ).found_by(55),
    bug(
        "added-without-room",
        "a commit adds dropped pages again, for whose clearing it takes no space",
    ).found_by(1061363334450),
    bug(
        "dropped-without-room",
        "a commit drops pages of a copy with shared blocks, and takes no space for the map",
    ).found_by(1533),
    bug(
        "older-reader-forgotten",
        "a page is overwritten that an older snapshot reads",
    ).found_by(4),
    bug(
        "clean-page-kept",
        "a page that is overwritten in the data file stays in memory as it was",
    ).found_by(2),
    bug(
        "newer-version-shown",
        "a reader of an older state gets the newest version of a page",
    ).found_by(2),
    bug(
        "conflict-missed",
        "two transactions that write one page both commit",
    ).found_by(2),
    bug("page-checksum-unverified", "a damaged page is served").found_by(1),
    bug(
        "page-header-checksum-ignored",
        "a damaged header of a page file is believed",
    ).found_by(106),
    bug(
        "page-header-before-pages",
        "the header is written before the pages that it reaches are durable",
    ).found_by(0),
    bug(
        "cow-barrier-left-out",
        "a commit is acknowledged before its pages are durable",
    ).found_by(0),
    bug(
        "freed-page-reused-early",
        "a place is written over that a valid header still reaches",
    ).found_by(0),
    bug(
        "cow-failed-barrier-forgotten",
        "a barrier that failed counts as done",
    ).found_by(48),
    bug(
        "cow-conflict-missed",
        "two transactions that write one page both commit",
    ).found_by(0),
    bug(
        "cow-view-not-held",
        "a place is written over that a snapshot reads",
    ).found_by(0),
    bug(
        "cow-older-slot-forgotten",
        "a place is written over that the older header slot reaches",
    ).found_by(36),
    bug(
        "cow-places-published-early",
        "a page is taken for written while an older version of it is in flight",
    ).found_by(8305),
    bug(
        "cow-places-published-late",
        "a snapshot of what is in flight changes when it is written",
    ).found_by(3),
    bug(
        "cow-rolled-back-kept",
        "a commit that was refused for lack of space is shown",
    ).found_by(16),
    bug(
        "cow-rolled-back-base",
        "a transaction that saw a commit that was rolled back may commit",
    ).found_by(611),
    bug(
        "page-one-look",
        "what the medium does not give just once counts as damage: a commit is lost with its header",
    ).found_by(1),
    bug(
        "page-short-read-is-the-end",
        "a read that ends inside a file counts as its end",
    ).found_by(8),
    bug(
        "page-listing-believed",
        "a listing that is short has a new data file made over the old one",
    ).found_by(7),
    bug(
        "page-names-unsynced",
        "a data file is used whose name the next crash takes away",
    ).found_by(141),
    bug(
        "map-name-unsynced",
        "the data file has its name before the map beside it has its own",
    ).found_by(14872),
    bug(
        "redo-looked-up-late",
        "a version is to be rebuilt from ranges alone",
    ).found_by(607),
    bug(
        "torn-page-not-repaired",
        "what recovery redid is not written before the log is truncated",
    ).found_by(4),
    bug(
        "lost-map-sector-believed",
        "pages whose sector of the map was lost, or a write of it, read as if they had never been written",
    ).found_by(88),
    bug(
        "dropped-page-kept",
        "what a dropped page held passes for what the map has lost",
    ).found_by(6),
    bug(
        "range-over-drop",
        "ranges are logged of a page that the same record drops first",
    ).found_by(22),
];

/// Bugs that a test of `crates/pages` catches (`tests/all/known_bugs.rs`). Random runs hardly meet them,
/// or do not inspect.
pub const PAGES_BY_TEST: &[KnownBug] = &[
    bug(
        "page-map-checksum-ignored",
        "a damaged sector of the map is believed",
    ),
    bug(
        "map-change-forgotten",
        "what the map could not write for lack of space is never written",
    ),
    bug(
        "lost-page-forgotten",
        "a snapshot shows zeroes of a page that the map had lost, once that was dropped",
    ),
    bug(
        "end-not-cleared",
        "what a crash left in the new end of the data file passes for pages that the map has lost",
    ),
    bug(
        "taken-page-conflicts",
        "a commit conflicts with one that is being appended: to begin again meets it once more",
    ),
    bug(
        "taken-page-forgotten",
        "a commit waits for ever for one of the same page that is in the log",
    ),
    bug(
        "versions-kept",
        "older versions of pages keep their space when no snapshot reads them any more",
    ),
    bug(
        "table-checksum-unverified",
        "a damaged node of the page table is believed",
    ),
    bug(
        "cow-full-disk-wedges",
        "what is free in a full file is not used, because it lies in several runs",
    ),
    bug(
        "cow-no-reserve",
        "a full file has no place left for the nodes of a commit that drops pages",
    ),
    bug(
        "cow-standing-hold-outdated",
        "a new view lacks a commit that was acknowledged before",
    ),
    bug(
        "cow-standing-hold-kept",
        "a thread that has read once keeps the places of what it read until it reads again",
    ),
    bug(
        "commit-without-room",
        "a commit is accepted whose pages have no space in the data file",
    ),
    bug(
        "blocks-taken-again",
        "a commit that makes the data file grow writes back what a page held before a checkpoint wrote it",
    ),
    bug(
        "inspected-table-believed",
        "the inspector takes a place that was written over meanwhile for a damaged one",
    ),
    bug(
        "inspected-map-believed",
        "the inspector takes a page that was being written for a damaged one",
    ),
    bug(
        "cow-home-not-held",
        "a backup follows a node to a place that only later headers keep",
    ),
    bug(
        "backup-named-early",
        "a backup has the name of a page file before it is durable",
    ),
    bug(
        "unfinished-backup-taken",
        "what a crash left of a backup is opened as a new, empty page file",
    ),
    bug(
        "old-copy-shown",
        "a page that is read again and again shows what it was before the last commit",
    ),
    bug(
        "cow-lost-node-ignored",
        "what a lost node of the page table leads to counts as free, and is written over",
    ),
    bug(
        "page-location-unchecked",
        "a copy-on-write file goes on acknowledging after it was taken away",
    ),
    bug(
        "page-files-unwatched",
        "a logged file goes on acknowledging after its data file or its map was taken away",
    ),
    bug(
        "data-file-unlocked",
        "a second opener writes beside the first, whose lock file was deleted",
    ),
    bug("control-unlocked", "the same, of a log"),
    bug(
        "one-lane-asked",
        "a page is overwritten that a snapshot of another thread reads",
    ),
    bug(
        "doubt-accepted",
        "a guarantee without a source is accepted by default, and is printed like any other",
    ),
];
