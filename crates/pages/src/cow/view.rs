//! Views: committed states that readers hold.

use crate::changes::{Image, Purpose};
use crate::cow::standing::Wanted;
use crate::cow::state::{CommittedState, Hold};
use crate::cow::store::CowStore;
use crate::cow::tree::PageLookup;
use crate::error::Result;
use logforce_device::Directory;
use logforce_format::PageFileHeader;
use std::sync::Arc;

/// Committed state that stays unchanged. The places that it refers to are not overwritten while it is held.
#[derive(Clone)]
pub(crate) struct CowView {
    store: Arc<CowStore>,
    hold: Arc<Hold>,
}

impl Drop for CowView {
    fn drop(&mut self) {
        let hold = std::mem::take(&mut self.hold);
        // A shared hold needs no mutex, and most are shared with the lane.
        if let Some(hold) = Arc::into_inner(hold) {
            // Dropped without the mutex, because freeing its memory may take long.
            let hold = self.store.lock().release(hold);
            drop(hold);
        }
    }
}

impl CowView {
    /// Returns the page file's directory.
    pub(crate) fn dir(&self) -> &dyn Directory {
        &*self.store.data_dir.dir
    }

    /// Returns a view of the wanted state.
    pub(crate) fn of(store: &Arc<CowStore>, wanted: Wanted) -> Result<CowView> {
        store.check_process()?;
        let view = |hold| CowView {
            store: store.clone(),
            hold,
        };
        if let Some(hold) = store.standing.get(wanted) {
            return Ok(view(hold));
        }
        let mut state = store.lock();
        while wanted == Wanted::Latest
            && let Some(group) = state.in_the_way()
        {
            // Waits, because the group may be rolled back, and commits on top of it would be refused as well.
            // On a full disk, commits that cannot fit and are tried again would keep all others out.
            drop(state);
            drop(store.wait_for(&group));
            state = store.lock();
        }
        match wanted {
            Wanted::Latest => state.check()?,
            // Works after a failure as well, because durable commits stay durable.
            Wanted::Durable => store.medium.uses.check()?,
        }
        let (hold, replaced) = state.hold(wanted);
        drop(state);
        drop(replaced);
        Ok(view(hold))
    }

    pub(crate) fn version(&self) -> &CommittedState {
        &self.hold.version
    }

    pub(crate) fn header_number(&self) -> u64 {
        self.hold.header_number
    }

    pub(crate) fn commit(&self) -> u64 {
        self.version().commit
    }

    pub(crate) fn page_count(&self) -> u64 {
        self.version().page_count
    }

    fn find(&self, page: u64) -> Result<PageLookup> {
        let store = &self.store;
        store.check_process()?;
        store.medium.uses.check()?;
        let tree = &self.version().tree;
        tree.find(&store.medium, store.medium.page_size, page)
    }

    pub(crate) fn header(&self) -> PageFileHeader {
        self.store.header()
    }

    pub(crate) fn each_number(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let medium = &self.store.medium;
        let tree = &self.version().tree;
        tree.each_page(medium, medium.page_size, visit)
    }

    pub(crate) fn image(&self, page: u64, purpose: Purpose) -> Result<Image> {
        let medium = &self.store.medium;
        match self.find(page)? {
            PageLookup::Hole => Ok(medium.zeroes.clone()),
            PageLookup::Fresh(image) => Ok(image),
            PageLookup::Stored(at) => medium.page(page, at, purpose),
        }
    }

    pub(crate) fn read(&self, page: u64, buf: &mut [u8]) -> Result<()> {
        match self.find(page)? {
            PageLookup::Hole => buf.fill(0),
            PageLookup::Fresh(image) => buf.copy_from_slice(&image),
            PageLookup::Stored(at) => self.store.medium.page_into(page, at, buf)?,
        }
        Ok(())
    }
}
