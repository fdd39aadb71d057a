//! Pages as the data file holds them, in memory: reading one again asks no device.
//!
//! They are part of the state, under its mutex. A page is looked up in the same moment in which the
//! state says that the data file has the version that a reader sees, and forgotten in the moment from
//! which on readers of the data file know that the page is being overwritten: so what is here of a page
//! is what the data file holds.

use super::state::State;
use super::version_chain::Bytes;
use crate::changes::Image;
use logforce_format::{Lsn, planted};

impl State {
    /// A page was read from the data file, and was not overwritten since.
    pub(super) fn keep_clean(&mut self, page: u64, image: &Image) {
        self.clean.insert(page, image.clone());
    }

    /// The data file is about to change.
    pub(super) fn forget_clean(&mut self, page: u64) {
        if !planted!("clean-page-kept") {
            self.clean.remove(page);
        }
    }

    /// The data file holds these versions now: what was in memory of them as changes stays there.
    pub(super) fn keep_written(&mut self, written: &[(u64, Lsn)]) {
        for (page, end) in written {
            let versions = self.chains.get(page).map(|c| &c.versions);
            let version = versions.and_then(|v| v.iter().find(|v| v.end == *end));
            if let Some(Bytes::Memory(image)) = version.map(|v| &v.bytes) {
                self.clean.insert(*page, image.clone());
            }
        }
    }
}
