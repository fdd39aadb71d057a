//! Making the file of a segment, and what becomes of a file that left the log.

use crate::error::{Error, Result};
use crate::names;
use crate::storage::aside::set_aside;
use crate::storage::durability::{Why, barrier, sync_names};
use crate::storage::segment::Segment;
use logforce_device::sync::AtomicBool;
use logforce_device::{
    Access, AlignedBuf, Barrier, Directory, File, FilesystemKind, OpenFile, Runtime, Write,
};
use logforce_format::{Epoch, LogId, Lsn, SegmentHeader};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// Bytes filled by one write. A commit whose turn comes behind it waits for it, and where a force
/// is a flush of the whole device, for its way to the medium as well.
const FILL_CHUNK: usize = 256 << 10;
/// The least pause between two of them while nobody is waiting.
pub(crate) const FILL_PAUSE: Duration = Duration::from_millis(1);

/// How many segments ahead of the one in use are kept open. A record may be longer than many.
pub(crate) const OPEN_AHEAD: usize = 2;

/// What making a segment ready needs to know.
pub(crate) struct SegmentBuilder<'a> {
    pub(crate) dir: &'a Arc<dyn Directory>,
    pub(crate) log_id: LogId,
    pub(crate) epoch: Epoch,
    pub(crate) direct: bool,
    /// Zeroes help: the filesystem overwrites in place.
    pub(crate) fill: bool,
    /// Ends it early.
    pub(crate) stop: Option<&'a AtomicBool>,
    /// Told after each write how many bytes of how many are filled, and how long it took; pauses as
    /// it sees fit.
    pub(crate) pace: &'a dyn Fn(u64, u64, Duration),
    pub(crate) runtime: &'a dyn Runtime,
}

/// A spare file, ready for reuse.
#[derive(Debug, Clone)]
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) len: u64,
}

/// What becomes of a file that left the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// A spare.
    Reuse,
    /// Nothing.
    Remove,
    /// It holds a part of what was given up at damage.
    Keep,
}

/// Keeps the file of a segment that is not needed any more, or removes it.
pub(crate) fn retire(
    dir: &Arc<dyn Directory>,
    segment: &Segment,
    leaving: Leaving,
) -> Result<Option<Spare>> {
    let from = segment.name();
    let path = dir.path().join(&from);
    let start = segment.header.start;
    let to = match leaving {
        Leaving::Reuse => Some(names::spare(start)),
        Leaving::Keep => Some(names::kept(start)),
        Leaving::Remove => None,
    };
    if let Some(to) = to {
        match dir.rename(&from, &to).map_err(Error::io("rename", &path)) {
            Ok(()) => {
                segment.set_name(to.clone());
                return Ok((leaving == Leaving::Reuse).then_some(Spare {
                    name: to,
                    len: segment.header.len,
                }));
            }
            // On a full disk there may be no space even for another name.
            Err(e) if e.is_full() && leaving == Leaving::Reuse => {}
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        }
    }
    match dir.remove(&from).map_err(Error::io("remove", path)) {
        // Somebody was quicker, or an earlier call that seemed to fail.
        Err(e) if !e.is_not_found() => Err(e),
        _ => Ok(None),
    }
}

impl SegmentBuilder<'_> {
    /// Makes the file of a segment: sized, its extents written, its header in place, all of it
    /// forced, under its final name, the name forced. The control file does not know it yet.
    pub(crate) fn make(
        &self,
        start: Lsn,
        len: u64,
        unit: u32,
        spare: Option<&Spare>,
    ) -> Result<Arc<Segment>> {
        let header = SegmentHeader {
            log_id: self.log_id,
            start,
            len,
            write_unit: unit,
            epoch: self.epoch,
        };
        let (file, from) = match spare {
            // Old batches stay in it: their LSNs are below `start`, so none passes for new.
            Some(spare) => {
                let path = self.dir.path().join(&spare.name);
                let how = OpenFile {
                    access: Access::Write,
                    direct: self.direct,
                };
                (
                    self.dir
                        .open(&spare.name, how)
                        .map_err(Error::io("open for writing", path))?,
                    spare.name.clone(),
                )
            }
            None => {
                let name = names::preparing(start);
                match self.fresh(&name, len, unit) {
                    Ok(file) => (file, name),
                    Err(e) => {
                        let _ = self.dir.remove(&name);
                        return Err(e);
                    }
                }
            }
        };
        let path = self.dir.path().join(&from);
        let mut buf = AlignedBuf::zeroed(SegmentHeader::data_offset(unit) as usize, 65536);
        buf[..logforce_format::SEGMENT_HEADER_LEN].copy_from_slice(&header.encode());
        let range = 0..buf.len();
        let made = write(&*file, 0, buf, range)
            .map_err(Error::io("write", &path))
            // Extents, size and header in one barrier; the control file names the segment only
            // after it, so a crash before leaves a file that nothing depends on.
            .and_then(|_| {
                let synced = barrier(&*file, Barrier::Full, Why::NewSegment);
                synced.map_err(Error::io("sync", &path))
            });
        if let Err(e) = made {
            drop(file);
            let _ = self.dir.remove(&from);
            return Err(e);
        }
        let name = names::segment(start);
        // A file of that name is none of this log's, or was given it by hand.
        set_aside(self.dir, &name)?;
        if let Err(e) = self.dir.rename(&from, &name) {
            drop(file);
            let _ = self.dir.remove(&from);
            return Err(Error::io("rename", &path)(e));
        }
        if let Err(e) = sync_names(&**self.dir, Why::NewSegmentName) {
            drop(file);
            let _ = self.dir.remove(&name);
            return Err(Error::io("sync directory", self.dir.path())(e));
        }
        let segment = Segment::new(self.dir.clone(), name, header);
        segment.set_writer(file);
        Ok(Arc::new(segment))
    }

    fn fresh(&self, name: &str, len: u64, unit: u32) -> Result<Arc<dyn File>> {
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
        file.reserve(len)
            .map_err(Error::io("reserve space in", &path))?;
        if self.fill {
            // Not written through: one barrier at the end costs a fraction of many.
            let mut at = 0;
            let mut buf = AlignedBuf::zeroed(
                (FILL_CHUNK as u64).min(len) as usize,
                (unit as usize).max(4096),
            );
            while at < len {
                if self.stop.is_some_and(|stop| stop.load(Relaxed)) {
                    return Err(Error::Closed);
                }
                let n = (buf.len() as u64).min(len - at) as usize;
                let began = self.runtime.now();
                buf = write(&*file, at, buf, 0..n).map_err(Error::io("fill", &path))?;
                at += n as u64;
                (self.pace)(at, len, self.runtime.now().saturating_sub(began));
            }
        }
        Ok(file)
    }
}

fn write(
    file: &dyn File,
    offset: u64,
    buf: AlignedBuf,
    range: std::ops::Range<usize>,
) -> std::io::Result<AlignedBuf> {
    let ticket = file.submit(Write {
        offset,
        buf,
        range,
        through: false,
    });
    let done = file.complete(ticket);
    done.result.map(|()| done.buf)
}

/// Whether filling with zeroes makes later writes cheaper there.
pub(crate) fn zeroes_help(kind: FilesystemKind) -> bool {
    kind != FilesystemKind::Relocating
}
