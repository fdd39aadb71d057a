//! Those of the page file.

use super::{KnownBug, bug};

/// Caught by the tests of page files (`crates/pages/tests`).
pub const PAGES: &[KnownBug] = &[
    bug(
        "page-before-log",
        "a page is written before its commit is durable in the log",
    ),
    bug(
        "data-file-unsynced",
        "the log is truncated before the data file is synced",
    ),
    bug(
        "log-truncated-early",
        "the log is truncated before the header says where redo begins",
    ),
    bug(
        "range-without-image",
        "ranges of a page are logged whose image lies before the place where redo begins",
    ),
    bug(
        "older-reader-forgotten",
        "a page is overwritten that an older snapshot reads",
    ),
    bug(
        "conflict-missed",
        "two transactions that write one page both commit",
    ),
    bug("page-checksum-unverified", "a damaged page is served"),
    bug(
        "page-header-checksum-ignored",
        "a damaged header of a page file is believed",
    ),
    bug(
        "page-map-checksum-ignored",
        "a damaged sector of the map is believed",
    ),
    bug(
        "page-header-before-pages",
        "the header is written before the pages that it reaches are durable",
    ),
    bug(
        "cow-barrier-left-out",
        "a commit is acknowledged before its pages are durable",
    ),
    bug(
        "freed-page-reused-early",
        "a place is written over that a valid header still reaches",
    ),
    bug(
        "cow-failed-barrier-forgotten",
        "a barrier that failed counts as done",
    ),
    bug(
        "table-checksum-unverified",
        "a damaged node of the page table is believed",
    ),
    bug(
        "cow-conflict-missed",
        "two transactions that write one page both commit",
    ),
    bug(
        "cow-view-unpinned",
        "a place is written over that a snapshot reads",
    ),
    bug(
        "cow-older-slot-forgotten",
        "a place is written over that the older header slot reaches",
    ),
    bug(
        "cow-settled-early",
        "a page is taken for written while an older version of it is in flight",
    ),
    bug(
        "cow-settled-late",
        "a snapshot of what is in flight changes when it is written",
    ),
    bug(
        "cow-taken-back-kept",
        "a commit that was refused for lack of space is shown",
    ),
    bug(
        "cow-taken-back-base",
        "a transaction that saw a commit taken back may commit",
    ),
    bug(
        "page-one-look",
        "what the medium does not give just once counts as damage: a commit is lost with its header",
    ),
    bug(
        "page-short-read-is-the-end",
        "a read that ends inside a file counts as its end",
    ),
    bug(
        "page-listing-believed",
        "a listing that is short has a new data file made over the old one",
    ),
    bug(
        "page-names-unsynced",
        "a data file is used whose name the next crash takes away",
    ),
    bug(
        "map-name-unsynced",
        "the data file has its name before the map beside it has its own",
    ),
    bug(
        "map-change-forgotten",
        "what the map could not write for lack of space is never written",
    ),
    bug(
        "redo-looked-up-late",
        "a version is to be rebuilt from ranges alone",
    ),
    bug(
        "room-over-recovered-pages",
        "room for new pages is made over a page that the log has brought back",
    ),
    bug(
        "torn-page-not-repaired",
        "what recovery redid is not written before the log is truncated",
    ),
];
