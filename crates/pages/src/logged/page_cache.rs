//! Cache of pages as the data file holds them, so that reading one again needs no device.
//!
//! The cache is part of the state, under its mutex. A page is looked up at the same moment at which the state
//! says that the data file has the version that a reader sees. It is removed at the moment from which readers
//! of the data file know that the page is being overwritten. So a cached page is what the data file holds.

use super::state::State;
use crate::changes::Image;
use logforce_format::planted;

impl State {
    /// Caches a page that was read from the data file and was not overwritten since.
    pub(super) fn keep_clean(&mut self, page: u64, image: &Image) {
        self.clean.insert(page, image.clone());
    }

    /// Removes a page that is about to change in the data file.
    pub(super) fn forget_clean(&mut self, page: u64) {
        if !planted!("clean-page-kept") {
            self.clean.remove(page);
        }
    }
}
