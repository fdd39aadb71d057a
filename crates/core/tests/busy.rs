//! Looking at a log whose writer truncates faster than its directory can be listed.

use logforce_core::{Creation, Inspector, Log, Options, ReadOnly};
use logforce_device::{Directory, Entry, Facts, File, FileIdentity, OpenFile, Runtime, System};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A system in which the log is written, and cut at its front, each time that its directory was
/// listed, before whoever listed it gets to see the names.
struct Busy {
    inner: Arc<dyn System>,
    log: Arc<Log>,
    listings: Arc<AtomicU64>,
}

struct BusyDirectory {
    inner: Arc<dyn Directory>,
    log: Arc<Log>,
    listings: Arc<AtomicU64>,
}

impl System for Busy {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(BusyDirectory {
            inner: self.inner.directory(path)?,
            log: self.log.clone(),
            listings: self.listings.clone(),
        }))
    }
    fn make_directory(&self, _: &Path) -> io::Result<Arc<dyn Directory>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

impl Directory for BusyDirectory {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn identity(&self) -> FileIdentity {
        self.inner.identity()
    }
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let entries = self.inner.entries()?;
        self.listings.fetch_add(1, Relaxed);
        let front = self.log.front_lsn();
        let mut last = front;
        // Until not even the segment that is written is among the names.
        while self.log.front_lsn().since(front) < 4 * SEGMENT {
            last = self.log.commit(&[7; 9000]).unwrap().start.max(last);
            self.log.truncate_front(last).unwrap();
        }
        Ok(entries)
    }
    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        self.inner.open(name, how)
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn lock(&self, _: &str) -> io::Result<Box<dyn Send + Sync>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.inner.is_locked(name)
    }
    fn facts(&self) -> io::Result<Facts> {
        self.inner.facts()
    }
    fn free_space(&self) -> io::Result<u64> {
        self.inner.free_space()
    }
}

const SEGMENT: u64 = 64 << 10;

#[test]
fn what_comes_and_goes_meanwhile_is_neither_missed_nor_waited_for() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let options = Options::new()
            .segment_len(SEGMENT)
            .max_batch(16 << 10)
            .staging(64 << 10);
        let log = Log::open(&*system, "/log", Creation::OpenOrCreate, options).unwrap();
        let listings = Arc::new(AtomicU64::new(0));
        let busy = Busy {
            inner: system,
            log: Arc::new(log),
            listings: listings.clone(),
        };
        busy.log.commit(b"the first").unwrap();
        for round in 0..20 {
            let seen = Inspector::open(&busy, "/log").unwrap();
            assert!(seen.summary().in_use);
            assert_eq!(listings.swap(0, Relaxed), 1, "round {round}");
            let found = seen.walk(&mut |_| true).unwrap();
            assert_eq!(found.damages, 0, "round {round}: {found:?}");
            listings.store(0, Relaxed);
            let shown = ReadOnly::open(&busy, "/log").unwrap();
            assert_eq!(listings.swap(0, Relaxed), 1, "round {round}");
            let records = shown.read_from(shown.front_lsn()).unwrap();
            assert!(records.count() > 0);
        }
    });
}
