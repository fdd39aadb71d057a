//! Number of bytes that reading needs, and its results around damage.

use logforce_core::{Batch, Error, ErrorKind, Log, Lsn, OpenMode, Options, ReadOnly};
use logforce_device::{
    Directory, File, ForwardDirectory, ForwardFile, OpenFile, ReadSource, Runtime, System,
};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PATH: &str = "/log";

/// A system that counts the bytes that are read.
struct Counting<T: ?Sized> {
    inner: Arc<T>,
    bytes: Arc<AtomicU64>,
}

impl System for Counting<dyn System> {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        let (inner, bytes) = (self.inner.directory(path)?, self.bytes.clone());
        Ok(Arc::new(Counting { inner, bytes }))
    }
    fn make_directory(&self, _: &Path) -> io::Result<Arc<dyn Directory>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

impl ForwardDirectory for Counting<dyn Directory> {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }
    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        let (inner, bytes) = (self.inner.open(name, how)?, self.bytes.clone());
        Ok(Arc::new(Counting { inner, bytes }))
    }
}

impl ForwardFile for Counting<dyn File> {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        self.bytes.fetch_add(buf.len() as u64, Relaxed);
        self.inner.read_at(offset, buf, source)
    }
}

fn options() -> Options {
    Options::new()
        .segment_size(1 << 20)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .live_stats(false)
}

/// Each void batch costs one small read, independently of their number.
#[test]
fn an_opening_reads_a_long_void_list_once() {
    let cost = |truncations: u64| {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let log = Log::open(&*system, PATH, OpenMode::CreateNew, options()).unwrap();
            for _ in 0..truncations {
                let at = log.commit(b"gone").unwrap();
                log.commit(b"kept").unwrap();
                log.truncate_back(at.end).unwrap();
            }
            log.close().unwrap();
            let bytes: Arc<AtomicU64> = Arc::default();
            let counting = Counting::<dyn System> {
                inner: system,
                bytes: bytes.clone(),
            };
            let log = ReadOnly::open(&counting, PATH).unwrap();
            let opened = bytes.load(Relaxed);
            assert_eq!(
                log.read_from(Lsn::ORIGIN).unwrap().count() as u64,
                truncations
            );
            opened
        })
    };
    let (few, many) = (cost(100), cost(900));
    assert!(many - few <= 800 * 4096, "{few} bytes, {many} bytes");
}

/// Reading backwards returns every intact record behind a damaged one, then the damage.
#[test]
fn backwards_down_to_the_damage() {
    for damaged in [0, 7, 20, 38, 39] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let log = Log::open(&*system, PATH, OpenMode::CreateNew, options()).unwrap();
            let placed: Vec<_> = (0..40u8)
                .map(|n| log.commit(&[n; 5_000]).unwrap())
                .collect();
            let segment = format!("{:016x}.seg", 0);
            assert!(disk.flip_bit(PATH, &segment, placed[damaged].start.0 + 100, 0));
            let mut reader = log.read_back_from(log.durable_lsn()).unwrap();
            for at in placed[damaged + 1..].iter().rev() {
                assert_eq!(reader.next().unwrap().unwrap().start, at.start, "{damaged}");
            }
            let damage = reader.next().unwrap().unwrap_err();
            assert_eq!(damage.kind(), ErrorKind::Damaged, "{damage}");
            let lsn = damage.lsn().unwrap();
            assert!(lsn <= placed[damaged].start && lsn.plus(4096) > placed[damaged].start);
            assert!(reader.next().is_none());
        });
    }
}

/// Within an atomic append the front and a pin move to its start, and truncating at the back fails.
#[test]
fn positions_within_an_append() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = Log::open(&*disk.system(rt), PATH, OpenMode::CreateNew, options()).unwrap();
        log.commit(b"before").unwrap();
        let mut batch = Batch::of(&[&[1; 30_000], b"b", &[3; 30_000]]);
        log.commit(&mut batch).unwrap();
        let group = batch.ranges();
        log.commit(b"behind").unwrap();
        let start = group[0].start;
        for within in [group[1].start, group[2].start] {
            let pin = log.pin(within).unwrap();
            assert_eq!(pin.lsn(), start);
            match log.truncate_back(within) {
                Err(Error::WithinAppend { lsn, start: at }) => {
                    assert_eq!((lsn, at), (within, start))
                }
                other => panic!("{other:?}"),
            }
            log.truncate_front(within).unwrap();
            assert_eq!(log.front_lsn(), start);
        }
        let pin = log.pin(group[1].end).unwrap();
        assert_eq!(pin.lsn(), start);
        assert!(log.pin(start.plus(16)).is_err());
        assert_eq!(log.read_from(start).unwrap().count(), 4);
        log.truncate_back(group[2].end).unwrap();
        assert_eq!(log.read_from(start).unwrap().count(), 3);
        log.close().unwrap();
    });
}
