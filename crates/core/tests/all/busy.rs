//! Inspecting a log while its writer continues: between two reads, and faster than the directory can be
//! listed.

use logforce_core::{Inspector, Log, OpenMode, Options, ReadOnly, Visit};
use logforce_device::{
    Barrier, Completion, DirEntry, Directory, File, ForwardDirectory, ForwardFile, OpenFile,
    ReadSource, Runtime, System, Ticket, Write,
};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Function that runs in a reader of the log after each listing and read, before the reader gets the result.
type Meanwhile = Arc<dyn Fn(Event) + Send + Sync>;

/// Call of the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Listed,
    Read,
}

/// A system in which a function runs after each listing and read of the log's directory and files.
struct Busy {
    inner: Arc<dyn System>,
    meanwhile: Meanwhile,
}

struct BusyDirectory {
    inner: Arc<dyn Directory>,
    meanwhile: Meanwhile,
}

struct BusyFile {
    inner: Arc<dyn File>,
    meanwhile: Meanwhile,
}

impl System for Busy {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(BusyDirectory {
            inner: self.inner.directory(path)?,
            meanwhile: self.meanwhile.clone(),
        }))
    }
    fn make_directory(&self, _: &Path) -> io::Result<Arc<dyn Directory>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

impl ForwardDirectory for BusyDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let entries = self.inner.entries()?;
        (self.meanwhile)(Event::Listed);
        Ok(entries)
    }
    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(BusyFile {
            inner: self.inner.open(name, how)?,
            meanwhile: self.meanwhile.clone(),
        }))
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
}

impl ForwardFile for BusyFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        let read = self.inner.read_at(offset, buf, source)?;
        (self.meanwhile)(Event::Read);
        Ok(read)
    }
    fn submit(&self, _: Write) -> Ticket {
        unreachable!("a reader never writes")
    }
    fn complete(&self, _: Ticket) -> Completion {
        unreachable!("a reader never writes")
    }
    fn barrier(&self, _: Barrier) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn reserve(&self, _: u64) -> io::Result<bool> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn drop_cache(&self, _: Range<u64>) {}
}

const SEGMENT: u64 = 64 << 10;

fn log(system: &dyn System, name: &str) -> Arc<Log> {
    let options = Options::new()
        .segment_size(SEGMENT)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10);
    Arc::new(Log::open(system, name, OpenMode::OpenOrCreate, options).unwrap())
}

#[test]
fn what_comes_and_goes_meanwhile_is_neither_missed_nor_waited_for() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = log(&*system, "/log");
        log.commit(b"the first").unwrap();
        let listings = Arc::new(AtomicU64::new(0));
        let counted = listings.clone();
        let busy = Busy {
            inner: system,
            meanwhile: Arc::new(move |event| {
                if event != Event::Listed {
                    return;
                }
                counted.fetch_add(1, Relaxed);
                let front = log.front_lsn();
                let mut last = front;
                // Continues until not even the current segment is among the listed names.
                while log.front_lsn().since(front) < 4 * SEGMENT {
                    last = log.commit(&[7; 9000]).unwrap().start.max(last);
                    log.truncate_front(last).unwrap();
                }
            }),
        };
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

/// Action of the writer between two reads of a reader.
#[derive(Debug, Clone, Copy)]
enum Writes {
    /// Writes some records.
    Records,
    /// Writes some records, and truncates the older ones.
    AndTruncates,
    /// Writes some records, voids the newer ones, and writes others.
    AndTakesBack,
}

/// Inspects a log repeatedly. Each time, the writer is active at a later read.
fn healthy_whenever_written(writes: Writes) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = log(&*system, "/log");
        for n in 0..20 {
            log.commit(&vec![n; 3000]).unwrap();
        }
        let reads = Arc::new(AtomicU64::new(0));
        let at = Arc::new(AtomicU64::new(0));
        let busy = Busy {
            inner: system,
            meanwhile: {
                let (log, reads, at) = (log.clone(), reads.clone(), at.clone());
                Arc::new(move |event| {
                    if event != Event::Read || reads.fetch_add(1, Relaxed) != at.load(Relaxed) {
                        return;
                    }
                    let first = log.commit(&[1; 2000]).unwrap();
                    for n in 0..6 {
                        log.commit(&vec![n; 5000]).unwrap();
                    }
                    match writes {
                        Writes::Records => {}
                        Writes::AndTruncates => log.truncate_front(first.start).unwrap(),
                        Writes::AndTakesBack => {
                            log.truncate_back(first.end).unwrap();
                            log.commit(&[2; 4000]).unwrap();
                        }
                    }
                })
            },
        };
        for n in 0.. {
            reads.store(0, Relaxed);
            at.store(n, Relaxed);
            let seen = Inspector::open(&busy, "/log").unwrap();
            let mut damage = Vec::new();
            let found = seen.walk(&mut |met| {
                if let Visit::Damage(what) = met {
                    damage.push(what.to_string());
                }
                true
            });
            let found = found.unwrap();
            assert_eq!(found.damages, 0, "written at read {n}: {damage:?}");
            if reads.load(Relaxed) <= n {
                assert!(n > 10, "the log is inspected with {n} reads");
                return;
            }
            // Otherwise the log would grow faster than the number of the read at which the writer acts.
            if n % 10 == 0 && !matches!(writes, Writes::AndTruncates) {
                log.truncate_front(log.durable_lsn()).unwrap();
                log.commit(&[3; 3000]).unwrap();
            }
        }
    });
}

#[test]
fn a_log_is_healthy_whenever_its_writer_goes_on() {
    healthy_whenever_written(Writes::Records);
}

#[test]
fn a_log_is_healthy_whenever_its_writer_truncates_the_front() {
    healthy_whenever_written(Writes::AndTruncates);
}

#[test]
fn a_log_is_healthy_whenever_its_writer_truncates_the_back() {
    healthy_whenever_written(Writes::AndTakesBack);
}
