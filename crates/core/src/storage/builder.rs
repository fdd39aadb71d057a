//! Preparing the file of a segment, and retiring the file of a truncated one.

use crate::error::{Error, Result};
use crate::names;
use crate::storage::directory::set_aside;
use crate::storage::durability::{Why, barrier, sync_names};
use crate::storage::segment::Segment;
use crate::storage::transfer::write_part;
use logforce_device::sync::AtomicBool;
use logforce_device::{Access, AlignedBuf, Barrier, Blocks, Directory, File, OpenFile, Runtime};
use logforce_format::{Epoch, LogId, Lsn, SegmentHeader, planted};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// Bytes per write of a fill. A commit may queue behind one such write, and, where a force flushes
/// the whole device, must wait until it is on the medium as well.
const FILL_CHUNK: usize = 256 << 10;
/// The same while appends wait for the fill: then throughput is what counts.
const FILL_CHUNK_IN_HASTE: usize = 1 << 20;
/// Minimum pause between two of them while no append waits.
pub(crate) const FILL_PAUSE: Duration = Duration::from_millis(1);

/// How many prepared segments after the current one stay open. A long record may span more.
pub(crate) const OPEN_AHEAD: usize = 2;

/// What preparing a segment needs.
pub(crate) struct SegmentBuilder<'a> {
    pub(crate) dir: &'a Arc<dyn Directory>,
    pub(crate) log_id: LogId,
    pub(crate) epoch: Epoch,
    pub(crate) direct: bool,
    /// Fill with zeroes what was never written.
    pub(crate) fill: bool,
    /// Fill in any case where the filesystem does not reserve blocks (an ext4 without extents): a commit
    /// that finds the disk full fails the log.
    pub(crate) needs_blocks: bool,
    /// A write without a force guarantees more on blocks that were written before.
    pub(crate) needs_written: bool,
    /// Stops it early.
    pub(crate) stop: Option<&'a AtomicBool>,
    /// Called after each write of a fill; may pause.
    pub(crate) pace: &'a dyn Fn(Filled) -> Fill,
    pub(crate) runtime: &'a dyn Runtime,
}

/// How far a fill has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    /// Bytes that are filled.
    pub(crate) done: u64,
    /// Bytes of the file.
    pub(crate) of: u64,
    /// How long the last write took.
    pub(crate) took: Duration,
}

/// Whether a fill goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    GoesOn,
    /// Appends wait for it.
    InHaste,
    /// The rest stays reserved.
    Ends,
}

/// A segment that was prepared now.
pub(crate) struct Made {
    pub(crate) segment: Arc<Segment>,
    /// Its file was used before.
    pub(crate) recycled: bool,
}

/// A file without a header.
struct Blank {
    file: Arc<dyn File>,
    /// Blocks of it may never have been written.
    unwritten: bool,
    /// The build allocated blocks or wrote them for the first time.
    changed: bool,
}

/// A spare file, ready for reuse.
#[derive(Debug, Clone)]
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) len: u64,
    /// Blocks of it may never have been written.
    pub(crate) unwritten: bool,
}

/// What to do with the file of a truncated segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetireAction {
    /// Make it a spare.
    Reuse,
    /// Delete it.
    Remove,
}

/// Renames or removes the file of a truncated segment.
pub(crate) fn retire(
    dir: &Arc<dyn Directory>,
    segment: &Segment,
    action: RetireAction,
) -> Result<Option<Spare>> {
    let from = segment.name();
    let path = dir.path().join(&from);
    let start = segment.header.start;
    let to = match action {
        RetireAction::Reuse => Some(names::spare(start)),
        RetireAction::Remove => None,
    };
    if let Some(to) = to {
        match dir.rename(&from, &to).map_err(Error::io("rename", &path)) {
            Ok(()) => {
                segment.set_name(to.clone());
                return Ok(Some(Spare {
                    name: to,
                    len: segment.header.len,
                    // Although the log went on behind it: one that ends at damage goes on in another
                    // segment, and leaves the rest of this one as it was.
                    unwritten: segment.is_unwritten(),
                }));
            }
            // A full disk may lack space even for another name: removes the file then.
            Err(e) if e.is_full() => {}
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        }
    }
    match dir.remove(&from).map_err(Error::io("remove", path)) {
        // Removed already, perhaps by an earlier call that reported an error.
        Err(e) if !e.is_not_found() => Err(e),
        _ => Ok(None),
    }
}

impl SegmentBuilder<'_> {
    /// Prepares the file of a segment, and makes its name durable. The control file does not list it
    /// yet.
    pub(crate) fn make(
        &self,
        start: Lsn,
        len: u64,
        unit: u32,
        spare: Option<&Spare>,
    ) -> Result<Arc<Segment>> {
        let segment = self.make_file(start, len, unit, spare)?;
        self.sync_names(std::slice::from_ref(&segment))?;
        Ok(segment)
    }

    /// Makes the names of prepared segments durable: nothing may depend on them before. Removes their
    /// files if that fails.
    pub(crate) fn sync_names(&self, made: &[Arc<Segment>]) -> Result<()> {
        sync_names(&**self.dir, Why::NewSegmentName).map_err(|e| {
            for segment in made {
                drop(segment.take_handle());
                let _ = self.dir.remove(&segment.name());
            }
            Error::io("sync directory", self.dir.path())(e)
        })
    }

    /// Prepares the file of a segment: allocates and fills it, writes the header, syncs it, and renames
    /// it to its final name.
    pub(crate) fn make_file(
        &self,
        start: Lsn,
        len: u64,
        unit: u32,
        spare: Option<&Spare>,
    ) -> Result<Arc<Segment>> {
        let from = match spare {
            Some(spare) => spare.name.clone(),
            None => names::preparing(start),
        };
        let blank = match spare {
            Some(spare) => self.take(spare, unit),
            None => self.create(&from, len, unit),
        };
        let Blank {
            file,
            unwritten,
            changed,
        } = blank.inspect_err(|_| {
            let _ = self.dir.remove(&from);
        })?;
        let header = SegmentHeader {
            log_id: self.log_id,
            start,
            len,
            write_unit: unit,
            epoch: self.epoch,
            unwritten,
        };
        let path = self.dir.path().join(&from);
        let mut buf = AlignedBuf::zeroed(SegmentHeader::data_offset(unit) as usize, 65536);
        buf[..logforce_format::SEGMENT_HEADER_LEN].copy_from_slice(&header.encode());
        let range = 0..buf.len();
        let made = write_part(&*file, 0, buf, range)
            .map_err(Error::io("write", &path))
            // One barrier for extents, size and header; of a file that is used again only the header
            // changes. The control file lists the segment only after it, so a crash before leaves a
            // file on which nothing depends.
            .and_then(|_| {
                let how = if changed {
                    Barrier::Full
                } else {
                    Barrier::Data
                };
                let synced = barrier(&*file, how, Why::NewSegment);
                synced.map_err(Error::io("sync", &path))
            });
        if let Err(e) = made {
            drop(file);
            let _ = self.dir.remove(&from);
            return Err(e);
        }
        let name = names::segment(start);
        // A file with that name is not a segment of this log, or was renamed by hand.
        set_aside(self.dir, &name)?;
        if let Err(e) = self.dir.rename(&from, &name) {
            drop(file);
            let _ = self.dir.remove(&from);
            return Err(Error::io("rename", &path)(e));
        }
        let segment = Segment::new(self.dir.clone(), name, header);
        segment.set_writer(file);
        Ok(Arc::new(segment))
    }

    /// Opens a spare. Old batches stay in it: their LSNs are below the segment's start, so a scan
    /// rejects them.
    fn take(&self, spare: &Spare, unit: u32) -> Result<Blank> {
        let path = self.dir.path().join(&spare.name);
        let how = OpenFile {
            access: Access::Write,
            direct: self.direct,
        };
        let opened = self.dir.open(&spare.name, how);
        let file = opened.map_err(Error::io("open for writing", &path))?;
        let blocks = match self.needs_blocks {
            true => self.blocks(&*file, 0..spare.len, spare.unwritten),
            // No blocks are needed here, and nothing depends on this value.
            false => Blocks::Reserved,
        };
        let changed = blocks != Blocks::Written;
        let must = blocks == Blocks::Missing;
        let unwritten = changed && !self.fill(&*file, &path, 0..spare.len, unit, must)?;
        Ok(Blank {
            file,
            unwritten,
            changed,
        })
    }

    /// Returns the state of a prepared range: the worst that a write to it meets. The file may be a copy that
    /// lacks blocks of zeroes, and a crash would lose a commit there that it should survive. If the system
    /// does not answer, the state that was prepared (`unwritten` or not) counts only for a method that does
    /// not need written blocks.
    pub(crate) fn blocks(&self, file: &dyn File, range: Range<u64>, unwritten: bool) -> Blocks {
        let prepared = match unwritten {
            true => Blocks::Reserved,
            false => Blocks::Written,
        };
        if planted!("holes-believed") {
            return prepared;
        }
        match file.blocks(range) {
            Blocks::Unknown if self.needs_written => Blocks::Missing,
            Blocks::Unknown => prepared,
            known => known,
        }
    }

    fn create(&self, name: &str, len: u64, unit: u32) -> Result<Blank> {
        let path = self.dir.path().join(name);
        let how = OpenFile {
            access: Access::CreateNew,
            direct: self.direct,
        };
        let file = match self.dir.open(name, how) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                self.dir.remove(name).map_err(Error::io("remove", &path))?;
                self.dir.open(name, how)
            }
            other => other,
        }
        .map_err(Error::io("create", &path))?;
        let is_reserved = file
            .reserve(len)
            .map_err(Error::io("reserve space in", &path))?;
        let must = self.needs_blocks && !is_reserved;
        let unwritten = !self.fill(&*file, &path, 0..len, unit, must)?;
        Ok(Blank {
            file,
            unwritten,
            changed: true,
        })
    }

    /// Fills the range with zeroes if the builder's settings or `must` ask for it. Returns true if it did.
    pub(crate) fn fill(
        &self,
        file: &dyn File,
        path: &Path,
        range: Range<u64>,
        unit: u32,
        must: bool,
    ) -> Result<bool> {
        if !self.fill && !must {
            return Ok(false);
        }
        // No write-through: one barrier at the end costs a fraction of many.
        let Range { start, end: len } = range;
        let (mut at, mut chunk) = (start, FILL_CHUNK);
        let mut buf = AlignedBuf::zeroed(
            (FILL_CHUNK_IN_HASTE as u64).min(len - start) as usize,
            (unit as usize).max(4096),
        );
        while at < len {
            if self.stop.is_some_and(|stop| stop.load(Relaxed)) {
                return Err(Error::Closed);
            }
            let n = (chunk as u64).min(len - at) as usize;
            let began = self.runtime.now();
            buf = write_part(file, at, buf, 0..n).map_err(Error::io("fill", path))?;
            at += n as u64;
            let filled = Filled {
                done: at,
                of: len,
                took: self.runtime.now().saturating_sub(began),
            };
            if at < len {
                chunk = match (self.pace)(filled) {
                    Fill::GoesOn => FILL_CHUNK,
                    Fill::Ends if !must => return Ok(false),
                    Fill::InHaste | Fill::Ends => FILL_CHUNK_IN_HASTE,
                };
            }
        }
        Ok(true)
    }
}
