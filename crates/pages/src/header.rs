//! The two header slots of the data file.

use crate::error::{Error, Result};
use crate::file_read::{ReadResult, attempts, read};
use crate::files::{DATA, DATA_NEW, DataDir};
use logforce_device::{AlignedBuf, Barrier, Facts, File, OpenFile, ReadSource, Write};
use logforce_format::{
    PAGE_DATA_OFFSET, PAGE_FORMAT_VERSION, PAGE_HEADER_LEN, PAGE_HEADER_OFFSETS, PageFileHeader,
    PageHeaderReject, newest_page_header,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The two header slots. Each update overwrites the older slot and forces it, so a crash leaves the newer
/// slot whole.
pub(crate) struct HeaderSlots {
    file: Arc<dyn File>,
    path: PathBuf,
    /// Length in bytes of a read past the system's cache.
    unit: usize,
    /// True if both slots held the same header, apart from the sequence, when they were read.
    pub(crate) are_alike: bool,
    /// Index of the slot that the next update overwrites.
    older: usize,
    /// Current header.
    pub(crate) header: PageFileHeader,
}

impl HeaderSlots {
    /// Creates the data file. The file gets its name once it is complete and forced. A crash before that
    /// leaves a directory without a page file.
    pub(crate) fn create(data_dir: &DataDir, header: &PageFileHeader) -> Result<()> {
        let create = || data_dir.dir.open(DATA_NEW, OpenFile::CREATE);
        let file = create().or_else(|e| match e.kind() {
            // Left behind by a creation that did not finish.
            io::ErrorKind::AlreadyExists => {
                data_dir.dir.remove(DATA_NEW)?;
                create()
            }
            _ => Err(e),
        });
        let file = file.map_err(Error::io("create", data_dir.path_of(DATA_NEW)))?;
        HeaderSlots::complete(data_dir, &*file, DATA_NEW, header)
    }

    /// Writes both slots of a new file, forces it, and renames it to the data file.
    pub(crate) fn complete(
        data_dir: &DataDir,
        file: &dyn File,
        name: &str,
        header: &PageFileHeader,
    ) -> Result<()> {
        let path = data_dir.path_of(name);
        // Writes both slots, so that the loss of one block does not lose the file.
        let mut buf = AlignedBuf::zeroed(PAGE_DATA_OFFSET as usize, PAGE_HEADER_LEN);
        for at in PAGE_HEADER_OFFSETS {
            let at = at as usize;
            buf[at..at + PAGE_HEADER_LEN].copy_from_slice(&header.encode());
        }
        let ticket = file.submit(Write {
            offset: 0,
            range: 0..buf.len(),
            buf,
            through: false,
        });
        file.complete(ticket)
            .result
            .map_err(Error::io("write", &path))?;
        file.barrier(Barrier::Full)
            .map_err(Error::io("sync", &path))?;
        data_dir
            .dir
            .rename(name, DATA)
            .map_err(Error::io("rename", &path))?;
        data_dir.sync_names()
    }

    /// Reads the slots, past the system's cache where possible. After a failed write the cache may hold a
    /// slot that the medium never got.
    pub(crate) fn load(data_dir: &DataDir, file: Arc<dyn File>) -> Result<HeaderSlots> {
        let path = data_dir.path_of(DATA);
        let slots = read_slots(&data_dir.facts, &*file, &path)?;
        let (newest, header) = in_force(slots, &path)?;
        let are_alike = slots.iter().all(|slot| {
            let sequence = header.sequence;
            slot.is_ok_and(|held| PageFileHeader { sequence, ..held } == header)
        });
        Ok(HeaderSlots {
            file,
            path,
            unit: slot_unit(&data_dir.facts),
            are_alike,
            older: 1 - newest,
            header,
        })
    }

    /// Writes the header into the older slot and forces it. Everything that it refers to must already be
    /// durable.
    pub(crate) fn store(&mut self, mut header: PageFileHeader) -> io::Result<()> {
        header.sequence = self.header.sequence + 1;
        let mut buf = AlignedBuf::zeroed(PAGE_HEADER_LEN, PAGE_HEADER_LEN);
        buf.copy_from_slice(&header.encode());
        let ticket = self.file.submit(Write {
            offset: PAGE_HEADER_OFFSETS[self.older],
            range: 0..PAGE_HEADER_LEN,
            buf,
            through: true,
        });
        self.file.complete(ticket).result?;
        self.accept(header);
        Ok(())
    }

    /// Checks on the medium if the older slot holds the header that [`HeaderSlots::store`] failed to write.
    /// If so, that header becomes the current one. A barrier must have succeeded since the failure: then the
    /// system's cache holds nothing that would change the slot later.
    pub(crate) fn settle(&mut self, mut header: PageFileHeader) -> io::Result<bool> {
        header.sequence = self.header.sequence + 1;
        let mut buf = AlignedBuf::zeroed(self.unit, self.unit);
        let offset = PAGE_HEADER_OFFSETS[self.older];
        // Returns false only if no attempt finds the header. A crash could reveal a header that one wrong
        // read misses.
        for _ in 0..attempts() {
            let len = self.file.read_at(offset, &mut buf, ReadSource::Medium)?;
            let slot = buf.get(..len.min(PAGE_HEADER_LEN)).unwrap_or_default();
            if slot == header.encode() {
                self.accept(header);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn accept(&mut self, header: PageFileHeader) {
        self.older = 1 - self.older;
        self.header = header;
    }

    /// Returns the path of the file, for messages.
    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }
}

/// Header in a slot, or the reason to reject the slot.
pub(crate) type Slot = std::result::Result<PageFileHeader, PageHeaderReject>;

/// Reads both slots.
pub(crate) fn read_slots(facts: &Facts, file: &dyn File, path: &Path) -> Result<[Slot; 2]> {
    Ok([
        read_slot(facts, file, PAGE_HEADER_OFFSETS[0], path)?,
        read_slot(facts, file, PAGE_HEADER_OFFSETS[1], path)?,
    ])
}

/// Returns the current header of the two slots, with the index of its slot.
pub(crate) fn in_force(slots: [Slot; 2], path: &Path) -> Result<(usize, PageFileHeader)> {
    let path = path.to_owned();
    let newer = slots.iter().find_map(|s| match s {
        Err(PageHeaderReject::Version(v)) if *v > PAGE_FORMAT_VERSION => Some(*v),
        _ => None,
    });
    if let Some(version) = newer {
        return Err(Error::NewerFormat { path, version });
    }
    newest_page_header(slots).map_err(|rejects| match rejects {
        [PageHeaderReject::Magic, PageHeaderReject::Magic] => Error::NotAPageFile {
            path,
            why: "it does not begin with the header of a page file".to_owned(),
        },
        [a, b] => Error::Damaged {
            path,
            what: "header".to_owned(),
            offset: PAGE_HEADER_OFFSETS[0],
            found: format!("both slots are unusable ({a}; {b})"),
        },
    })
}

/// Returns the length and alignment of a read of a slot.
fn slot_unit(facts: &Facts) -> usize {
    PAGE_HEADER_LEN.max(facts.write_unit() as usize)
}

/// Reads a slot. A slot that the medium does not return in any attempt is damaged, and the other one may be
/// whole. One attempt is not enough: after a wrong read, the next header would overwrite the current slot.
fn read_slot(facts: &Facts, file: &dyn File, offset: u64, path: &Path) -> Result<Slot> {
    let unit = slot_unit(facts);
    let mut buf = AlignedBuf::zeroed(unit, unit);
    let source = match facts.reads_medium() {
        true => ReadSource::Medium,
        false => ReadSource::Cache,
    };
    let mut slot = Err(PageHeaderReject::Magic);
    for _ in 0..attempts() {
        let got = read(file, offset, &mut buf, source).map_err(Error::io("read", path))?;
        slot = match got {
            ReadResult::Bytes(n) => PageFileHeader::decode(&buf[..n.min(PAGE_HEADER_LEN)]),
            ReadResult::Lost(_) => Err(PageHeaderReject::Checksum),
        };
        if slot.is_ok() {
            break;
        }
    }
    Ok(slot)
}
