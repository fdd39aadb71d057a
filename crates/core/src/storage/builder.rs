//! Preparing the file of a segment, and retiring the file of a truncated one.

use crate::error::{Error, Result};
use crate::names;
use crate::storage::directory::set_aside;
use crate::storage::durability::{Why, barrier, sync_names};
use crate::storage::segment::Segment;
use crate::storage::transfer::{write, write_part};
use crate::storage::zero_fill::DeviceZeroes;
use logforce_device::sync::AtomicBool;
use logforce_device::{Access, AlignedBuf, Barrier, Blocks, Directory, File, OpenFile, Runtime};
use logforce_format::{Epoch, LogId, Lsn, SegmentHeader, planted};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// Bytes per write of a fill. A commit may queue behind one such write. If a force flushes the whole device,
/// the commit also waits until that write is on the medium.
const FILL_CHUNK: usize = 128 << 10;
/// Bytes per write of a fill that is late, or on a device whose writes take longer than [`SLOW_WRITE`] on
/// average. Such a device counts requests, as a cloud volume does, or seeks.
const FILL_CHUNK_LARGE: usize = 512 << 10;
const SLOW_WRITE: Duration = Duration::from_millis(1);
/// Bytes per write of a fill while appends wait for it: then throughput counts.
const FILL_CHUNK_IN_HASTE: usize = 1 << 20;
/// Bytes that the device zeroes at once. A fill can pause and stop only between two such commands.
const ZEROES_AT_ONCE: u64 = 16 << 20;

/// Number of prepared segments after the current one that stay open. A long record may span more.
pub(crate) const OPEN_AHEAD: usize = 2;

/// Settings for preparing a segment.
pub(crate) struct SegmentBuilder<'a> {
    pub(crate) dir: &'a Arc<dyn Directory>,
    pub(crate) log_id: LogId,
    pub(crate) epoch: Epoch,
    pub(crate) direct: bool,
    /// True if blocks that were never written are filled with zeroes.
    pub(crate) fill: bool,
    /// Zeroes by the device, with which a fill replaces its writes if possible.
    pub(crate) zeroes: &'a DeviceZeroes,
    /// True if the file is filled in any case when the filesystem does not reserve blocks (ext4 without
    /// extents). Otherwise a commit that finds the disk full would fail the log.
    pub(crate) needs_blocks: bool,
    /// True if a write without a force guarantees more on blocks that were written before.
    pub(crate) needs_written: bool,
    /// Flag that stops the preparation early.
    pub(crate) stop: Option<&'a AtomicBool>,
    /// Function that is called after each write of a fill. It may pause.
    pub(crate) pace: &'a dyn Fn(Filled) -> Fill,
    pub(crate) runtime: &'a dyn Runtime,
}

/// Progress of a fill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    /// Number of bytes that are filled.
    pub(crate) done: u64,
    /// Size of the file, bytes.
    pub(crate) of: u64,
    /// Number of bytes of the last write, and its duration.
    pub(crate) last: (u64, Duration),
    /// Time since the fill began, pauses included.
    pub(crate) elapsed: Duration,
}

/// Decision how a fill continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    GoesOn,
    /// The fill continues without pauses and with larger writes, because appends may soon wait for it, or
    /// other logs wait for the thread.
    Late,
    /// The fill continues with larger writes, because appends wait for it.
    InHaste,
    /// The fill ends, and the rest stays reserved.
    Ends,
}

/// A segment that was just prepared.
pub(crate) struct Made {
    pub(crate) segment: Arc<Segment>,
    /// True if its file was used before.
    pub(crate) recycled: bool,
}

/// A file without a header.
struct Blank {
    file: Arc<dyn File>,
    /// True if some blocks of the file may never have been written.
    unwritten: bool,
    /// True if the builder allocated blocks, or wrote them for the first time.
    changed: bool,
}

/// A spare file, ready for reuse.
#[derive(Debug, Clone)]
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) len: u64,
    /// True if some blocks of the file may never have been written.
    pub(crate) unwritten: bool,
}

/// Action for the file of a truncated segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetireAction {
    /// The file becomes a spare.
    Reuse,
    /// The file is deleted.
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
                    // The segment may have unwritten blocks although the log continued behind it: after
                    // damage, a log continues in another segment and leaves the rest of this one unwritten.
                    unwritten: segment.is_unwritten(),
                }));
            }
            // A full disk may lack space even for another name. Then the file is removed.
            Err(e) if e.is_full() => {}
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        }
    }
    match dir.remove(&from).map_err(Error::io("remove", path)) {
        // A missing file was already removed, perhaps by an earlier call that reported an error.
        Err(e) if !e.is_not_found() => Err(e),
        _ => Ok(None),
    }
}

impl SegmentBuilder<'_> {
    /// Prepares the file of a segment, and makes its name durable. Does not list the segment in the control
    /// file.
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

    /// Makes a segment in a range that is void. It has no blocks but the first and the last one, because nothing
    /// is written to it before its file is reused.
    pub(crate) fn make_void(&self, start: Lsn, len: u64, unit: u32) -> Result<Arc<Segment>> {
        let name = names::preparing(start);
        let blank = self.create_sparse(&name, len, unit);
        let segment = self.complete(&name, blank, start, len, unit)?;
        self.sync_names(std::slice::from_ref(&segment))?;
        Ok(segment)
    }

    /// Makes the names of prepared segments durable. The log may not depend on the segments before that.
    /// Removes their files if that fails.
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
        self.complete(&from, blank, start, len, unit)
    }

    /// Completes the file `from` of a segment, or removes it.
    fn complete(
        &self,
        from: &str,
        blank: Result<Blank>,
        start: Lsn,
        len: u64,
        unit: u32,
    ) -> Result<Arc<Segment>> {
        let Blank {
            file,
            unwritten,
            changed,
        } = blank.inspect_err(|_| {
            let _ = self.dir.remove(from);
        })?;
        let header = SegmentHeader {
            log_id: self.log_id,
            start,
            len,
            write_unit: unit,
            epoch: self.epoch,
            unwritten,
        };
        let path = self.dir.path().join(from);
        let mut buf = AlignedBuf::zeroed(SegmentHeader::data_offset(unit) as usize, 65536);
        buf[..logforce_format::SEGMENT_HEADER_LEN].copy_from_slice(&header.encode());
        let range = 0..buf.len();
        let made = write_part(&*file, 0, buf, range)
            .map_err(Error::io("write", &path))
            // A single barrier covers extents (also those that the device zeroed), size and header. In a reused
            // file only the header changes. The control file lists the segment only after the barrier, so an
            // earlier crash leaves a file on which nothing depends.
            .and_then(|_| {
                let how = if changed && !planted!("device-zeroes-unrecorded") {
                    Barrier::Full
                } else {
                    Barrier::Data
                };
                let synced = barrier(&*file, how, Why::NewSegment);
                synced.map_err(Error::io("sync", &path))
            });
        if let Err(e) = made {
            drop(file);
            let _ = self.dir.remove(from);
            return Err(e);
        }
        let name = names::segment(start);
        // A file with that name is not a segment of this log, or was renamed by hand.
        set_aside(self.dir, &name)?;
        if let Err(e) = self.dir.rename(from, &name) {
            drop(file);
            let _ = self.dir.remove(from);
            return Err(Error::io("rename", &path)(e));
        }
        let segment = Segment::new(self.dir.clone(), name, header);
        segment.set_writer(file);
        Ok(Arc::new(segment))
    }

    /// Opens a spare. Old batches stay in it. A scan rejects them, because their LSNs are below the segment's
    /// start.
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
            // Blocks are not needed here, and nothing depends on this value.
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

    /// Returns the state of a prepared range: the worst state of any block in it. The file may be a copy that
    /// lacks blocks of zeroes. A crash would lose a commit there that should survive it. If the system does
    /// not report the state, the state at preparation (`unwritten` or not) counts, but only for a method that
    /// does not need written blocks.
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
        let file = self.create_file(name, &path)?;
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

    fn create_sparse(&self, name: &str, len: u64, unit: u32) -> Result<Blank> {
        let path = self.dir.path().join(name);
        let file = self.create_file(name, &path)?;
        let last = AlignedBuf::zeroed(unit as usize, 65536);
        write(&*file, len - u64::from(unit), last).map_err(Error::io("write", &path))?;
        if file.blocks(0..len) == Blocks::Unknown {
            // Otherwise the file would count as reserved when it is reused, and a commit could fail on a full disk.
            let reserved = file.reserve(len);
            reserved.map_err(Error::io("reserve space in", &path))?;
        }
        Ok(Blank {
            file,
            unwritten: true,
            changed: true,
        })
    }

    fn create_file(&self, name: &str, path: &Path) -> Result<Arc<dyn File>> {
        let how = OpenFile {
            access: Access::CreateNew,
            direct: self.direct,
        };
        match self.dir.open(name, how) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                self.dir.remove(name).map_err(Error::io("remove", path))?;
                self.dir.open(name, how)
            }
            other => other,
        }
        .map_err(Error::io("create", path))
    }

    /// Fills the range with zeroes if the builder's settings or `must` require it. Returns true if it did.
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
        // Does not write through, because a single barrier at the end costs much less.
        let Range { start, end: len } = range;
        let (mut at, mut chunk) = (start, FILL_CHUNK);
        let (began, mut spent, mut writes) = (self.runtime.now(), Duration::ZERO, 0);
        let mut buf = AlignedBuf::zeroed(
            (FILL_CHUNK_IN_HASTE as u64).min(len - start) as usize,
            (unit as usize).max(4096),
        );
        while at < len {
            if self.stop.is_some_and(|stop| stop.load(Relaxed)) {
                return Err(Error::Closed);
            }
            let from = at;
            let before = self.runtime.now();
            let by_device = len.min(at + ZEROES_AT_ONCE);
            let zeroed = self.zeroes.zero(file, at..by_device);
            if zeroed.map_err(Error::io("fill", path))? {
                at = by_device;
            } else {
                let n = (chunk as u64).min(len - at) as usize;
                buf = write_part(file, at, buf, 0..n).map_err(Error::io("fill", path))?;
                at += n as u64;
            }
            let now = self.runtime.now();
            let took = now.saturating_sub(before);
            spent += took;
            writes += 1;
            let filled = Filled {
                done: at,
                of: len,
                last: (at - from, took),
                elapsed: now.saturating_sub(began),
            };
            if at < len {
                chunk = match (self.pace)(filled) {
                    Fill::GoesOn if spent <= SLOW_WRITE * writes => FILL_CHUNK,
                    Fill::GoesOn | Fill::Late => FILL_CHUNK_LARGE,
                    Fill::Ends if !must => return Ok(false),
                    Fill::InHaste | Fill::Ends => FILL_CHUNK_IN_HASTE,
                };
            }
        }
        Ok(true)
    }
}
