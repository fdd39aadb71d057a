//! Map of a logged file (`map`): the contents of the places of its pages.
//!
//! For each page below the header's number of pages, the map says what its place holds: zeroes, or contents
//! with a checksum. So a sector that was lost, or whose write was lost, contradicts the data file in each
//! page that it would lose. The map says nothing about pages at or above that number.
//!
//! The map consists of sectors of 512 bytes. Every disk that we know writes such a sector as a whole or not
//! at all. Changes of a sector are redone from the log, together with the pages that they describe.

use super::room::{self, filled_until};
use crate::changes::Image;
use crate::error::{Error, Result};
use crate::file_read::{self, ReadResult};
use crate::files::{DataDir, MAP};
use logforce_device::sync::{AtomicU64, Mutex};
use logforce_device::{AlignedBuf, Barrier, File, OpenFile, ReadSource, Write};
use logforce_format::{
    MAP_SECTOR_ENTRIES, MAP_SECTOR_LEN, MapEntry, MapSector, PageFileHeader, planted,
};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// Maximum number of sectors in one write.
const LONGEST_WRITE: usize = 2048;
/// Map of pages. The sectors that were read stay in memory, at 8 bytes a page.
pub(crate) struct PageMap {
    file: Arc<dyn File>,
    path: PathBuf,
    checksums: bool,
    /// Number of pages in the header at the opening. The file's sectors say nothing about pages behind it.
    opened_with: u64,
    /// Exclusive end of the pages that the header had at the opening and that were not dropped since.
    covered: AtomicU64,
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    sectors: HashMap<u64, MapSector>,
    /// Sectors that were changed and not yet written.
    dirty: BTreeSet<u64>,
}

impl PageMap {
    /// Creates the empty file and makes it and its name durable. This comes before the data file gets its
    /// name, because a crash may keep a later name and lose an earlier one.
    pub(super) fn create(data_dir: &DataDir) -> Result<()> {
        let path = data_dir.path_of(MAP);
        match data_dir.dir.remove(MAP) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path)(e));
            }
            _ => {}
        }
        let file = data_dir.dir.open(MAP, OpenFile::CREATE);
        let file = file.map_err(Error::io("create", &path))?;
        file.barrier(Barrier::Full)
            .map_err(Error::io("sync", &path))?;
        match planted!("map-name-unsynced") {
            true => Ok(()),
            false => data_dir.sync_names(),
        }
    }

    pub(super) fn open(data_dir: &DataDir, header: &PageFileHeader) -> Result<PageMap> {
        let path = data_dir.path_of(MAP);
        let file = match data_dir.open_file(MAP, false) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Damaged {
                    path,
                    what: "page map".to_owned(),
                    offset: 0,
                    found: "the file is missing".to_owned(),
                });
            }
            file => file?,
        };
        Ok(PageMap::of(file, path, header))
    }

    /// Makes the map of this file.
    pub(crate) fn of(file: Arc<dyn File>, path: PathBuf, header: &PageFileHeader) -> PageMap {
        PageMap {
            file,
            path,
            checksums: header.checksums,
            opened_with: header.page_count,
            covered: AtomicU64::new(header.page_count),
            cached: Mutex::default(),
        }
    }

    fn cached(&self) -> logforce_device::sync::MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of another file in the same directory.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    fn place_of(page: u64) -> (u64, usize) {
        let entries = MAP_SECTOR_ENTRIES as u64;
        (page / entries, (page % entries) as usize)
    }

    /// Calls `f` with the sectors in memory. If `f` finds nothing, reads the sector from the file first.
    fn with_sector<T>(&self, sector: u64, f: impl Fn(&mut Cached) -> Option<T>) -> Result<T> {
        loop {
            if let Some(value) = f(&mut self.cached()) {
                return Ok(value);
            }
            let mut read = self.read(sector)?;
            // Such entries are from a checkpoint that a crash interrupted, or of pages that were dropped: the
            // write that records the drop may have been lost.
            let first = sector * MAP_SECTOR_ENTRIES as u64;
            for (page, entry) in (first..).zip(&mut read.entries) {
                if page >= self.opened_with && *entry != MapEntry::Absent {
                    *entry = MapEntry::Dropped;
                }
            }
            // If two threads read the sector, the first result stays, because it may have been changed since.
            self.cached().sectors.entry(sector).or_insert(read);
        }
    }

    /// Reads a sector from the file.
    pub(crate) fn read(&self, sector: u64) -> Result<MapSector> {
        let offset = sector * MAP_SECTOR_LEN as u64;
        let range = offset..offset + MAP_SECTOR_LEN as u64;
        file_read::read_with_retries(&*self.file, range, || {
            let mut buf = [0; MAP_SECTOR_LEN];
            // Nothing was written behind the end of the file.
            let got = file_read::read(&*self.file, offset, &mut buf, ReadSource::Cache);
            let found = match got.map_err(Error::io("read", &self.path))? {
                ReadResult::Bytes(_) => match MapSector::decode(&buf, sector) {
                    Ok(sector) => return Ok(sector),
                    Err(reject) => reject.to_string(),
                },
                ReadResult::Lost(e) => format!("the device cannot read it ({e})"),
            };
            Err(self.damaged(sector, found))
        })
    }

    fn damaged(&self, sector: u64, found: String) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            what: format!(
                "sector of the page map, for the pages from {}",
                sector * MAP_SECTOR_ENTRIES as u64
            ),
            offset: sector * MAP_SECTOR_LEN as u64,
            found,
        }
    }

    /// Returns true if the place of the page holds what the map says, because the last header covers the
    /// page. It was neither dropped nor added since the opening.
    pub(super) fn covers(&self, page: u64) -> bool {
        page < self.covered.load(Relaxed)
    }

    /// Records that pages from this one on are about to be dropped. The checkpointer calls this.
    pub(super) fn uncover(&self, from: u64) {
        let covered = self.covered.load(Relaxed);
        self.covered.store(covered.min(from), Relaxed);
    }

    /// Makes the error for a lost sector, or a lost write of it: the page's place does not hold what `entry`
    /// says.
    pub(crate) fn lost(&self, page: u64, entry: MapEntry) -> Error {
        let (sector, _) = Self::place_of(page);
        let found = match entry {
            MapEntry::Dropped => format!("it lists page {page} as behind the end of the file"),
            _ => {
                format!(
                    "it lists page {page} as never written, but the data file holds bytes there"
                )
            }
        };
        self.damaged(sector, found)
    }

    /// Returns the map's entry of a page.
    pub(super) fn entry(&self, page: u64) -> Result<MapEntry> {
        let (sector, at) = Self::place_of(page);
        let entry = self.with_sector(sector, |cached| {
            Some(cached.sectors.get(&sector)?.entries[at])
        });
        match entry {
            // The entry says nothing for such a page, damaged or not. An error would lose the page for no
            // reason.
            Err(Error::Damaged { .. }) if page >= self.opened_with => Ok(MapEntry::Absent),
            entry => entry,
        }
    }

    /// Returns the entry of a page with these bytes.
    pub(super) fn entry_of(&self, page: u64, image: &Image) -> MapEntry {
        match self.checksums {
            true => MapEntry::of(page, image),
            false => MapEntry::Present { crc: 0 },
        }
    }

    /// Records what the places of pages hold. A damaged sector begins anew, as if it had been lost. It then
    /// calls its other pages never written, and the data file contradicts that for each page that holds
    /// something. Otherwise no checkpoint could end, and no page of the sector could be repaired.
    pub(super) fn set(&self, pages: impl Iterator<Item = (u64, MapEntry)>) -> io::Result<()> {
        for (page, entry) in pages {
            let (sector, at) = Self::place_of(page);
            let set = |cached: &mut Cached| {
                cached.sectors.get_mut(&sector)?.entries[at] = entry;
                cached.dirty.insert(sector);
                Some(())
            };
            match self.with_sector(sector, set) {
                Err(Error::Damaged { .. }) => {
                    let mut cached = self.cached();
                    cached.sectors.entry(sector).or_default();
                    let _ = set(&mut cached);
                }
                result => result.map_err(io::Error::other)?,
            }
        }
        Ok(())
    }

    /// Marks every sector that describes, or once described, pages from this one on. [`write`](Self::write)
    /// then writes them, changed or not.
    pub(super) fn rewrite_from(&self, page: u64) -> Result<()> {
        if planted!("recovered-drop-believed") {
            return Ok(());
        }
        // Other sectors in memory were never written, and the file may have no blocks for them.
        for sector in self.used_sectors(Self::place_of(page).0..u64::MAX)? {
            self.empty_if_damaged(sector)?;
            self.with_sector(sector, |cached| {
                cached.sectors.get(&sector)?;
                cached.dirty.insert(sector);
                Some(())
            })?;
        }
        Ok(())
    }

    /// Returns the pages in `range` whose entries are wanted, in ascending order. Absent pages may be left
    /// out. Reads that part of the map. Holes of a sparse map cost little.
    pub(super) fn pages_in(
        &self,
        range: Range<u64>,
        is_wanted: impl Fn(MapEntry) -> bool,
    ) -> Result<Vec<u64>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = Self::place_of(range.start).0..Self::place_of(range.end - 1).0 + 1;
        let mut pages = Vec::new();
        for sector in self.known_sectors(wanted)? {
            self.empty_if_damaged(sector)?;
            for at in 0..MAP_SECTOR_ENTRIES as u64 {
                let page = sector * MAP_SECTOR_ENTRIES as u64 + at;
                if range.contains(&page) && is_wanted(self.entry(page)?) {
                    pages.push(page);
                }
            }
        }
        Ok(pages)
    }

    /// Replaces a damaged sector by an empty one. Its pages stay damaged where the data file holds something,
    /// and can be dropped. The checkpointer calls this.
    fn empty_if_damaged(&self, sector: u64) -> Result<()> {
        match self.with_sector(sector, |cached| cached.sectors.get(&sector).map(drop)) {
            Err(Error::Damaged { .. }) => {
                let mut cached = self.cached();
                let entries = [MapEntry::Absent; MAP_SECTOR_ENTRIES];
                cached
                    .sectors
                    .entry(sector)
                    .or_insert(MapSector { entries });
                cached.dirty.insert(sector);
                Ok(())
            }
            found => found,
        }
    }

    /// Returns those of these sectors that describe pages, or once did.
    pub(super) fn known_sectors(&self, wanted: Range<u64>) -> Result<BTreeSet<u64>> {
        // Reads the file first: sectors that other threads read meanwhile are in memory then.
        let mut sectors = self.used_sectors(wanted.clone())?;
        sectors.extend(self.cached().sectors.keys().filter(|s| wanted.contains(s)));
        Ok(sectors)
    }

    /// Returns those of these sectors that are in the file and not all zeroes, or that cannot be read.
    pub(crate) fn used_sectors(&self, wanted: Range<u64>) -> Result<BTreeSet<u64>> {
        let read_error = |e| Error::io("read", &self.path)(e);
        let end = self.file.len().map_err(read_error)?;
        let end = end.div_ceil(MAP_SECTOR_LEN as u64).min(wanted.end);
        let mut sectors = BTreeSet::new();
        let mut start = wanted.start;
        let most = end.saturating_sub(start).min(LONGEST_WRITE as u64);
        let mut buf = vec![0; most as usize * MAP_SECTOR_LEN];
        // Skips the holes of a sparse file.
        while start < end
            && let Some(at) = self
                .file
                .next_data(start * MAP_SECTOR_LEN as u64)
                .map_err(read_error)?
        {
            start = start.max(at / MAP_SECTOR_LEN as u64);
            let next = end.min(start + most);
            let offset = start * MAP_SECTOR_LEN as u64;
            let got = file_read::read(&*self.file, offset, &mut buf, ReadSource::Cache);
            match got.map_err(read_error)? {
                ReadResult::Bytes(read) => {
                    let used = |(_, sector): &(u64, &[u8])| sector.iter().any(|b| *b != 0);
                    let read = (start..next).zip(buf[..read].chunks(MAP_SECTOR_LEN));
                    sectors.extend(read.filter(used).map(|(n, _)| n));
                }
                // Each sector is read by itself later, which shows the damaged ones.
                ReadResult::Lost(_) => sectors.extend(start..next),
            }
            start = next;
        }
        Ok(sectors)
    }

    /// Makes the file take blocks for the sectors of these pages, without changing a byte. Nothing else may
    /// write to the file meanwhile.
    pub(super) fn fill(&self, pages: Range<u64>) -> io::Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let offset = |page| Self::place_of(page).0 * MAP_SECTOR_LEN as u64;
        let sectors = offset(pages.start)..offset(pages.end - 1) + MAP_SECTOR_LEN as u64;
        let zeroes: Image = vec![0; MAP_SECTOR_LEN].into();
        room::fill(&*self.file, sectors, &zeroes)
    }

    /// Takes blocks as [`fill`](Self::fill), for those sectors of these pages that the file holds.
    pub(super) fn fill_used(&self, pages: Range<u64>) -> Result<()> {
        if pages.is_empty() || planted!("dropped-without-room") {
            return Ok(());
        }
        let sectors = Self::place_of(pages.start).0..Self::place_of(pages.end - 1).0 + 1;
        let used = self.used_sectors(sectors)?;
        let need = (used.len() * MAP_SECTOR_LEN) as u64;
        used.iter()
            .map(|sector| sector * MAP_SECTOR_ENTRIES as u64)
            .try_for_each(|first| self.fill(first..first + 1))
            .map_err(|e| Error::no_space("take space in", self.path.clone(), need, e))
    }

    /// Returns the number of pages whose sectors have blocks, without a gap.
    pub(super) fn filled_pages(&self) -> io::Result<u64> {
        let filled = filled_until(&*self.file, 0..self.file.len()?);
        Ok(filled / MAP_SECTOR_LEN as u64 * MAP_SECTOR_ENTRIES as u64)
    }

    /// Returns the number of bytes that were changed and not yet written.
    pub(super) fn unwritten(&self) -> u64 {
        (self.cached().dirty.len() * MAP_SECTOR_LEN) as u64
    }

    /// Writes the changed sectors.
    pub(super) fn write(&self) -> io::Result<()> {
        let runs = {
            let mut cached = self.cached();
            let dirty = std::mem::take(&mut cached.dirty);
            let encoded = |s: &u64| cached.sectors.get(s).map(|m| (*s, m.encode(*s)));
            contiguous(dirty.iter().filter_map(encoded))
        };
        let mut result = Ok(());
        for (first, bytes) in runs {
            if result.is_ok() {
                result = self.write_run(first, &bytes);
            }
            if result.is_err() && !planted!("map-change-forgotten") {
                // The next attempt writes them, once there is space.
                let sectors = (bytes.len() / MAP_SECTOR_LEN) as u64;
                self.cached().dirty.extend(first..first + sectors);
            }
        }
        result
    }

    fn write_run(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let mut buf = AlignedBuf::zeroed(bytes.len(), MAP_SECTOR_LEN);
        buf.copy_from_slice(bytes);
        let ticket = self.file.submit(Write {
            offset: first * MAP_SECTOR_LEN as u64,
            range: 0..bytes.len(),
            buf,
            through: false,
        });
        self.file.complete(ticket).result
    }

    /// Makes the written sectors durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.barrier(Barrier::Full)
    }
}

/// Gathers adjacent sectors into runs.
fn contiguous(sectors: impl Iterator<Item = (u64, [u8; MAP_SECTOR_LEN])>) -> Vec<(u64, Vec<u8>)> {
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    for (sector, bytes) in sectors {
        match runs.last_mut() {
            Some((first, run))
                if *first + (run.len() / MAP_SECTOR_LEN) as u64 == sector
                    && run.len() < LONGEST_WRITE * MAP_SECTOR_LEN =>
            {
                run.extend_from_slice(&bytes);
            }
            _ => runs.push((sector, bytes.to_vec())),
        }
    }
    runs
}
