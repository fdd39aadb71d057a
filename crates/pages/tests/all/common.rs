//! Helpers of the tests: page files on a simulated disk.

use logforce_core::OpenMode;
use logforce_device::{
    DirEntry, Directory, File, ForwardDirectory, ForwardFile, Method, OpenFile, ReadSource,
    Runtime, System,
};
use logforce_pages::{CommitMode, Options, PageFile, Result};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub const PATH: &str = "/file";
pub const PAGE: usize = 512;

pub const MODES: [CommitMode; 2] = [CommitMode::Logged, CommitMode::CopyOnWrite];

/// Options with small pages and short distances, so that a test reaches checkpoints.
pub fn options(mode: CommitMode) -> Options {
    let log = logforce_core::Options::new()
        .method(Method::DirectDsync)
        .segment_size(64 << 10)
        .max_batch_size(16 << 10)
        .buffer_size(16 << 10)
        .live_stats(false);
    Options::new()
        .mode(mode)
        .page_size(PAGE as u32)
        .checkpoint_distance(32 << 10)
        .cache(64 * PAGE)
        .writers(2)
        .log(log)
}

pub fn disk(seed: u64) -> SimDisk {
    SimDisk::new(SimOptions::default(), seed)
}

/// Opens the page file, or creates it.
pub fn open(rt: &SimRuntime, disk: &SimDisk, options: Options) -> Result<PageFile> {
    PageFile::open(&*disk.system(rt), PATH, OpenMode::OpenOrCreate, options)
}

/// Runs `body` on a separate disk for each commit mode.
pub fn with_file(body: impl Fn(&PageFile)) {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, options(mode)).unwrap();
            body(&file);
            file.close().unwrap();
        });
    }
}

/// Makes a page that identifies itself by its tag.
pub fn page(tag: u64) -> Vec<u8> {
    tag.to_le_bytes().repeat(PAGE / 8)
}

/// A system that calls `act` once, before one of the calls that read the log.
struct Interrupted {
    inner: Arc<dyn System>,
    calls: Arc<Calls>,
}

pub struct Calls {
    /// Number of calls before the one.
    left: AtomicI64,
    act: Box<dyn Fn() + Send + Sync>,
}

impl Calls {
    /// Acts before the call after `count` further ones.
    pub fn act_after(&self, count: u64) {
        self.left.store(count as i64, Ordering::SeqCst);
    }

    pub fn has_acted(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }

    fn next(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            (self.act)();
        }
    }
}

/// Returns a system around `inner`, and its calls.
pub fn interrupted(
    inner: Arc<dyn System>,
    act: impl Fn() + Send + Sync + 'static,
) -> (Arc<dyn System>, Arc<Calls>) {
    let calls = Arc::new(Calls {
        left: AtomicI64::new(i64::MAX),
        act: Box::new(act),
    });
    let system = Interrupted {
        inner,
        calls: calls.clone(),
    };
    (Arc::new(system), calls)
}

impl System for Interrupted {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        let inner = self.inner.directory(path)?;
        let calls = self.calls.clone();
        Ok(match path.ends_with("log") {
            true => Arc::new(InterruptedDirectory { inner, calls }),
            false => inner,
        })
    }

    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.inner.make_directory(path)
    }
}

struct InterruptedDirectory {
    inner: Arc<dyn Directory>,
    calls: Arc<Calls>,
}

impl ForwardDirectory for InterruptedDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        self.calls.next();
        self.inner.entries()
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        self.calls.next();
        let inner = self.inner.open(name, how)?;
        let calls = self.calls.clone();
        Ok(Arc::new(InterruptedFile { inner, calls }))
    }
}

struct InterruptedFile {
    inner: Arc<dyn File>,
    calls: Arc<Calls>,
}

impl ForwardFile for InterruptedFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        self.calls.next();
        self.inner.read_at(offset, buf, source)
    }
}
