//! Views: committed states that readers hold.

use crate::changes::{Image, Purpose};
use crate::cow::state::CommittedState;
use crate::cow::store::CowStore;
use crate::cow::tree::PageLookup;
use crate::error::Result;
use logforce_device::Directory;
use logforce_format::PageFileHeader;
use std::sync::Arc;

/// Committed state that stays unchanged. The places that it refers to are not overwritten while it is held.
#[derive(Clone)]
pub(crate) struct CowView {
    held: Arc<HeldState>,
}

struct HeldState {
    store: Arc<CowStore>,
    version: CommittedState,
    header_number: u64,
    /// True if a transaction may be built on the view.
    is_latest: bool,
}

impl Drop for HeldState {
    fn drop(&mut self) {
        let commit = self.is_latest.then_some(self.version.commit);
        self.store.lock().release(self.header_number, commit);
    }
}

impl CowView {
    /// Returns the page file's directory.
    pub(crate) fn dir(&self) -> &dyn Directory {
        &*self.held.store.data_dir.dir
    }

    /// Returns a view of everything committed.
    pub(crate) fn latest(store: &Arc<CowStore>) -> Result<CowView> {
        CowView::of(store, true)
    }

    /// Returns a view of the durable state.
    pub(crate) fn durable(store: &Arc<CowStore>) -> Result<CowView> {
        CowView::of(store, false)
    }

    fn of(store: &Arc<CowStore>, is_latest: bool) -> Result<CowView> {
        store.check_process()?;
        let mut state = store.lock();
        while is_latest && let Some(group) = state.in_the_way() {
            // Waits, because the group may be rolled back, and commits on top of it would be refused as well.
            // On a full disk, commits that cannot fit and are tried again would keep all others out.
            drop(state);
            drop(store.wait_for(&group));
            state = store.lock();
        }
        let version = match is_latest {
            true => {
                state.check()?;
                state.latest.clone()
            }
            // Works after a failure as well, because durable commits stay durable.
            false => {
                store.medium.check_open()?;
                state.durable.clone()
            }
        };
        let header_number = state.hold(&version, is_latest);
        drop(state);
        let store = store.clone();
        Ok(CowView {
            held: Arc::new(HeldState {
                store,
                version,
                header_number,
                is_latest,
            }),
        })
    }

    pub(crate) fn version(&self) -> &CommittedState {
        &self.held.version
    }

    pub(crate) fn header_number(&self) -> u64 {
        self.held.header_number
    }

    pub(crate) fn commit(&self) -> u64 {
        self.version().commit
    }

    pub(crate) fn page_count(&self) -> u64 {
        self.version().page_count
    }

    fn find(&self, page: u64) -> Result<PageLookup> {
        let store = &self.held.store;
        store.check_process()?;
        store.medium.check_open()?;
        let tree = &self.version().tree;
        tree.find(&store.medium, store.medium.page_size, page)
    }

    pub(crate) fn header(&self) -> PageFileHeader {
        self.held.store.header()
    }

    pub(crate) fn each_number(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let medium = &self.held.store.medium;
        let tree = &self.version().tree;
        tree.each_page(medium, medium.page_size, visit)
    }

    pub(crate) fn image(&self, page: u64, purpose: Purpose) -> Result<Image> {
        let medium = &self.held.store.medium;
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
            PageLookup::Stored(at) => self.held.store.medium.page_into(page, at, buf)?,
        }
        Ok(())
    }
}
