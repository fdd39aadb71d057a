//! Sources of pages: a snapshot, or a transaction with its own changes.

use crate::error::{Error, Result};
use crate::meta::{META, Meta};
use logforce::pages::{Error as PagesError, Page, Snapshot, Transaction};

/// A source of pages by number.
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

/// Converts an error. All page numbers come from pages of the tree, so a number beyond the end is
/// damage.
fn as_ours(e: PagesError) -> Error {
    match e {
        PagesError::OutOfRange { page, page_count } => Error::corrupt(
            page,
            format!("another page refers to it, but there are {page_count} pages"),
        ),
        e => Error::Pages(e),
    }
}
