//! Preparing the file of a segment, and retiring the file of a truncated one.

use crate::error::{Error, Result};
use crate::names::{self, NameKind};
use crate::storage::directory::is_free;
use crate::storage::durability::{Why, barrier, sync_names};
use crate::storage::given_up::set_aside;
use crate::storage::segment::Segment;
use crate::storage::writes::write_part;
use logforce_device::sync::AtomicBool;
use logforce_device::{Access, AlignedBuf, Barrier, Directory, File, OpenFile, Runtime};
use logforce_format::{Epoch, LogId, Lsn, SegmentHeader};
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
    /// Stops it early.
    pub(crate) stop: Option<&'a AtomicBool>,
    /// Called after each write of a fill; may pause.
    pub(crate) pace: &'a dyn Fn(Filled) -> Fill,
    /// Called with the name of each file that may have the header of a segment that could not be prepared
    /// in it, and a name by which the next opening would find it. It must be gone for good before another
    /// file gets such a header.
    pub(crate) discard: &'a dyn Fn(String),
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
    /// The file has got a new name for it.
    pub(crate) renamed: bool,
}

/// A file without a header.
struct Blank {
    file: Arc<dyn File>,
    /// Blocks of it may never have been written.
    unwritten: bool,
}

/// A spare file, ready for reuse.
#[derive(Debug, Clone)]
pub(crate) struct Spare {
    /// While the log is open, still the name of the truncated segment.
    pub(crate) name: String,
    pub(crate) len: u64,
    /// Blocks of it may never have been written.
    pub(crate) unwritten: bool,
}

impl Spare {
    /// The file of a truncated segment, as it is. Its header says that the segment ends below the first
    /// one that the control file lists, so no opening takes it for a part of the log.
    pub(crate) fn of(segment: &Segment) -> Spare {
        Spare {
            name: segment.name(),
            len: segment.header.len,
            // Although the log went on behind it: one that ends at damage goes on in another segment,
            // and leaves the rest of this one as it was.
            unwritten: segment.header.unwritten,
        }
    }

    /// Whether the next segment in it is known by the header alone: renaming the file, twice, and syncing
    /// the directory after each would cost more than all else of preparing it.
    pub(crate) fn keeps_name(&self) -> bool {
        names::kind(&self.name) == NameKind::Segment
    }

    /// Gives it the name of a spare, if no other has that. Nothing depends on it, so a failure costs
    /// nothing.
    pub(crate) fn rename(&mut self, dir: &dyn Directory) {
        let to = names::claimed_start(&self.name).map(names::spare);
        if let Some(to) = to.filter(|to| is_free(dir, to))
            && dir.rename(&self.name, &to).is_ok()
        {
            self.name = to;
        }
    }
}

/// What to do with the file of a truncated segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetireAction {
    /// Make it a spare.
    Reuse,
    /// Delete it.
    Remove,
    /// Keep it: it holds a part of a range that was given up at damage.
    Keep,
}

/// Renames or removes the file of a segment that is no part of the log.
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
        RetireAction::Keep => Some(names::kept(start)),
        RetireAction::Remove => None,
    };
    if let Some(to) = to {
        match dir.rename(&from, &to).map_err(Error::io("rename", &path)) {
            Ok(()) => {
                segment.set_name(to);
                return Ok((action == RetireAction::Reuse).then(|| Spare::of(segment)));
            }
            // A full disk may lack space even for another name: removes the file then.
            Err(e) if e.is_full() && action == RetireAction::Reuse => {}
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
        let recycled = spare.is_some();
        let made = Made {
            segment: segment.clone(),
            recycled,
            renamed: true,
        };
        self.sync_names(&[made])?;
        Ok(segment)
    }

    /// Makes the new names of prepared segments durable: nothing may depend on them before. Discards all
    /// of them if that fails.
    pub(crate) fn sync_names(&self, made: &[Made]) -> Result<()> {
        if !made.iter().any(|made| made.renamed) {
            return Ok(());
        }
        sync_names(&**self.dir, Why::NewSegmentName).map_err(|e| {
            for Made { segment, .. } in made {
                drop(segment.take_handle());
                self.remove(segment.name());
            }
            Error::io("sync directory", self.dir.path())(e)
        })
    }

    /// Prepares the file of a segment: allocates and fills it, writes the header, syncs it, and renames
    /// it to its final name. If that fails, it removes or discards the file.
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
        let keeps_name = spare.is_some_and(Spare::keeps_name);
        let undo = || match keeps_name {
            true => self.remove(from.clone()),
            false => {
                let _ = self.dir.remove(&from);
            }
        };
        let Blank { file, unwritten } = blank.inspect_err(|_| undo())?;
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
                let is_new = spare.is_none_or(|spare| spare.unwritten);
                let changed = if is_new { Barrier::Full } else { Barrier::Data };
                let synced = barrier(&*file, changed, Why::NewSegment);
                synced.map_err(Error::io("sync", &path))
            });
        if let Err(e) = made {
            drop(file);
            undo();
            return Err(e);
        }
        let name = match keeps_name {
            true => from.clone(),
            false => names::segment(start),
        };
        if !keeps_name {
            // A file with that name is not a segment of this log, or was renamed by hand.
            set_aside(self.dir, &name, None).inspect_err(|_| undo())?;
            if let Err(e) = self.dir.rename(&from, &name) {
                drop(file);
                // Which of the two names it has now is unknown.
                self.remove(from);
                self.remove(name);
                return Err(Error::io("rename", &path)(e));
            }
        }
        let segment = Segment::new(self.dir.clone(), name, header);
        segment.set_writer(file);
        Ok(Arc::new(segment))
    }

    /// Removes a file that may have the header of a segment, and sees to it that it stays away.
    fn remove(&self, name: String) {
        let _ = self.dir.remove(&name);
        (self.discard)(name);
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
        let unwritten = spare.unwritten && !self.fill(&*file, &path, spare.len, unit, false)?;
        Ok(Blank { file, unwritten })
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
        let unwritten = !self.fill(&*file, &path, len, unit, must)?;
        Ok(Blank { file, unwritten })
    }

    /// Fills the file with zeroes from its header area to its end, if that is wanted or a `must`. Returns
    /// whether it did. The header area is written when all else is done: until then a spare's header says
    /// that it is no part of the log.
    fn fill(&self, file: &dyn File, path: &Path, len: u64, unit: u32, must: bool) -> Result<bool> {
        if !self.fill && !must {
            return Ok(false);
        }
        // No write-through: one barrier at the end costs a fraction of many.
        let (mut at, mut chunk) = (SegmentHeader::data_offset(unit), FILL_CHUNK);
        let mut buf = AlignedBuf::zeroed(
            (FILL_CHUNK_IN_HASTE as u64).min(len) as usize,
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
