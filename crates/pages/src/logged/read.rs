//! Reads of a page at a committed state: from memory, the log, the versions file, or the data file, whichever
//! holds the version.

use super::readers::{Beginning, Begun};
use super::version_chain::Bytes;
use super::{LoggedFile, LoggedStore, Owner};
use crate::changes::{Image, Purpose};
use crate::error::{Error, Result};
use crate::file_read::{self, ReadResult};
use crate::files::DATA;
use logforce_core::ErrorKind as LogErrorKind;
use logforce_device::{Directory, File, ReadSource};
use logforce_format::{
    Lsn, MAP_SECTOR_ENTRIES, MapEntry, PAGE_DATA_OFFSET, PageChange, PageFileHeader, Redo,
    page_crc, planted,
};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Committed state that is being read. Clones share it.
#[derive(Clone)]
pub(crate) struct LoggedView {
    registered: Arc<Registered>,
}

struct Registered {
    store: Arc<Owner>,
    begun: Begun,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.store.readers.end(self.begun);
        if self
            .store
            .contents
            .versions_file
            .is_needed_by(self.begun.at.end)
        {
            self.store.checkpointer.work.notify(self.store.runtime());
        }
    }
}

/// Location of a version.
enum Found {
    Zero,
    Lost,
    Memory(Image),
    /// The version, and the records that hold it.
    Log(Lsn, Vec<Lsn>),
    InVersionsFile(u64),
    /// In the data file, unless the page is being overwritten. In that case the counter of such moments
    /// becomes higher than this value.
    Data(u64),
}

impl LoggedFile {
    /// Returns a view of the latest committed state, durable or not.
    pub(crate) fn latest(&self) -> Result<LoggedView> {
        self.data_dir.check_process()?;
        loop {
            match self.readers.latest() {
                Beginning::Begun(begun) => return Ok(self.view(begun)),
                // A commit that shows its state keeps this locked until all lanes show it.
                Beginning::Behind => drop(self.state()),
                Beginning::Closing => return Err(Error::Closed),
            }
        }
    }

    /// Returns a view of the durable state.
    pub(crate) fn durable(&self) -> Result<LoggedView> {
        self.data_dir.check_process()?;
        loop {
            let forced = self.log.durable_lsn();
            match self.readers.durable(forced) {
                Beginning::Begun(begun) => return Ok(self.view(begun)),
                Beginning::Behind => self.state().forced(forced),
                Beginning::Closing => return Err(Error::Closed),
            }
        }
    }

    fn view(&self, begun: Begun) -> LoggedView {
        let store = self.owners[begun.lane].clone();
        LoggedView {
            registered: Arc::new(Registered { store, begun }),
        }
    }
}

impl LoggedStore {
    /// Returns a page as of the state `at`, which the caller has registered.
    fn image_at(&self, page: u64, at: Lsn, purpose: Purpose) -> Result<Image> {
        self.uses.check()?;
        let mut left = None;
        loop {
            let found = self.find(page, at);
            let _use = match &found {
                Found::Zero | Found::Lost | Found::Memory(_) => None,
                _ => Some(self.uses.begin()?),
            };
            let image = match found {
                Found::Zero => return Ok(vec![0; self.page_size()].into()),
                Found::Lost => return Err(self.lost_version(page)),
                Found::Memory(image) => return Ok(image),
                Found::InVersionsFile(slot) => return self.contents.versions_file.read(slot),
                Found::Log(version, redo) => {
                    let image = self.rebuild(page, &redo);
                    if let Ok(image) = &image {
                        self.back_in_memory(page, version, image);
                    }
                    // The version was found in the log twice, so it is nowhere else.
                    if left.replace(redo.clone()) == Some(redo) {
                        return image;
                    }
                    image
                }
                Found::Data(seen) => {
                    let read = self.read_data(page);
                    let mut state = self.state();
                    if state.was_applied_since(page, seen) {
                        // The page was overwritten meanwhile, so the bytes that were read may be torn.
                        continue;
                    }
                    if let (Ok(image), Purpose::Read) = (&read, purpose) {
                        state.keep_clean(page, image);
                        let base = state.base_of(page);
                        self.contents.newest.found(&state, page, base, image);
                    }
                    return read;
                }
            };
            match image {
                // The version has left the log since it was found there, so it is elsewhere now.
                Err(Error::Log(e)) if e.kind() == LogErrorKind::Truncated => {}
                other => return other,
            }
        }
    }

    /// Returns the error of a version that was damaged when a later commit replaced it.
    fn lost_version(&self, page: u64) -> Error {
        Error::Damaged {
            path: self.data_dir.path_of(DATA),
            what: format!("page {page}"),
            offset: self.contents.data.offset(page),
            found: "it was damaged before a later commit replaced it".to_owned(),
        }
    }

    /// Keeps a version in memory that was read back from the log, by up to one read for each of its records.
    /// Versions that were used longer ago leave memory.
    fn back_in_memory(&self, page: u64, version: Lsn, image: &Image) {
        let limit = self.options.changed_cache() / self.page_size();
        let mut state = self.state();
        state.read_back(page, version, image);
        if state.resident.count() > limit {
            state.evict(limit);
        }
    }

    fn find(&self, page: u64, at: Lsn) -> Found {
        if let Some(image) = self.contents.newest.get(page, at) {
            return Found::Memory(image);
        }
        let mut state = self.state();
        let chain = state.chains.get(&page);
        if let Some(version) = chain.and_then(|c| c.visible_at(at)) {
            return match &version.bytes {
                Bytes::Memory(image) => {
                    self.contents.newest.found(&state, page, version.end, image);
                    Found::Memory(image.clone())
                }
                Bytes::Log(redo) => Found::Log(version.end, redo.clone()),
                Bytes::InVersionsFile(slot) => Found::InVersionsFile(*slot),
                Bytes::Zero => Found::Zero,
                Bytes::Lost => Found::Lost,
            };
        }
        let base = state.base_of(page);
        if state.dropped_since(page, base).is_some_and(|end| end <= at) {
            return Found::Zero;
        }
        match state.clean.get(page).cloned() {
            Some(image) => {
                self.contents.newest.found(&state, page, base, &image);
                Found::Memory(image)
            }
            None => Found::Data(state.applies),
        }
    }

    /// Reads a page from the data file and verifies its checksum. Repeats the read before the page counts as
    /// damaged, because a single wrong transfer is not damage of the medium.
    pub(super) fn read_data(&self, page: u64) -> Result<Image> {
        let offset = self.contents.data.offset(page);
        let range = offset..offset + self.page_size() as u64;
        file_read::read_with_retries(&*self.contents.data.file, range, || {
            let crc = match self.contents.data.map.entry(page)? {
                MapEntry::Present { crc } => crc,
                entry => {
                    self.check_absent(page, entry)?;
                    return Ok(vec![0; self.page_size()].into());
                }
            };
            // Reads into the image's own memory: the clone is shared, so this makes a new one.
            let mut image = self.contents.data.zeroes.clone();
            let crc = self.header.checksums.then_some(crc);
            read_page(
                &*self.contents.data.file,
                &self.data_dir.path_of(DATA),
                page,
                crc,
                Arc::make_mut(&mut image),
            )?;
            Ok(image)
        })
    }

    /// Checks that the data file holds nothing for a page that is absent in the map. If it does, the map's
    /// sector or a write of it was lost, and the page would be lost silently.
    ///
    /// The file grows by zeroes, and a checkpoint clears the places of pages that it adds
    /// ([`clear_added`](LoggedStore::clear_added)).
    fn check_absent(&self, page: u64, entry: MapEntry) -> Result<()> {
        let data = &self.contents.data;
        if planted!("lost-map-sector-believed", true, else !data.map.covers(page)) {
            return Ok(());
        }
        let mut bytes = vec![0; self.page_size()];
        let is_lost = match entry {
            MapEntry::Dropped => Ok(true),
            _ => holds(&*data.file, data.offset(page), &mut bytes),
        };
        match is_lost.map_err(Error::io("read", self.data_dir.path_of(DATA)))? {
            false => Ok(()),
            true => Err(data.map.lost(page, entry)),
        }
    }

    /// Rebuilds a version from the records that hold it: an image, and ranges on top of it.
    pub(super) fn rebuild(&self, page: u64, redo: &[Lsn]) -> Result<Image> {
        let mut bytes: Option<Vec<u8>> = None;
        for start in redo {
            let record = self.log.read_at(*start)?;
            let damaged = |found: String| Error::Damaged {
                path: self.log.path().to_owned(),
                what: format!("redo record of page {page} at LSN {start}"),
                offset: start.0,
                found,
            };
            let redo = Redo::decode(&record.data, self.header.page_size);
            let redo = redo.map_err(|e| damaged(e.to_string()))?;
            let change = redo.pages.iter().find(|(p, _)| *p == page).map(|(_, c)| c);
            match (change, &mut bytes) {
                (Some(PageChange::Image(image)), _) => bytes = Some(image.to_vec()),
                (Some(PageChange::Ranges(ranges)), Some(bytes)) => put_ranges(bytes, ranges),
                _ => return Err(damaged("it does not hold the page's change".to_owned())),
            }
        }
        match bytes {
            Some(bytes) => Ok(bytes.into()),
            None => Ok(vec![0; self.page_size()].into()),
        }
    }
}

/// Returns true if the file holds anything but zeroes in the `buf.len()` bytes from `offset` on. Bytes that
/// the medium does not return count as held, because they are not a hole.
pub(crate) fn holds(file: &dyn File, offset: u64, buf: &mut [u8]) -> io::Result<bool> {
    match file_read::read(file, offset, buf, ReadSource::Cache)? {
        ReadResult::Bytes(read) => Ok(buf[..read].iter().any(|b| *b != 0)),
        ReadResult::Lost(_) => Ok(true),
    }
}

/// Returns the sectors of the map with a page whose place in the data file is not a hole.
pub(crate) fn sectors_with_data(file: &dyn File, page_size: usize) -> io::Result<BTreeSet<u64>> {
    let (mut sectors, entries) = (BTreeSet::new(), MAP_SECTOR_ENTRIES as u64);
    let first = page_offset(page_size, 0);
    let (mut offset, end) = (first, file.len()?);
    while offset < end
        && let Some(at) = file.next_data(offset)?
    {
        let sector = (at.max(offset) - first) / page_size as u64 / entries;
        sectors.insert(sector);
        offset = page_offset(page_size, (sector + 1).saturating_mul(entries));
    }
    Ok(sectors)
}

/// Returns the offset of a page in the data file of a logged file, in bytes.
pub(crate) fn page_offset(page_size: usize, page: u64) -> u64 {
    PAGE_DATA_OFFSET.saturating_add(page.saturating_mul(page_size as u64))
}

/// Reads a page from the data file, in one attempt. `crc` is the checksum in the map, if pages have
/// checksums.
pub(crate) fn read_page(
    file: &dyn File,
    path: &Path,
    page: u64,
    crc: Option<u32>,
    buf: &mut [u8],
) -> Result<()> {
    let offset = page_offset(buf.len(), page);
    let damaged = |found: String| Error::Damaged {
        path: path.to_owned(),
        what: format!("page {page}"),
        offset,
        found,
    };
    let read = file_read::read_all(file, offset, buf).map_err(Error::io("read", path))?;
    read.map_err(damaged)?;
    let found = page_crc(page, buf);
    let fits = planted!("page-checksum-unverified", true, else crc.is_none_or(|crc| crc == found));
    match (fits, crc) {
        (false, Some(crc)) => Err(damaged(format!(
            "its checksum is {found:08x}, expected {crc:08x}"
        ))),
        _ => Ok(()),
    }
}

/// Writes changed ranges into a page. Decoding has checked that they are within the page.
pub(crate) fn put_ranges(page: &mut [u8], ranges: &[(u32, &[u8])]) {
    for (offset, bytes) in ranges {
        let at = *offset as usize;
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl LoggedView {
    /// Returns the page file's directory.
    pub(crate) fn dir(&self) -> &dyn Directory {
        &*self.registered.store.data_dir.dir
    }

    pub(super) fn end(&self) -> Lsn {
        self.registered.begun.at.end
    }

    pub(crate) fn commit(&self) -> u64 {
        self.registered.begun.at.commit
    }

    pub(crate) fn page_count(&self) -> u64 {
        self.registered.begun.at.page_count
    }

    pub(crate) fn header(&self) -> PageFileHeader {
        self.registered.store.header
    }

    pub(crate) fn each_number(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let store = &self.registered.store;
        let in_use = store.uses.begin()?;
        // The order matters. A page without a version now is in the data file, and so in the map. A page that
        // is dropped there from now on gets a version, because this state is being read; its sector of the
        // map stays.
        let changed: Vec<u64> = store.state().chains.keys().copied().collect();
        let entries = MAP_SECTOR_ENTRIES as u64;
        let count = self.page_count();
        let data = &store.contents.data;
        let mut sectors = data.map.known_sectors(0..count.div_ceil(entries))?;
        sectors.extend(changed.into_iter().map(|page| page / entries));
        // The map may have lost some of its sectors. Reading their pages reports that.
        let with_data = sectors_with_data(&*data.file, store.page_size());
        let with_data = with_data.map_err(Error::io("look for data in", data.path()))?;
        sectors.extend(with_data);
        drop(in_use);
        for sector in sectors {
            for page in sector * entries..((sector + 1) * entries).min(count) {
                visit(page)?;
            }
        }
        Ok(())
    }

    pub(crate) fn image(&self, page: u64, purpose: Purpose) -> Result<Image> {
        let store = &self.registered.store;
        store.data_dir.check_process()?;
        store.image_at(page, self.end(), purpose)
    }

    pub(crate) fn read(&self, page: u64, buf: &mut [u8]) -> Result<()> {
        buf.copy_from_slice(&self.image(page, Purpose::Read)?);
        Ok(())
    }
}
