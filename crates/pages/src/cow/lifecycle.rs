//! Creating, opening and closing a copy-on-write file.

use crate::cow::node_store::NodeStore;
use crate::cow::state::{CommittedState, LeaderToken, State};
use crate::cow::store::{Counts, CowStore};
use crate::cow::table_scan;
use crate::cow::tree::Tree;
use crate::error::{Error, Result, cannot_grow};
use crate::files::{DATA, DataDir};
use crate::header::HeaderSlots;
use crate::options::{DEFAULT_PAGE_SIZE, Options, WriteThroughLimit};
use logforce_core::Granted;
use logforce_device::Event;
use logforce_device::sync::Mutex;
use logforce_device::write_out::Writers;
use logforce_device::{Barrier, FileState};
use logforce_format::{CopyOnWriteRoot, PageFileHeader, PageFileId, PageFileKind};
use std::sync::Arc;

/// Bytes of committed pages that may wait to be written even if the cache is smaller.
const LEAST_DIRTY: u64 = 1 << 20;

impl CowStore {
    pub(crate) fn create(
        data_dir: DataDir,
        options: Options,
        guarantee: Granted,
    ) -> Result<Arc<CowStore>> {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&data_dir.runtime.random().to_le_bytes());
        id[8..].copy_from_slice(&data_dir.runtime.random().to_le_bytes());
        let header = PageFileHeader {
            id: PageFileId(id),
            sequence: 1,
            page_size: options.page_size.unwrap_or(DEFAULT_PAGE_SIZE),
            checksums: options.checksums.unwrap_or(true),
            page_count: 0,
            commit: 0,
            kind: PageFileKind::CopyOnWrite(CopyOnWriteRoot::default()),
        };
        HeaderSlots::create(&data_dir, &header)?;
        data_dir.lock_data()?;
        CowStore::start(data_dir, options, guarantee, true)
    }

    pub(crate) fn open(
        data_dir: DataDir,
        options: Options,
        guarantee: Granted,
    ) -> Result<Arc<CowStore>> {
        CowStore::start(data_dir, options, guarantee, false)
    }

    fn start(
        mut data_dir: DataDir,
        options: Options,
        guarantee: Granted,
        is_new: bool,
    ) -> Result<Arc<CowStore>> {
        let mut slots = HeaderSlots::load(&data_dir, data_dir.open_file(DATA, false)?)?;
        let header = slots.header;
        let PageFileKind::CopyOnWrite(root) = header.kind else {
            return Err(Error::NotAPageFile {
                path: slots.path().clone(),
                why: format!("its commit mode is {}", header.kind.name()),
            });
        };
        let medium = NodeStore::new(
            data_dir.open_for_pages(header.page_size, true)?.0,
            slots.path().clone(),
            data_dir.runtime.clone(),
            header.page_size,
            header.checksums,
            options.cache / 2,
        );
        data_dir.named.add(DATA);
        let granule = u64::from(data_dir.facts.write_unit() / header.page_size);
        // Scans before writing, so that a refused file stays unchanged.
        let scanned = table_scan::scan(&medium, &header, &root, granule)?;
        // Makes everything that readers see from now on durable. A process may have copied the pages here
        // without forcing them, and the process before may have been killed while it wrote the header.
        let force = || medium.file.barrier(Barrier::Full);
        force().map_err(Error::io("sync", &medium.path))?;
        let mut has_holes = false;
        let is_older_slot_known = match scanned.is_whole.then(|| slots.store(header)) {
            Some(Ok(())) => true,
            // A node is lost. Until the next commit, the previous header's table can still be salvaged.
            None => slots.are_alike,
            // Overwriting takes new space here, and there is none. The file can be read.
            Some(Err(e)) if cannot_grow(&e) => {
                has_holes = true;
                slots.are_alike
            }
            Some(Err(e)) => return Err(Error::io("write the header of", &medium.path)(e)),
        };
        let is_write_through_enough =
            data_dir.is_write_through_enough(guarantee, FileState::Growing);
        if !is_write_through_enough {
            force().map_err(Error::io("sync", &medium.path))?;
        }
        let write_through = match is_write_through_enough {
            true => options.write_through_limit(&data_dir, is_new),
            false => WriteThroughLimit::UNMEASURED,
        };
        let writers = Writers::start(
            &data_dir.runtime,
            &medium.file,
            options.writers,
            data_dir.alignment(),
        );
        let writers = writers.map_err(Error::io("start threads for", &medium.path))?;
        let version = committed_state_of(&header, &root);
        let header = slots.header;
        let len = medium.file.len();
        let token = Box::new(LeaderToken {
            slots,
            writers,
            is_older_slot_known,
            has_holes,
            len: len.map_err(Error::io("look at", &medium.path))?,
            location_checked: None,
        });
        let state = State::new(version, header, scanned.places, token);
        let store = Arc::new(CowStore {
            header,
            medium,
            guarantee,
            is_write_through_enough,
            write_through,
            most_dirty: (options.cache as u64 / 2).max(LEAST_DIRTY),
            counts: Counts::default(),
            work: Event::default(),
            turn_ended: Event::default(),
            background: Mutex::default(),
            standing: state.standing.clone(),
            state: Mutex::new(state),
            data_dir,
        });
        store.start_background()?;
        Ok(store)
    }

    /// Makes everything committed durable and closes the file. Views that are still held may be dropped, and
    /// return [`Error::Closed`].
    pub(crate) fn close(&self) -> Result<()> {
        // A fork has none of the threads, and the file belongs to its parent.
        self.check_process()?;
        let mut state = self.lock();
        if state.is_closed {
            return Ok(());
        }
        state.is_closed = true;
        state.views_changed();
        drop(state);
        let ending = Ending(self);
        let result = self.force_all().and_then(|()| self.check_location());
        drop(ending);
        result
    }
}

/// Guard that ends the threads and releases the lock, also if the last force panics. Otherwise they would
/// stay until the process ends.
struct Ending<'a>(&'a CowStore);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let store = self.0;
        store.work.notify(store.runtime());
        store.join_background();
        // Waits until no writer is at work before the lock is released.
        let token = loop {
            let seen = store.turn_ended.observe();
            let token = store.lock().token.take();
            match token {
                Some(token) => break token,
                None => store.turn_ended.wait(store.runtime(), seen, None),
            }
        };
        drop(token);
        store.medium.uses.close();
        let ended = store.lock().end_standing();
        drop(ended);
        store.data_dir.release();
    }
}

fn committed_state_of(header: &PageFileHeader, root: &CopyOnWriteRoot) -> CommittedState {
    CommittedState {
        tree: Tree::stored(root),
        page_count: header.page_count,
        commit: header.commit,
    }
}
