//! Openings in which the system fails, or returns short listings: the reported error, and that no record is
//! lost.

use logforce_core::{
    Error, ErrorKind, Inspector, Log, OpenMode, Options, RepairOptions, RepairReport, repair,
};
use logforce_device::{DirEntry, Directory, ForwardDirectory, OpenFile, Runtime, System};
use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

pub fn options() -> Options {
    Options::new()
        .segment_size(64 << 10)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .live_stats(false)
}

pub const RECORDS: u8 = 60;

/// Creates a log of several segments.
pub fn fill(system: &dyn System) {
    let log = Log::open(system, "/log", OpenMode::CreateNew, options()).unwrap();
    for n in 0..RECORDS {
        log.commit(&[n; 4000]).unwrap();
    }
    log.close().unwrap();
}

#[track_caller]
fn assert_whole(log: &Log, what: &str) {
    let records = log.read_from(log.front_lsn()).unwrap();
    let found: Vec<u8> = records.map(|r| r.unwrap().data[0]).collect();
    assert_eq!(found, (0..RECORDS).collect::<Vec<_>>(), "{what}");
}

/// Part that a short listing lacks.
#[derive(Debug, Clone, Copy)]
enum Short {
    Empty,
    /// The second half is missing, as if a call in the middle reported the end.
    Half,
    /// Only the first segment is missing.
    First,
    /// Only the last segment is missing.
    Last,
    /// All segments are missing.
    NoSegments,
}

/// A system that returns some listings short, without an error.
struct Shy {
    inner: Arc<dyn System>,
    how: Short,
    /// Number of complete listings before the short one; below zero afterwards.
    left: Arc<AtomicI64>,
    /// True if all later listings are short as well.
    for_good: bool,
}

struct ShyDirectory {
    inner: Arc<dyn Directory>,
    how: Short,
    left: Arc<AtomicI64>,
    for_good: bool,
}

impl System for Shy {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(ShyDirectory {
            inner: self.inner.directory(path)?,
            how: self.how,
            left: self.left.clone(),
            for_good: self.for_good,
        }))
    }
    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.inner.make_directory(path)?;
        self.directory(path)
    }
}

impl ForwardDirectory for ShyDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let mut entries = self.inner.entries()?;
        let left = self.left.fetch_sub(1, SeqCst);
        if left == 0 || (left < 0 && self.for_good) {
            let is_segment = |e: &DirEntry| e.name.ends_with(".seg");
            match self.how {
                Short::Empty => entries.clear(),
                Short::Half => entries.truncate(entries.len() / 2),
                Short::First => {
                    let first = entries.iter().position(is_segment);
                    first.map(|at| entries.remove(at));
                }
                Short::Last => {
                    let last = entries.iter().rposition(is_segment);
                    last.map(|at| entries.remove(at));
                }
                Short::NoSegments => entries.retain(|e| !is_segment(e)),
            }
        }
        Ok(entries)
    }
}

/// Mode of an opening; true if a repair comes before it.
const MODES: [(OpenMode, bool); 4] = [
    (OpenMode::OpenExisting, false),
    (OpenMode::OpenExisting, true),
    (OpenMode::OpenOrCreate, false),
    (OpenMode::OpenOrCreate, true),
];

pub fn repair_log(system: &dyn System) -> logforce_core::Result<RepairReport> {
    repair(system, Path::new("/log"), &RepairOptions::new())
}

/// Returns the log's files, except for the lock file, which is empty.
pub fn files(disk: &SimDisk) -> BTreeMap<String, Option<Vec<u8>>> {
    let names = disk.names("/log").into_keys().filter(|name| name != "lock");
    let visible = |name: String| (name.clone(), disk.visible_bytes("/log", &name));
    names.map(visible).collect()
}

/// Each listing of an opening or a repair is short once, or from there on. Either the log opens with all its
/// records, or the opening fails and the log stays whole. A repair changes nothing.
#[test]
fn a_listing_that_is_short_loses_nothing() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| fill(&*disk.system(rt)));
    let filled = disk.snapshot();
    let (mut refused, mut unrepaired) = (0, 0);
    for (mode, repairs) in MODES {
        for how in [
            Short::Empty,
            Short::Half,
            Short::First,
            Short::Last,
            Short::NoSegments,
        ] {
            for for_good in [false, true] {
                for nth in 0.. {
                    let what = format!("{mode:?}, {repairs}, {how:?} at {nth}, {for_good}");
                    let disk = SimDisk::new(SimOptions::default(), 1);
                    disk.restore(&filled);
                    let left = Arc::new(AtomicI64::new(nth));
                    let reported = left.clone();
                    let failed = SimRuntime::run(nth as u64, |rt| {
                        let shy = Shy {
                            inner: disk.system(rt),
                            how,
                            left: reported,
                            for_good,
                        };
                        if repairs {
                            let before = files(&disk);
                            match repair_log(&shy) {
                                Ok(report) => assert_untouched(&report, &what),
                                Err(e) => {
                                    assert_ne!(e.kind(), ErrorKind::Damaged, "{what}: {e}");
                                    unrepaired += 1;
                                }
                            }
                            assert!(files(&disk) == before, "{what}: a repair has changed it");
                        }
                        match Log::open(&shy, "/log", mode, options()) {
                            Ok(log) => {
                                assert_whole(&log, &what);
                                log.close().unwrap();
                                false
                            }
                            Err(e) => {
                                // No record was lost, and the error does not recommend to cut the log.
                                assert_ne!(e.kind(), ErrorKind::Damaged, "{what}: {e}");
                                true
                            }
                        }
                    });
                    refused += u32::from(failed);
                    SimRuntime::run(2, |rt| {
                        let system = disk.system(rt);
                        let log = Log::open(&*system, "/log", OpenMode::OpenExisting, options());
                        let log = log.unwrap_or_else(|e| panic!("{what}: {e}"));
                        assert_whole(&log, &what);
                        log.commit(b"and goes on").unwrap();
                        log.close().unwrap();
                    });
                    if left.load(SeqCst) >= 0 {
                        // All listings were tried.
                        break;
                    }
                }
            }
        }
    }
    assert!(refused > 0 && unrepaired > 0, "no listing was ever short");
}

#[track_caller]
pub fn assert_untouched(report: &RepairReport, what: &str) {
    assert_eq!(
        (&report.cut, &report.lost_meta, &report.aside),
        (&None, &None, &None),
        "{what}"
    );
}

/// Each operation of an opening fails once. The reported error is the one of the operation.
#[test]
fn an_opening_that_fails_says_what_failed() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| fill(&*disk.system(rt)));
    let filled = disk.snapshot();
    let empty = SimDisk::new(SimOptions::default(), 1).snapshot();
    for (start, mode) in [
        (&filled, OpenMode::OpenExisting),
        (&empty, OpenMode::CreateNew),
    ] {
        let mut failed = 0;
        for op in 0.. {
            let disk = SimDisk::new(SimOptions::default(), 1);
            disk.restore(start);
            let opened = SimRuntime::run(1, |rt| {
                let system = disk.system(rt);
                disk.fail_at(op, Fault::Io);
                let opened = Log::open(&*system, "/log", mode, options());
                let ops = disk.ops();
                opened.map(|_| ops)
            });
            match opened {
                Err(e) => {
                    failed += 1;
                    assert!(matches!(e, Error::Io { .. }), "operation {op}: {e}");
                }
                Ok(ops) if op >= ops => break,
                Ok(_) => {}
            }
        }
        assert!(failed > 10, "{failed} openings failed");
    }
}

/// An opening removes useless files of killed processes, and no others.
#[test]
fn leftovers_go_and_nothing_else() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        fill(&*system);
        let dir = system.directory(Path::new("/log")).unwrap();
        let log = Log::open(
            &*system,
            "/log",
            OpenMode::OpenExisting,
            options().max_spare_segments(5),
        )
        .unwrap();
        log.truncate_front(log.tail_lsn()).unwrap();
        log.close().unwrap();
        let names = || -> Vec<String> {
            let mut names: Vec<_> = dir.entries().unwrap().into_iter().map(|e| e.name).collect();
            names.sort();
            names
        };
        let spares = |names: &[String]| names.iter().filter(|n| n.ends_with(".spare")).count();
        assert!(spares(&names()) > 2, "{:?}", names());
        let make = |name: &str, len: u64| {
            let file = dir.open(name, OpenFile::CREATE).unwrap();
            if len > 0 {
                file.reserve(len).unwrap();
            }
        };
        let dead = [
            "calibration-0123456789abcdef.tmp",
            "00000000000f0000.seg.damaged",
        ];
        let kept = [
            "calibration",
            "verdicts-0123456789abcdef.tmp",
            "calibration-0123.tmp",
            "calibration.tmp",
            "00000000000e0000.seg.damaged",
            "notes.seg.damaged",
        ];
        for name in dead {
            make(name, 0);
        }
        for name in kept {
            make(name, if name.starts_with("00") { 4096 } else { 0 });
        }
        let log = Log::open(
            &*system,
            "/log",
            OpenMode::OpenExisting,
            options().max_spare_segments(2),
        )
        .unwrap();
        log.close().unwrap();
        let left = names();
        assert!(
            dead.iter().all(|d| !left.iter().any(|n| n == d)),
            "{left:?}"
        );
        assert!(kept.iter().all(|k| left.iter().any(|n| n == k)), "{left:?}");
        assert!(spares(&left) <= 2, "{left:?}");
    });
}

/// A file that was set aside is evidence: one that is set aside later does not replace it, and a repair
/// copies both.
#[test]
fn what_was_set_aside_before_is_kept() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        fill(&*system);
        let is_segment = |name: &String| name.ends_with(".seg");
        let names: Vec<String> = disk.names("/log").into_keys().filter(is_segment).collect();
        // A file has the name of the next segment.
        let next = Inspector::open(&*system, "/log").unwrap().summary();
        let next = format!("{:016x}.seg", next.prepared_end.0);
        disk.put_file("/log", &next, b"in the way");
        let (second, aside) = (&names[1], format!("{next}.damaged"));
        disk.put_file("/log", &aside, b"of another time");
        assert!(disk.flip_bit("/log", second, 20, 1));
        let bytes = disk.file_bytes("/log", second);

        let copies = repair_log(&*system).unwrap().aside.unwrap();
        let open = || Log::open(&*system, "/log", OpenMode::OpenExisting, options());
        open().unwrap().close().unwrap();
        let kept = |dir: &Path, name: &str| disk.file_bytes(dir, name);
        for (name, bytes) in [(&aside, &b"of another time"[..]), (&next, b"in the way")] {
            assert_eq!(kept(&copies, name).as_deref(), Some(bytes), "{name}");
        }
        assert_eq!(kept(&copies, second), bytes);
        let log = Path::new("/log");
        for (name, bytes) in [
            (aside.clone(), &b"of another time"[..]),
            (format!("{aside}.1"), b"in the way"),
        ] {
            assert_eq!(kept(log, &name).as_deref(), Some(bytes), "{name}");
        }
    });
}

/// If only the control file is missing, the error asks to restore it, not the segments.
#[test]
fn a_missing_control_file_is_what_is_named_missing() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        fill(&*system);
        assert!(disk.remove_file("/log", "control"));
        let Err(e) = Log::open(&*system, "/log", OpenMode::OpenExisting, options()) else {
            panic!("opened");
        };
        assert_eq!(e.kind(), ErrorKind::NoLog);
        let reported = e.to_string();
        for part in [
            "'control' is missing",
            "restore 'control' from a copy",
            "logforce salvage",
        ] {
            assert!(reported.contains(part), "{reported}");
        }
    });
}
