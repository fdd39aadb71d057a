//! Counting of the calls that reach the device layer. Writes that carry records are counted apart from
//! those that prepare segments or update the control file.

use logforce_device::{
    Barrier, Completion, Directory, File, ForwardDirectory, ForwardFile, OpenFile, Runtime, System,
    Ticket, Write, WriteQueue,
};
use std::collections::HashMap;
use std::io;
use std::ops::{AddAssign, Sub};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Counts of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// Number of writes that carry records.
    pub writes: u64,
    /// Bytes of these writes, padding included.
    pub bytes: u64,
    /// Number of these writes that were durable on completion, without a barrier.
    pub through: u64,
    /// Number of barriers on files that carry records.
    pub barriers: u64,
    /// Number of ranges of a mapping that were synced.
    pub msyncs: u64,
    /// Time spent in calls that write or force other files, such as a segment that is being
    /// prepared, nanoseconds.
    pub other_ns: u64,
    /// Bytes written to other files.
    pub other_bytes: u64,
}

impl CallCounts {
    /// Returns how many times something was made durable.
    pub fn forces(&self) -> u64 {
        self.through + self.barriers
    }
}

impl Sub for CallCounts {
    type Output = CallCounts;
    fn sub(self, before: CallCounts) -> CallCounts {
        CallCounts {
            writes: self.writes - before.writes,
            bytes: self.bytes - before.bytes,
            through: self.through - before.through,
            barriers: self.barriers - before.barriers,
            msyncs: self.msyncs - before.msyncs,
            other_ns: self.other_ns - before.other_ns,
            other_bytes: self.other_bytes - before.other_bytes,
        }
    }
}

impl AddAssign for CallCounts {
    fn add_assign(&mut self, more: CallCounts) {
        self.writes += more.writes;
        self.bytes += more.bytes;
        self.through += more.through;
        self.barriers += more.barriers;
        self.msyncs += more.msyncs;
        self.other_ns += more.other_ns;
        self.other_bytes += more.other_bytes;
    }
}

#[derive(Default)]
struct Counts {
    writes: AtomicU64,
    bytes: AtomicU64,
    through: AtomicU64,
    barriers: AtomicU64,
    other_ns: AtomicU64,
    other_bytes: AtomicU64,
}

/// A system that counts the calls on its files, at the cost of one or two additions per write.
pub struct CountingSystem {
    inner: Arc<dyn System>,
    counts: Arc<Counts>,
    carries: fn(&str) -> bool,
}

impl CountingSystem {
    /// Wraps `inner`. `carries` tells from a file's name whether the file carries records.
    pub fn new(inner: Arc<dyn System>, carries: fn(&str) -> bool) -> Arc<Self> {
        Arc::new(CountingSystem {
            inner,
            counts: Arc::default(),
            carries,
        })
    }

    /// Returns all counts so far.
    pub fn counts(&self) -> CallCounts {
        let of = |n: &AtomicU64| n.load(Relaxed);
        let c = &self.counts;
        CallCounts {
            writes: of(&c.writes),
            bytes: of(&c.bytes),
            through: of(&c.through),
            barriers: of(&c.barriers),
            msyncs: 0,
            other_ns: of(&c.other_ns),
            other_bytes: of(&c.other_bytes),
        }
    }

    fn wrap(&self, inner: Arc<dyn Directory>) -> Arc<dyn Directory> {
        Arc::new(CountingDirectory {
            inner,
            counts: Arc::clone(&self.counts),
            carries: self.carries,
            files: Mutex::default(),
        })
    }
}

impl System for CountingSystem {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.inner.directory(path).map(|d| self.wrap(d))
    }

    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.inner.make_directory(path).map(|d| self.wrap(d))
    }

    fn remove_empty_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_empty_directory(path)
    }
}

struct CountingDirectory {
    inner: Arc<dyn Directory>,
    counts: Arc<Counts>,
    carries: fn(&str) -> bool,
    /// For each file name, true if the file carries records. The flag is shared with the open handles of
    /// the file, because a segment is filled under one name and used under another.
    files: Mutex<HashMap<String, Arc<AtomicBool>>>,
}

impl CountingDirectory {
    fn carrying(&self, name: &str) -> Arc<AtomicBool> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(AtomicBool::new((self.carries)(name)));
        Arc::clone(files.entry(name.to_owned()).or_insert_with(new))
    }

    fn forget(&self, name: &str) -> Option<Arc<AtomicBool>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.remove(name)
    }
}

impl ForwardDirectory for CountingDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(name, how)?;
        Ok(Arc::new(CountingFile {
            inner,
            counts: Arc::clone(&self.counts),
            carries: self.carrying(name),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)?;
        if let Some(carrying) = self.forget(from) {
            carrying.store((self.carries)(to), Relaxed);
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.insert(to.to_owned(), carrying);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)?;
        self.forget(name);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let start = Instant::now();
        let result = self.inner.sync();
        self.counts.other(start);
        result
    }
}

impl Counts {
    fn other(&self, since: Instant) {
        let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.other_ns.fetch_add(ns, Relaxed);
    }
}

struct CountingFile {
    inner: Arc<dyn File>,
    counts: Arc<Counts>,
    carries: Arc<AtomicBool>,
}

impl CountingFile {
    /// Counts a write. Returns whether the file carries records.
    fn count(&self, write: &Write) -> bool {
        let bytes = write.range.len() as u64;
        if !self.carries.load(Relaxed) {
            self.counts.other_bytes.fetch_add(bytes, Relaxed);
            return false;
        }
        self.counts.writes.fetch_add(1, Relaxed);
        self.counts.bytes.fetch_add(bytes, Relaxed);
        if write.through {
            self.counts.through.fetch_add(1, Relaxed);
        }
        true
    }

    fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        self.counts.other(start);
        result
    }
}

struct CountingQueue {
    inner: Box<dyn WriteQueue>,
    file: Arc<CountingFile>,
}

impl WriteQueue for CountingQueue {
    fn submit(&mut self, write: Write) -> u64 {
        if !self.file.count(&write) {
            return self.file.timed(|| self.inner.submit(write));
        }
        self.inner.submit(write)
    }

    fn complete(&mut self) -> Option<(u64, Completion)> {
        if self.file.carries.load(Relaxed) {
            self.inner.complete()
        } else {
            self.file.timed(|| self.inner.complete())
        }
    }
}

impl ForwardFile for CountingFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn submit(&self, write: Write) -> Ticket {
        match self.count(&write) {
            true => self.inner.submit(write),
            false => self.timed(|| self.inner.submit(write)),
        }
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        if self.carries.load(Relaxed) {
            self.inner.complete(ticket)
        } else {
            self.timed(|| self.inner.complete(ticket))
        }
    }

    fn write_queue(self: Arc<Self>, depth: usize) -> Option<Box<dyn WriteQueue>> {
        let inner = self.inner.clone().write_queue(depth)?;
        Some(Box::new(CountingQueue { inner, file: self }))
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        if self.carries.load(Relaxed) {
            self.counts.barriers.fetch_add(1, Relaxed);
            self.inner.barrier(barrier)
        } else {
            self.timed(|| self.inner.barrier(barrier))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::prepare::write;
    use crate::testing::{MemDirectory, MemSystem};
    use logforce_device::{Access, AlignedBuf};
    use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

    #[test]
    fn writes_of_a_queue_count() {
        let options = SimOptions {
            blocking: true,
            ..SimOptions::default()
        };
        let disk = SimDisk::new(options, 1);
        SimRuntime::run(1, |rt| {
            let inner = disk.system(rt);
            let system = CountingSystem::new(inner, |name| name == "pages");
            let dir = system.make_directory(Path::new("/d")).unwrap();
            for name in ["pages", "header"] {
                let how = OpenFile {
                    access: Access::CreateNew,
                    direct: true,
                };
                let mut queue = dir.open(name, how).unwrap().write_queue(4).unwrap();
                for (offset, through) in [(0, false), (4096, true), (8192, true)] {
                    queue.submit(Write {
                        offset,
                        buf: AlignedBuf::zeroed(4096, 4096),
                        range: 0..4096,
                        through,
                    });
                }
                while let Some((_, done)) = queue.complete() {
                    done.result.unwrap();
                }
            }
            let counts = system.counts();
            assert_eq!((counts.writes, counts.through), (3, 2));
            assert_eq!((counts.bytes, counts.other_bytes), (12_288, 12_288));
        });
    }

    #[test]
    fn a_file_counts_by_its_present_name() {
        let inner = Arc::new(MemSystem(MemDirectory::new()));
        let system = CountingSystem::new(inner, |name| name.ends_with(".seg"));
        let dir = system.make_directory(Path::new("d")).unwrap();
        let file = dir.open("1.tmp", OpenFile::CREATE).unwrap();
        let buf = AlignedBuf::zeroed(4096, 4096);
        let buf = write(&*file, buf, 0, 4096, false).unwrap();
        file.barrier(Barrier::Full).unwrap();
        let before = system.counts();
        assert_eq!((before.writes, before.other_bytes), (0, 4096));
        assert!(before.other_ns > 0);
        dir.rename("1.tmp", "1.seg").unwrap();
        let buf = write(&*file, buf, 0, 4096, true).unwrap();
        let buf = write(&*file, buf, 0, 512, false).unwrap();
        file.barrier(Barrier::Data).unwrap();
        let counts = system.counts() - before;
        assert_eq!((counts.writes, counts.bytes, counts.through), (2, 4608, 1));
        assert_eq!((counts.barriers, counts.forces()), (1, 2));
        dir.rename("1.seg", "1.spare").unwrap();
        let other = dir.open("1.spare", OpenFile::WRITE).unwrap();
        write(&*other, buf, 0, 512, false).unwrap();
        let counts = system.counts() - before;
        assert_eq!((counts.writes, counts.other_bytes), (2, 512));
    }
}
