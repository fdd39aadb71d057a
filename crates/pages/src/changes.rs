//! What a transaction is about to change.

use logforce_format::Resize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The contents of a page. Never changed once it is shared.
pub(crate) type Image = Arc<[u8]>;

/// The change of one page.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// The page's new contents. `before` is what it held when the transaction began, if that was
    /// read: the difference may be all that a log needs.
    Write { image: Image, before: Option<Image> },
    /// It reads as zeroes from now on.
    Discard,
}

/// All changes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// By page number.
    pub(crate) pages: BTreeMap<u64, Change>,
    /// How the number of pages changes besides.
    pub(crate) resize: Resize,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.resize == Resize::NONE
    }

    /// The highest page that is written.
    pub(crate) fn last_written(&self) -> Option<u64> {
        let writes = |(_, change): &(&u64, &Change)| matches!(change, Change::Write { .. });
        self.pages.iter().rfind(writes).map(|(page, _)| *page)
    }

    /// Where the file is to end, if that was set: another commit that wrote a page at or above is one
    /// that this one has not seen.
    pub(crate) fn end(&self) -> Option<u64> {
        let resize = self.resize;
        (resize != Resize::NONE).then_some(resize.drop_from.min(resize.at_least))
    }

    /// The number of pages after this, where there were `before`.
    pub(crate) fn page_count(&self, before: u64) -> u64 {
        self.resize.page_count(before, self.last_written())
    }

    /// The pages that the file has after this and had not before, where it had `before`, or that this
    /// drops first.
    pub(crate) fn added(&self, before: u64) -> Range<u64> {
        before.min(self.resize.drop_from)..self.page_count(before)
    }
}
