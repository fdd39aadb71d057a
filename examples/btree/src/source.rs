//! Where pages are read from: a snapshot, or a transaction with its own changes on top.

use crate::error::{Error, Result};
use crate::meta::{META, Meta};
use logforce::pages::{Error as PagesError, Page, Snapshot, Transaction};

/// Pages by their numbers.
pub(crate) trait Source {
    fn page(&self, page: u64) -> Result<Page>;

    fn page_count(&self) -> u64;

    fn meta(&self) -> Result<Meta> {
        Meta::decode(&self.page(META)?)
    }
}

impl Source for Snapshot {
    fn page(&self, page: u64) -> Result<Page> {
        Snapshot::page(self, page).map_err(as_ours)
    }

    fn page_count(&self) -> u64 {
        Snapshot::page_count(self)
    }
}

impl Source for Transaction {
    fn page(&self, page: u64) -> Result<Page> {
        Transaction::page(self, page).map_err(as_ours)
    }

    fn page_count(&self) -> u64 {
        Transaction::page_count(self)
    }
}

/// All page numbers come from pages of the tree: one behind the end is damage.
fn as_ours(e: PagesError) -> Error {
    match e {
        PagesError::OutOfRange { page, page_count } => Error::corrupt(
            page,
            format!("another page names it, and there are {page_count} pages"),
        ),
        e => Error::Pages(e),
    }
}
