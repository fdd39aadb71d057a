//! Shared contents of a page.

use crate::changes::Image;
use std::ops::Deref;

/// Contents of a page as it was read. They never change, and clones share them. The page file also shares the
/// contents that it keeps in memory, so reading such a page copies nothing.
#[derive(Clone)]
pub struct Page(Image);

impl Page {
    pub(crate) fn new(image: Image) -> Self {
        Page(image)
    }
}

impl Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
