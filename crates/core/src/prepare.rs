//! Segments made ready ahead of the writer, in a thread of their own: made in the middle of a
//! commit they would be a latency spike.

use crate::aside::set_aside;
use crate::checkpoint::Room;
use crate::commit::How;
use crate::log::Shared;
use crate::segments::Segment;
use crate::stage::PrepareFailure;
use crate::{Error, Result, names, trace};
use logforce_device::sync::AtomicBool;
use logforce_device::{
    Access, AlignedBuf, Barrier, Directory, File, FilesystemKind, ForceBy, OpenFile, Runtime, Write,
};
use logforce_format::{Epoch, LogId, Lsn, SegmentHeader, planted};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// Bytes filled by one write. A commit whose turn comes behind it waits for it, and where a force
/// is a flush of the whole device, for its way to the medium as well.
const FILL_CHUNK: usize = 256 << 10;
/// The least pause between two of them while nobody is waiting.
const FILL_PAUSE: Duration = Duration::from_millis(1);

/// How many segments ahead of the one in use are kept open. A record may be longer than many.
pub(crate) const OPEN_AHEAD: usize = 2;

/// What making a segment ready needs to know.
pub(crate) struct Preparing<'a> {
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

impl Preparing<'_> {
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
                if planted!("segment-unforced") {
                    return Ok(());
                }
                file.barrier(Barrier::Full)
                    .map_err(Error::io("sync", &path))
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
        // The entry must be durable before a batch in it is acknowledged: else the crash takes the
        // whole file.
        if !planted!("segment-name-unsynced")
            && let Err(e) = self.dir.sync()
        {
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

impl Shared {
    /// The body of the thread `logforce-prepare`.
    pub(crate) fn prepare_ahead(&self) {
        self.adopt_thread();
        loop {
            let seen = self.prepare.observe();
            self.follow_pins();
            let (end, demanded, due, ahead) = {
                let stage = self.stage();
                if stage.stopping || self.poison.is_set() {
                    return;
                }
                let end = stage.prepared_end();
                // After a failure only an append that wants space, or space given back, is a
                // reason to try again.
                let failed = stage.prepare_failure.is_some();
                let demanded = stage.wanted_end > end;
                let ahead = stage.upcoming.is_empty() && !failed;
                (end, demanded, demanded || ahead, stage.upcoming.len())
            };
            let seen = match planted!("late-observe-prepare") {
                true => self.prepare.observe(),
                false => seen,
            };
            if !due {
                self.call_in_time(end);
                self.prepare.sleep(&*self.runtime, seen, None);
                continue;
            }
            let result = match self.room(end, demanded) {
                Room::Ready => {
                    let _span = trace::preparing(end);
                    self.prepare_one(end)
                }
                Room::Later => {
                    self.prepare.sleep(&*self.runtime, seen, None);
                    continue;
                }
                Room::Full(full) => Err(full),
            };
            if let Err(error) = &result {
                trace::not_prepared(end, error);
            }
            if let Ok(segment) = &result
                && ahead >= OPEN_AHEAD
            {
                // Before anybody writes to it: the handle that wrote is the one that must sync.
                segment.writer_done();
                segment.close_reader();
            }
            {
                let mut stage = self.stage();
                stage.prepare_round += 1;
                match result {
                    Ok(segment) => {
                        stage.upcoming.push_back(segment);
                        stage.prepare_failure = None;
                    }
                    Err(error) => {
                        stage.wanted_end = Lsn::ORIGIN;
                        stage.prepare_failure = Some(PrepareFailure {
                            round: stage.prepare_round,
                            error,
                        });
                    }
                }
            }
            if !planted!("wake-after-preparing") {
                self.made_progress();
            }
            // A stamp may have waited for room.
            self.work.ring(&*self.runtime);
        }
    }

    /// Pauses while filling, as long as that is further along than the segment in use: at full speed
    /// it would be every commit's neighbour, and its bytes would be in every commit's flush.
    fn pace(&self, done: u64, len: u64, took: Duration) {
        let seen = self.prepare.observe();
        let early = {
            let stage = self.stage();
            let (used, of) = stage.used_of_segment();
            let wanted = stage.wanted_end > stage.prepared_end();
            // Twice as fast as appending needs it.
            !wanted && u128::from(done) * u128::from(of) > 2 * u128::from(used) * u128::from(len)
        };
        if early && !self.stop.load(Relaxed) {
            let pause = took.max(FILL_PAUSE);
            self.prepare.sleep(&*self.runtime, seen, Some(pause));
        }
    }

    /// Asks for another attempt after a failed one, without waiting for it.
    pub(crate) fn try_preparing_again(&self) {
        {
            let mut stage = self.stage();
            stage.wanted_end = stage.wanted_end.max(stage.prepared_end().plus(1));
        }
        self.prepare.ring(&*self.runtime);
    }

    fn prepare_one(&self, start: Lsn) -> Result<Arc<Segment>> {
        // A segment that is made where nobody will look for it is none.
        self.look_for_itself()?;
        let many = self.stage().line.has_many_unforced();
        if self.plan.force == ForceBy::None || many {
            // Such a method never makes anything durable by itself, and by any other nobody may
            // ask for it: without this the list of unforced segments, each of them open until a
            // barrier has covered it, and what a reopening must scan would grow without end.
            let written = self.stage().tail();
            self.bring(written, How::Barrier)?;
        }
        let spare = self.take_spare(self.options.segment_size);
        let recycled = spare.is_some();
        let preparing = Preparing {
            dir: &self.dir,
            log_id: self.log_id,
            epoch: self.epoch,
            direct: self.plan.direct,
            fill: self.fill,
            stop: Some(&self.stop),
            pace: &|done, len, took| self.pace(done, len, took),
            runtime: &*self.runtime,
        };
        let segment = preparing
            .make(start, self.options.segment_size, self.unit, spare.as_ref())
            .map_err(|e| if e.is_full() { self.no_space(e) } else { e })?;
        self.segments().insert(segment.clone());
        self.watch.add(&self.dir, &segment);
        let end = segment.header.end();
        if !planted!("segment-unannounced") {
            self.update_control(|c| c.prepared_end = end)?;
        }
        self.metrics.prepared(recycled);
        trace::prepared(start, recycled);
        Ok(segment)
    }

    /// Forces a change of the control file; the anchor goes along, never backwards.
    pub(crate) fn update_control(
        &self,
        change: impl FnOnce(&mut logforce_format::Control),
    ) -> Result<()> {
        self.look_for_itself()?;
        let mut anchor = self.stage().line.anchor;
        if planted!("anchor-above-durable") {
            anchor = self.stage().line.written_anchor();
        }
        // Of two slots half written by a thread that unwound, neither may be the one that counts.
        let result = self.whole("write the control file of", || {
            self.control.update(&self.poison, |c| {
                if anchor.lsn > c.anchor.lsn {
                    c.anchor = anchor;
                }
                change(c);
            })
        });
        result.map_err(|e| self.fail(e))
    }

    pub(crate) fn no_space(&self, e: Error) -> Error {
        match e {
            Error::Io { source, .. } => Error::NoSpace {
                path: self.path.clone(),
                need: self.options.segment_size,
                source,
            },
            other => other,
        }
    }

    fn take_spare(&self, len: u64) -> Option<Spare> {
        let mut spares = self.spares();
        let at = spares.iter().position(|s| s.len == len)?;
        Some(spares.swap_remove(at))
    }
}
