//! One cell: writes of one size, with one number in flight, in one way.

use super::submission::{Queue, Unit, Way};
use crate::run::counting::{CallCounts, CountingSystem};
use crate::run::generator::Generator;
use crate::run::in_flight::InFlight;
use crate::run::prepare::{PreparedFile, restamp, write};
use crate::run::recorder::Latencies;
use crate::run::recorder::Limit;
use crate::run::subject::{RowKey, Subject, SubjectKind};
use crate::run::workers::{Step, Work, together};
use crate::{MeasureError, Recorder};
use logforce_device::{
    AlignedBuf, Assessment, Barrier, File, FileState, ForceBy, Platform, Write, WriteQueue,
};
use std::cell::{Cell as Slot, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Page size of the system's cache, bytes. A write of a part of a page makes the system read the page
/// first.
const CACHE_PAGE: u64 = 4096;
/// Length of the part of the file that is read into the cache before such writes, bytes.
const WARM: u64 = 4 << 20;

/// State that all cells of a sweep share.
pub(super) struct Shared {
    /// File to which all cells write, in the state of a recycled segment.
    pub(super) file: RefCell<PreparedFile>,
    /// System that counts the calls on the file.
    pub(super) system: Arc<CountingSystem>,
    /// Write unit of the disk, bytes.
    pub(super) unit: u64,
    /// Operating system whose calls are used.
    pub(super) platform: Platform,
    /// Number of the next write, which makes it different from all before.
    pub(super) number: AtomicU64,
}

impl Shared {
    /// Returns the alignment of buffers, bytes.
    fn alignment(&self) -> usize {
        self.unit.max(CACHE_PAGE) as usize
    }
}

/// Returns a buffer whose bytes no other buffer has.
fn buffer(chunk: u64, alignment: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(chunk as usize, alignment);
    Generator::fresh().fill(&mut buf);
    buf
}

/// Resources of one slice.
enum Ready {
    /// Threads that each create their own buffer.
    Threads,
    /// Groups, written by this thread and its helpers, if any.
    Group(InFlight, Vec<AlignedBuf>),
    /// Queue of this thread.
    Queue(Box<dyn WriteQueue>, Vec<AlignedBuf>),
}

/// Subject of one cell: makes its writes in slices.
pub(super) struct Cell {
    key: RowKey,
    way: Way,
    assessment: Assessment,
    shared: Rc<Shared>,
    counts: Rc<Slot<CallCounts>>,
    ready: Option<Ready>,
}

impl Cell {
    /// Creates a cell with `depth` writes of `chunk` bytes in flight. The calls in timed parts are added
    /// to `counts`.
    pub(super) fn new(
        way: Way,
        chunk: u64,
        depth: u32,
        assessment: Assessment,
        shared: Rc<Shared>,
        counts: Rc<Slot<CallCounts>>,
    ) -> Cell {
        let key = RowKey {
            scenario: super::NAME,
            subject: SubjectKind::Raw,
            method: way.method,
            file_state: Some(FileState::Recycled),
            threads: depth,
            bytes: chunk,
        };
        Cell {
            key,
            way,
            assessment,
            shared,
            counts,
            ready: None,
        }
    }

    fn depth(&self) -> usize {
        self.key.threads as usize
    }

    fn is_direct(&self) -> bool {
        self.way.method.plan().direct
    }

    fn open(&self) -> Result<Arc<dyn File>, MeasureError> {
        self.shared.file.borrow_mut().open(self.is_direct())
    }

    fn buffers(&self) -> Vec<AlignedBuf> {
        let alignment = self.shared.alignment();
        let one = |_| buffer(self.key.bytes, alignment);
        (0..self.depth()).map(one).collect()
    }

    /// Reads the next part of the file into the cache if chunks are not whole pages. Otherwise each write
    /// would wait until its page is read, which a log does not do: the page at its end is cached.
    fn warm(&self, file: &dyn File) -> Result<(), MeasureError> {
        if self.is_direct() || self.key.bytes.is_multiple_of(CACHE_PAGE) {
            return Ok(());
        }
        let (start, room) = {
            let shared = self.shared.file.borrow();
            (shared.cursor(), shared.room())
        };
        let mut page = vec![0; 256 << 10];
        let mut done = 0;
        while done < room.min(WARM) {
            let source = logforce_device::ReadSource::Cache;
            let read = file.read_at(start + done, &mut page, source);
            match read.map_err(MeasureError::io("reading the file into the cache"))? {
                0 => break,
                n => done += n as u64,
            }
        }
        Ok(())
    }

    /// Writes until the limit is reached, or `places` chunks from `start` on are used. Returns the number
    /// of used ones.
    fn part(
        &mut self,
        file: &Arc<dyn File>,
        start: u64,
        places: u64,
        limit: &Limit,
        recorder: &mut Recorder,
    ) -> Result<u64, MeasureError> {
        let (chunk, depth) = (self.key.bytes, self.key.threads);
        let force = self.way.method.plan().force;
        let course = Course {
            file,
            alignment: self.shared.alignment(),
            number: &self.shared.number,
            start,
            chunk,
            through: force == ForceBy::Through,
            next: AtomicU64::new(0),
        };
        let done = recorder.slice().commits;
        let of_writes = Limit {
            commits: limit.commits.min(done + places),
            ..*limit
        };
        match (&mut self.ready, force) {
            (Some(Ready::Group(in_flight, buffers)), ForceBy::Barrier(barrier)) => {
                let all = |writes| in_flight.write(file, writes);
                course.groups(buffers, all, barrier, places, limit, recorder)?;
            }
            (Some(Ready::Queue(queue, buffers)), ForceBy::Barrier(barrier)) => {
                let all = |writes| all_by_queue(&mut **queue, writes);
                course.groups(buffers, all, barrier, places, limit, recorder)?;
            }
            (Some(Ready::Queue(queue, buffers)), _) => {
                course.queued(&mut **queue, buffers, &of_writes, recorder)?;
            }
            (Some(Ready::Threads), _) => {
                together(&course, depth, &of_writes, recorder)?;
            }
            _ => {
                return Err(MeasureError::NotOffered(
                    "the slice was not prepared".to_owned(),
                ));
            }
        }
        Ok(course.next.load(Relaxed))
    }
}

impl Subject for Cell {
    fn key(&self) -> &RowKey {
        &self.key
    }

    fn assessment(&self) -> &Assessment {
        &self.assessment
    }

    fn leaves_dirty_bytes(&self) -> bool {
        self.way.method.plan().force == ForceBy::None
    }

    fn prepare(&mut self) -> Result<(), MeasureError> {
        let depth = self.depth();
        self.shared
            .file
            .borrow_mut()
            .begin(self.key.bytes * depth as u64 + self.shared.unit)?;
        let file = self.open()?;
        self.warm(&*file)?;
        let ready = match (self.way.queue, self.way.unit()) {
            (Queue::IoUring, _) => {
                let queue = file.write_queue(depth).ok_or_else(|| {
                    MeasureError::NotOffered(format!(
                        "the system provided no io_uring for {depth} writes"
                    ))
                })?;
                Ready::Queue(queue, self.buffers())
            }
            (Queue::Threads, Unit::Write) => Ready::Threads,
            (Queue::Threads, Unit::Group) => {
                // A write into the cache does not wait for a device, so threads would only slow
                // each other down.
                let at_once = if self.is_direct() { depth } else { 1 };
                let in_flight = InFlight::new(at_once, self.shared.platform)
                    .map_err(MeasureError::io("starting threads"))?;
                Ready::Group(in_flight, self.buffers())
            }
        };
        self.ready = Some(ready);
        Ok(())
    }

    fn run(&mut self, limit: &Limit, recorder: &mut Recorder) -> Result<(), MeasureError> {
        let (chunk, unit) = (self.key.bytes, self.shared.unit);
        while recorder.more(limit) {
            let (start, places) = {
                let mut shared = self.shared.file.borrow_mut();
                // The last slice may have ended inside a write unit.
                let aligned = shared.cursor().next_multiple_of(unit);
                shared.advance_to(aligned);
                shared.ensure(chunk * self.depth() as u64)?;
                (shared.cursor(), shared.room() / chunk)
            };
            let file = self.open()?;
            let before = self.shared.system.counts();
            // The file remains usable after an error: its contents are never read, and its blocks
            // stay written.
            let used = self.part(&file, start, places, limit, recorder)?;
            let mut counts = self.counts.get();
            counts += self.shared.system.counts() - before;
            self.counts.set(counts);
            recorder.count_log_bytes(used * chunk);
            self.shared
                .file
                .borrow_mut()
                .advance_to(start + used * chunk);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MeasureError> {
        self.ready = None;
        let dirty = self.leaves_dirty_bytes();
        self.shared.file.borrow_mut().quiet(dirty)
    }
}

/// Writes at consecutive positions, from `start` on.
struct Course<'a> {
    file: &'a Arc<dyn File>,
    alignment: usize,
    /// Number of the next write, over all threads.
    number: &'a AtomicU64,
    start: u64,
    chunk: u64,
    through: bool,
    /// Number of positions that are used.
    next: AtomicU64,
}

impl Course<'_> {
    fn place(&self) -> u64 {
        self.start + self.next.fetch_add(1, Relaxed) * self.chunk
    }

    fn write(&self, mut buf: AlignedBuf) -> Write {
        restamp(&mut buf, self.number.fetch_add(1, Relaxed));
        Write {
            offset: self.place(),
            range: 0..buf.len(),
            buf,
            through: self.through,
        }
    }

    fn failed(&self, cause: io::Error) -> MeasureError {
        let what = format!("writing {}", logforce_terminal::numbers::bytes(self.chunk));
        MeasureError::Io { what, cause }
    }

    /// Repeats: as many writes as there are buffers, which `all` performs and completes, then a barrier.
    fn groups(
        &self,
        buffers: &mut Vec<AlignedBuf>,
        mut all: impl FnMut(Vec<Write>) -> (Vec<AlignedBuf>, io::Result<()>),
        barrier: Barrier,
        places: u64,
        limit: &Limit,
        recorder: &mut Recorder,
    ) -> Result<(), MeasureError> {
        let depth = buffers.len() as u64;
        recorder.timed(|laps| {
            while self.next.load(Relaxed) + depth <= places && laps.more(limit) {
                let writes = buffers.drain(..).map(|buf| self.write(buf)).collect();
                let (returned, result) = all(writes);
                *buffers = returned;
                result.map_err(|e| self.failed(e))?;
                let forced = self.file.barrier(barrier);
                forced.map_err(MeasureError::io("the barrier"))?;
                laps.commit();
            }
            Ok(())
        })
    }

    /// Keeps as many writes in flight as there are buffers: when one ends, the next one begins.
    fn queued(
        &self,
        queue: &mut dyn WriteQueue,
        buffers: &mut Vec<AlignedBuf>,
        limit: &Limit,
        recorder: &mut Recorder,
    ) -> Result<(), MeasureError> {
        let slice = recorder.slice();
        let most = limit.commits.saturating_sub(slice.commits).max(1);
        let time = limit.time.map(|t| t.saturating_sub(slice.time));
        let interrupt = recorder.interrupt().clone();
        recorder.parallel(|| {
            let mut latencies = Latencies::default();
            let mut began = HashMap::new();
            let start = Instant::now();
            let (mut now, mut begun) = (start, 0);
            loop {
                let elapsed = now - start;
                let in_time = begun == 0 || time.is_none_or(|t| elapsed < t);
                if in_time && !interrupt.is_raised() {
                    while begun < most
                        && let Some(buf) = buffers.pop()
                    {
                        let at = Instant::now();
                        began.insert(queue.submit(self.write(buf)), at);
                        begun += 1;
                    }
                }
                let Some((number, done)) = queue.complete() else {
                    break;
                };
                done.result.map_err(|e| self.failed(e))?;
                now = Instant::now();
                if let Some(at) = began.remove(&number) {
                    latencies.record(now - at);
                }
                buffers.push(done.buf);
            }
            if !began.is_empty() {
                return Err(MeasureError::NotOffered(
                    "the queue did not report the completion of all writes".to_owned(),
                ));
            }
            Ok((now - start, vec![latencies]))
        })
    }
}

/// Writes of one thread, one after the other.
impl Work for Course<'_> {
    type Worker = Option<AlignedBuf>;

    fn worker(&self, _: u32) -> Result<Self::Worker, MeasureError> {
        Ok(Some(buffer(self.chunk, self.alignment)))
    }

    fn step(&self, worker: &mut Self::Worker, began: Instant) -> Result<Step, MeasureError> {
        let again = || buffer(self.chunk, self.alignment);
        let Write {
            offset,
            buf,
            range,
            through,
        } = self.write(worker.take().unwrap_or_else(again));
        let done = write(&**self.file, buf, offset, range.len(), through);
        *worker = Some(done.map_err(|e| self.failed(e))?);
        // The limit on the number of writes ensures that each has a position.
        Ok(Step { began, more: true })
    }
}

/// Submits all writes and waits until all have ended, even after an error.
fn all_by_queue(
    queue: &mut dyn WriteQueue,
    writes: Vec<Write>,
) -> (Vec<AlignedBuf>, io::Result<()>) {
    for write in writes {
        queue.submit(write);
    }
    let mut buffers = Vec::new();
    let mut result = Ok(());
    while let Some((_, done)) = queue.complete() {
        buffers.push(done.buf);
        result = result.and(done.result);
    }
    (buffers, result)
}
