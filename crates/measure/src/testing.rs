//! A directory in memory for the tests of this crate. It counts unsynced writes and fails on request.

use crate::Interrupt;
use crate::result::machine::{Host, Machine};
use crate::result::{Document, Kind, Row};
use crate::run::counters::{CounterSource, NoCounters, Reading};
use crate::run::space::Space;
use crate::run::{Setup, SubjectKind};
use logforce_device::*;
use logforce_terminal::progress::Silent;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
pub struct Shared {
    files: Mutex<BTreeMap<String, Arc<Mutex<Vec<u8>>>>>,
    unsynced: AtomicU64,
    pub writes: AtomicU64,
    pub bytes: AtomicU64,
    pub flushes: AtomicU64,
    /// True if every barrier fails.
    pub bad_barriers: AtomicBool,
    /// True if every write-through fails.
    pub bad_through: AtomicBool,
    /// True if barriers are not passed on, so that nothing is flushed.
    pub drops_flushes: AtomicBool,
    /// Time of each barrier, microseconds.
    pub barrier_us: AtomicU64,
    /// True if one thread can keep several writes in flight, on files opened for direct I/O.
    pub has_queue: AtomicBool,
}

pub struct MemDirectory {
    pub shared: Arc<Shared>,
    facts: Facts,
}

impl MemDirectory {
    pub fn new() -> Arc<Self> {
        Self::with_facts(facts())
    }

    pub fn with_facts(facts: Facts) -> Arc<Self> {
        Arc::new(MemDirectory {
            shared: Arc::default(),
            facts,
        })
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.shared.files.lock().unwrap()[name]
            .lock()
            .unwrap()
            .clone()
    }

    pub fn unsynced(&self) -> u64 {
        self.shared.unsynced.load(Relaxed)
    }

    pub fn counters(&self) -> MemCounters {
        MemCounters(Arc::clone(&self.shared))
    }
}

/// Returns the facts of ext4 on a disk with a volatile cache and no FUA.
pub fn facts() -> Facts {
    let mut device = BlockDevice::new("sdx");
    (device.write_cache, device.cache_source) = (WriteCache::Back, Source::Device);
    (device.fua, device.rotational) = (Some(false), Some(false));
    device.physical_sector = 512;
    device.model = "Simulated".to_owned();
    let mut facts = Facts::new(Platform::Linux, "ext4", FilesystemKind::InPlace);
    facts.mount_options = "rw".to_owned();
    facts.mount_point = "/".to_owned();
    facts.barriers = Some(true);
    facts.device = Some(device);
    facts.direct = Some(DirectAlignment {
        memory: 512,
        offset: 512,
    });
    facts
}

impl Directory for MemDirectory {
    fn path(&self) -> &Path {
        Path::new("/simulated")
    }
    fn identity(&self) -> FileIdentity {
        FileIdentity { volume: 0, file: 0 }
    }
    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        Ok(Vec::new())
    }
    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        let mut files = self.shared.files.lock().unwrap();
        if how.access == Access::CreateNew {
            files.insert(name.to_owned(), Arc::default());
        }
        let bytes = files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemFile {
            bytes: Arc::clone(bytes),
            shared: Arc::clone(&self.shared),
            direct: how.direct,
        }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.shared.files.lock().unwrap();
        let bytes = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.shared
            .files
            .lock()
            .unwrap()
            .remove(name)
            .map(drop)
            .ok_or(io::ErrorKind::NotFound.into())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn lock(&self, _: &str) -> io::Result<Box<dyn Send + Sync>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn lock_file(&self, _: &str) -> io::Result<Box<dyn Send + Sync>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn is_locked(&self, _: &str) -> io::Result<bool> {
        Ok(false)
    }
    fn facts(&self) -> io::Result<Facts> {
        Ok(self.facts.clone())
    }
    fn free_space(&self) -> io::Result<u64> {
        Ok(1 << 30)
    }
}

/// A system with a single directory, which it returns for every path.
pub struct MemSystem(pub Arc<MemDirectory>);

impl System for MemSystem {
    fn runtime(&self) -> Arc<dyn Runtime> {
        unreachable!("files have no time")
    }
    fn directory(&self, _: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::clone(&self.0) as _)
    }
    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.directory(path)
    }
}

struct MemFile {
    bytes: Arc<Mutex<Vec<u8>>>,
    shared: Arc<Shared>,
    direct: bool,
}

/// A queue that performs each write at once and reports the latest one first.
struct MemQueue {
    file: Arc<MemFile>,
    next: u64,
    ended: Vec<(u64, Completion)>,
}

impl WriteQueue for MemQueue {
    fn submit(&mut self, write: Write) -> u64 {
        let number = self.next;
        self.next += 1;
        let done = self.file.complete(self.file.submit(write));
        self.ended.push((number, done));
        number
    }
    fn complete(&mut self) -> Option<(u64, Completion)> {
        self.ended.pop()
    }
}

impl File for MemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8], _: ReadSource) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
    fn submit(&self, write: Write) -> Ticket {
        if write.through && self.shared.bad_through.load(Relaxed) {
            return Ticket::ready(write.buf, Err(io::Error::other("planted write error")));
        }
        let mut bytes = self.bytes.lock().unwrap();
        let (start, len) = (write.offset as usize, write.range.len());
        if bytes.len() < start + len {
            bytes.resize(start + len, 0);
        }
        bytes[start..start + len].copy_from_slice(&write.buf[write.range.clone()]);
        self.shared.writes.fetch_add(1, Relaxed);
        self.shared.bytes.fetch_add(len as u64, Relaxed);
        if write.through {
            if !self.shared.drops_flushes.load(Relaxed) {
                self.shared.flushes.fetch_add(1, Relaxed);
            }
        } else {
            self.shared.unsynced.fetch_add(1, Relaxed);
        }
        Ticket::ready(write.buf, Ok(()))
    }
    fn complete(&self, ticket: Ticket) -> Completion {
        ticket.done.unwrap()
    }
    fn write_queue(self: Arc<Self>, _: usize) -> Option<Box<dyn WriteQueue>> {
        let has_queue = self.direct && self.shared.has_queue.load(Relaxed);
        let (file, next, ended) = (self, 0, Vec::new());
        has_queue.then(|| Box::new(MemQueue { file, next, ended }) as _)
    }
    fn barrier(&self, _: Barrier) -> io::Result<()> {
        if self.shared.bad_barriers.load(Relaxed) {
            return Err(io::Error::other("planted barrier error"));
        }
        std::thread::sleep(Duration::from_micros(self.shared.barrier_us.load(Relaxed)));
        self.shared.unsynced.store(0, Relaxed);
        if !self.shared.drops_flushes.load(Relaxed) {
            self.shared.flushes.fetch_add(1, Relaxed);
        }
        Ok(())
    }
    fn reserve(&self, len: u64) -> io::Result<bool> {
        let mut bytes = self.bytes.lock().unwrap();
        let len = bytes.len().max(len as usize);
        bytes.resize(len, 0);
        Ok(true)
    }
    fn drop_cache(&self, _: Range<u64>) {}
}

pub struct MemCounters(Arc<Shared>);

impl CounterSource for MemCounters {
    fn read(&self) -> Option<Reading> {
        Some(Reading {
            writes: self.0.writes.load(Relaxed),
            bytes: self.0.bytes.load(Relaxed),
            flushes: Some(self.0.flushes.load(Relaxed)),
        })
    }
}

/// Returns an empty result of an idle machine.
pub fn document(kind: Kind) -> Document {
    let host = Host {
        name: "here".to_owned(),
        os: "Linux".to_owned(),
        kernel: "6".to_owned(),
        arch: "x86_64".to_owned(),
        cpus: 2,
        caveat: None,
    };
    let machine = Machine::new(&facts(), host);
    Document::new(kind, String::new(), String::new(), machine)
}

/// Returns a setup that measures in `dir`, which has 1 GiB of space.
pub fn setup(dir: &Arc<MemDirectory>) -> Setup {
    Setup {
        system: Arc::new(MemSystem(Arc::clone(dir))),
        path: PathBuf::from("/simulated"),
        space: Space {
            free: 1 << 30,
            total: 1 << 30,
        },
        counters: Rc::new(NoCounters),
        interrupt: Interrupt::new(),
        progress: Rc::new(Silent),
    }
}

/// Returns a row of `journal` with `ms` milliseconds per commit and the usual guarantee of its method.
pub fn row(method: Method, state: FileState, ms: f64) -> Row {
    let plan = method.plan();
    let guarantee = match (plan.force, plan.direct && state.is_written()) {
        (ForceBy::None, true) => Guarantee::OsCrash,
        (ForceBy::None, false) => Guarantee::ProcessCrash,
        _ => Guarantee::PowerLoss,
    };
    let flushes = if plan.force == ForceBy::None {
        0.0
    } else {
        1.0
    };
    Row {
        scenario: "journal".into(),
        subject: SubjectKind::Raw.into(),
        method: method.into(),
        file_state: state.into(),
        threads: 1,
        bytes: 16384,
        commits: Some(1000),
        total_ms: Some(ms * 1000.0),
        ms_per_commit: Some(ms),
        p50_us: Some(ms * 1000.0),
        p90_us: Some(ms * 1500.0),
        p99_us: Some(ms * 2000.0),
        p999_us: Some(ms * 3000.0),
        max_us: Some(ms * 9000.0),
        commits_per_s: Some(1000.0 / ms),
        device_writes_per_commit: Some(1.0),
        device_flushes_per_commit: Some(flushes),
        device_bytes_per_commit: Some(16384.0),
        file_bytes_per_commit: Some(16384.0),
        guarantee: Some(guarantee),
        verdict: Some(Verdict::Declared),
        evidence: Some("the device says so".to_owned()),
        each: vec![ms; 4],
        ..Row::of(Kind::Journal)
    }
}
