//! Read-only view of a page file that no program has open, for example on a read-only mount.

use super::data::Data;
use super::one::{Rebuilt, in_data};
use super::{Inspector, redo, table};
use crate::changes::{Image, Purpose};
use crate::cow::node_store::NodeStore;
use crate::cow::table_scan;
use crate::cow::tree::{PageLookup, Tree};
use crate::error::{Error, Result};
use crate::files::{DATA, LOG};
use crate::logged::read::sectors_with_data;
use logforce_core::ReadOnly;
use logforce_device::{Directory, File, OpenFile, ReadSource, System};
use logforce_format::{
    CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Lsn, MAP_SECTOR_ENTRIES, PAGE_HEADER_LEN,
    PAGE_HEADER_OFFSETS, PageChange, PageFileHeader, PageFileKind, Redo,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of bytes of the page table in memory.
const CACHE: usize = 4 << 20;

/// State that the next opening would begin with, read in place. No lock keeps a writer away. The view detects
/// a writer that begins, and refuses reads from then on.
pub(crate) struct ReadOnlyView {
    inspector: Inspector,
    watched: Vec<Watched>,
    commit: u64,
    page_count: u64,
    pages: Pages,
}

/// Sources of the pages.
enum Pages {
    ByTable { medium: Box<NodeStore>, tree: Tree },
    InLogAndData(InLogAndData),
}

struct InLogAndData {
    /// Header with which the log was read.
    header: PageFileHeader,
    log: ReadOnly,
    map: Arc<dyn File>,
    /// Records that rebuild a page, by page number. Empty for a dropped page.
    records: BTreeMap<u64, Vec<Lsn>>,
    /// First of the dropped pages that have no records.
    dropped_from: u64,
}

/// Records that rebuild each page, by page number.
#[derive(Default)]
struct RecordsByPage {
    records: BTreeMap<u64, Vec<Lsn>>,
}

impl RecordsByPage {
    fn note(&mut self, start: Lsn, redo: &Redo<'_>) {
        for (_, records) in self.records.range_mut(redo.resize.drop_from..) {
            records.clear();
        }
        for (page, change) in &redo.pages {
            let records = self.records.entry(*page).or_default();
            if !matches!(change, PageChange::Ranges(_)) {
                records.clear();
            }
            if !matches!(change, PageChange::Discard) {
                records.push(start);
            }
        }
    }
}

/// The two slots of a file. Every writer changes one of them before it changes a page.
struct Watched {
    file: Arc<dyn File>,
    path: PathBuf,
    slots: [u64; 2],
    slot_len: usize,
    bytes: Vec<u8>,
}

impl Watched {
    fn new(
        file: Arc<dyn File>,
        path: PathBuf,
        slots: [u64; 2],
        slot_len: usize,
    ) -> Result<Watched> {
        let mut watched = Watched {
            file,
            path,
            slots,
            slot_len,
            bytes: Vec::new(),
        };
        watched.bytes = watched.now()?;
        Ok(watched)
    }

    fn now(&self) -> Result<Vec<u8>> {
        let mut now = vec![0; 2 * self.slot_len];
        for (at, buf) in self.slots.iter().zip(now.chunks_mut(self.slot_len)) {
            let read = self.file.read_at(*at, buf, ReadSource::Cache);
            read.map_err(Error::io("read", &self.path))?;
        }
        Ok(now)
    }
}

impl ReadOnlyView {
    /// Returns the page file's directory.
    pub(crate) fn dir(&self) -> &dyn Directory {
        &*self.inspector.dir
    }

    /// Opens the page file in the directory `path`.
    pub(crate) fn open(system: &Arc<dyn System>, path: &Path) -> Result<ReadOnlyView> {
        let inspector = Inspector::open(system.clone(), path)?;
        let data = inspector.data.clone();
        let data = Watched::new(data, path.join(DATA), PAGE_HEADER_OFFSETS, PAGE_HEADER_LEN)?;
        let mut watched = vec![data];
        if let PageFileKind::Logged(_) = inspector.header.kind
            && let Ok(dir) = system.directory(&path.join(LOG))
            && let Ok(control) = dir.open("control", OpenFile::READ)
        {
            // Without a control file the log cannot be opened either, and that error is returned.
            let path = path.join(LOG).join("control");
            let control = Watched::new(control, path, CONTROL_SLOT_OFFSETS, CONTROL_SLOT_LEN)?;
            watched.push(control);
        }
        // Checks the lock after reading the slots. An earlier writer still holds the lock, and a later one
        // changes a slot.
        if inspector.is_locked()? {
            return Err(locked(path));
        }
        let header = inspector.header;
        let (commit, page_count, pages) = match header.kind {
            PageFileKind::CopyOnWrite(root) => {
                let medium = table::medium(&inspector, CACHE);
                // Verifies that no two nodes share a part of the table, which bounds later walks.
                table_scan::scan(&medium, &header, &root, 1)?;
                let tree = Tree::stored(&root);
                let medium = Box::new(medium);
                let pages = Pages::ByTable { medium, tree };
                (header.commit, header.page_count, pages)
            }
            PageFileKind::Logged(_) => read_log(&inspector)?,
        };
        let view = ReadOnlyView {
            inspector,
            watched,
            commit,
            page_count,
            pages,
        };
        view.check()?;
        Ok(view)
    }

    /// Fails if a program has opened the file for writing since the view was opened.
    fn check(&self) -> Result<()> {
        for watched in &self.watched {
            if watched.now()? != watched.bytes {
                return Err(locked(&self.inspector.path));
            }
        }
        Ok(())
    }

    pub(crate) fn commit(&self) -> u64 {
        self.commit
    }

    pub(crate) fn page_count(&self) -> u64 {
        self.page_count
    }

    pub(crate) fn header(&self) -> PageFileHeader {
        self.inspector.header
    }

    pub(crate) fn each_number(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let page_size = self.header().page_size;
        match &self.pages {
            Pages::ByTable { medium, tree } => tree.each_page(&**medium, page_size, visit),
            Pages::InLogAndData(pages) => {
                let entries = MAP_SECTOR_ENTRIES as u64;
                let data = Data::of(&self.inspector, pages.map.clone());
                let count = self.page_count;
                let mut sectors = data.map.used_sectors(0..count.div_ceil(entries))?;
                sectors.extend(pages.records.keys().map(|page| page / entries));
                // The map may have lost some sectors. Reading a page of such a sector reports that.
                let with_data = sectors_with_data(&*self.inspector.data, page_size as usize);
                let path = self.inspector.path.join(DATA);
                sectors.extend(with_data.map_err(Error::io("look for data in", path))?);
                for sector in sectors {
                    (sector * entries..((sector + 1) * entries).min(count))
                        .try_for_each(&mut *visit)?;
                }
                Ok(())
            }
        }
    }

    /// Reads the contents of a page whose number is in range.
    pub(crate) fn image(&self, page: u64) -> Result<Image> {
        let image = match &self.pages {
            Pages::ByTable { medium, tree } => by_table(medium, tree, page),
            Pages::InLogAndData(pages) => self.in_log_or_data(pages, page),
        };
        // Also checks after apparent damage, because a writer may have changed the page.
        self.check()?;
        image
    }

    fn in_log_or_data(&self, pages: &InLogAndData, page: u64) -> Result<Image> {
        let page_size = self.header().page_size;
        let zeroes = || Image::from(vec![0; page_size as usize]);
        match pages.records.get(&page) {
            Some(records) => {
                let mut rebuilt = Rebuilt::default();
                for start in records {
                    rebuilt.add(&pages.log.read_at(*start)?, page, page_size);
                }
                Ok(rebuilt.bytes.map_or_else(zeroes, Image::from))
            }
            // Behind the last header's end the map has no valid entries.
            None if page >= pages.dropped_from.min(pages.header.page_count) => Ok(zeroes()),
            None => {
                let data = Data::of(&self.inspector, pages.map.clone());
                let found = in_data(&data, &pages.header, page)?;
                match found.damage {
                    Some(damage) => Err(self.inspector.error_of(&damage)),
                    None => Ok(found.bytes.map_or_else(zeroes, Image::from)),
                }
            }
        }
    }
}

fn by_table(medium: &NodeStore, tree: &Tree, page: u64) -> Result<Image> {
    match tree.find(medium, medium.page_size, page)? {
        PageLookup::Hole => Ok(medium.zeroes.clone()),
        PageLookup::Fresh(image) => Ok(image),
        PageLookup::Stored(at) => medium.page(page, at, Purpose::Read),
    }
}

/// Reads the changes that the log holds beyond the data file.
fn read_log(inspector: &Inspector) -> Result<(u64, u64, Pages)> {
    let page_size = inspector.header.page_size;
    let mut changes = RecordsByPage::default();
    // A record that cannot be decoded is reported as damage.
    let read = redo::read_undamaged(inspector, &mut |record| {
        if let Ok(redo) = Redo::decode(&record.data, page_size) {
            changes.note(record.start, &redo);
        }
    })?;
    let in_log = read.map_err(|damage| inspector.error_of(&damage))?;
    let pages = InLogAndData {
        header: in_log.header,
        log: ReadOnly::open(&*inspector.system, inspector.path.join(LOG))?,
        map: inspector.existing_map()?,
        records: changes.records,
        dropped_from: in_log.dropped_from,
    };
    Ok((
        in_log.commit(),
        in_log.page_count,
        Pages::InLogAndData(pages),
    ))
}

fn locked(path: &Path) -> Error {
    Error::Locked {
        path: path.to_owned(),
    }
}
