//! Stale headers of reused files: the device has lost the write of the new header, or a read shows the old
//! one. A stale header says that the file holds a truncated segment.

use crate::common::{mended, open, repaired};
use logforce_core::{Error, Inspector, LogSummary, Lsn, Record, Visit};
use logforce_sim::mending::{OnDamage, cut};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{
    Failure, Misread, SectorFault, SimDisk, SimOptions, SimRuntime, Snapshot, Survival,
};
use std::collections::BTreeMap;

/// Number of records in the log.
const RECORDS: usize = 6;

/// A log that has used files again, after a power cut.
struct Recycled {
    disk: SimDisk,
    image: Snapshot,
    /// Segments whose files held truncated segments before.
    used: Vec<String>,
}

impl Recycled {
    fn new() -> Recycled {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let log = open(&disk, rt, &small().max_spare_segments(4)).expect("made");
            for round in 0..3 {
                for n in 0..RECORDS {
                    log.commit(&[n as u8; 15_000]).expect("nothing fails");
                }
                if round < 2 {
                    log.truncate_front(log.tail_lsn()).expect("it does");
                }
            }
            disk.cut();
        });
        disk.crash(Failure::Power, Some(Survival::Lost), 1);
        let image = disk.snapshot();
        let mut log = Recycled {
            used: Vec::new(),
            disk,
            image,
        };
        for name in log.segments() {
            log.reset();
            // The other files were new, and had no header before.
            let is_stale = log.disk.inject(PATH, &name, 0, &SectorFault::Stale);
            let refusal = log.open(4, OnDamage::Refuse).err();
            let refusal = refusal.map(|e| e.to_string()).unwrap_or_default();
            if is_stale && refusal.contains("is the truncated segment") {
                log.used.push(name);
            }
        }
        assert!(log.used.len() >= 4, "{:?}", log.used);
        log.reset();
        log
    }

    /// Returns the names of the segments, in their order.
    fn segments(&self) -> Vec<String> {
        let names = self.disk.names(PATH).into_keys();
        names.filter(|n| n.ends_with(".seg")).collect()
    }

    /// Returns all files with their contents on the medium.
    fn files(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let names = self.disk.names(PATH).into_keys();
        let with_bytes = |name: String| (name.clone(), self.disk.file_bytes(PATH, &name));
        names.map(with_bytes).collect()
    }

    fn reset(&self) {
        self.disk.restore(&self.image);
        self.disk.reboot(1);
    }

    /// Opens and closes the log. Returns the number of records.
    fn open(&self, spares: usize, on_damage: OnDamage) -> Result<usize, Error> {
        SimRuntime::run(2, |rt| {
            let options = small().max_spare_segments(spares);
            let (log, _) = mended(&self.disk, rt, &options, on_damage)?;
            let records = read(&log, log.front_lsn()).len();
            log.close()?;
            Ok(records)
        })
    }

    /// Checks that an opening refuses, and changes no name and no byte. Returns the error.
    fn changes_nothing(&self, what: &str) -> String {
        let mut error = String::new();
        for spares in [0, 4] {
            let before = self.files();
            let opened = self.open(spares, OnDamage::Refuse);
            error = opened.expect_err(what).to_string();
            assert!(error.contains("Nothing was changed"), "{what}: {error}");
            assert!(self.files() == before, "{what}, {spares} spares");
        }
        error
    }

    /// Checks the same; afterwards the header can be read and the log opens.
    fn costs_nothing(&self, what: &str) {
        self.changes_nothing(what);
        self.disk.lift_faults();
        assert_eq!(self.open(4, OnDamage::Refuse).ok(), Some(RECORDS), "{what}");
    }

    fn look<T>(&self, look: impl FnOnce(Inspector) -> T) -> T {
        SimRuntime::run(3, |rt| {
            look(Inspector::open(&*self.disk.system(rt), PATH).expect("it can be inspected"))
        })
    }

    /// Returns the number of records that an inspector shows, its summary, and the number of damages.
    fn seen(&self) -> (usize, LogSummary, u64) {
        self.look(|inspector| {
            let mut shown = 0;
            let walked = inspector.walk(&mut |visit| {
                shown += usize::from(matches!(visit, Visit::Record { .. }));
                true
            });
            let damages = walked.expect("nothing fails").damages;
            (shown, inspector.summary(), damages)
        })
    }

    fn rename(&self, from: &str, to: &str) {
        SimRuntime::run(4, |rt| {
            let system = self.disk.system(rt);
            let dir = system.directory(PATH.as_ref()).expect("there");
            dir.rename(from, to).expect("nothing fails");
            dir.sync().expect("nothing fails");
        });
    }

    fn swap(&self, a: &str, b: &str) {
        for (from, to) in [(a, "x"), (b, a), ("x", b)] {
            self.rename(from, to);
        }
    }
}

#[test]
fn a_refused_opening_leaves_the_file_as_it_is() {
    let log = Recycled::new();
    for name in &log.used {
        log.reset();
        assert!(log.disk.inject(PATH, name, 0, &SectorFault::Stale));
        log.costs_nothing(name);
    }
}

/// Names are only hints: the file may have the name of a segment that another file holds.
#[test]
fn also_one_with_the_name_of_another_segment() {
    let log = Recycled::new();
    for (n, one) in log.used.iter().enumerate() {
        for other in log.used.iter().skip(n + 1) {
            log.reset();
            log.swap(one, other);
            assert!(log.disk.inject(PATH, other, 0, &SectorFault::Stale));
            log.costs_nothing(&format!("{one} under the name {other}"));
        }
    }
}

/// Whatever happened to a segment in the middle, a refused opening leaves its bytes unchanged.
#[test]
fn no_refused_opening_changes_a_file() {
    let log = Recycled::new();
    let all = log.segments();
    let (one, other) = (&all[2], &all[3]);
    let (spare, temporary) = (one.replace(".seg", ".spare"), one.replace(".seg", ".tmp"));
    for (to, is_stale) in [
        (spare.as_str(), false),
        (&temporary, false),
        ("0000000000000000.seg", true),
        ("0000000000000000.spare", true),
        ("ffffffffffff0000.seg", true),
    ] {
        log.reset();
        assert!(!is_stale || log.disk.inject(PATH, one, 0, &SectorFault::Stale));
        log.rename(one, to);
        log.changes_nothing(&format!("{one} as {to}"));
    }
    // Other wrong names stay as well, because a name may show which file was lost.
    log.reset();
    assert!(log.disk.remove_file(PATH, one));
    log.rename(other, one);
    let refused = log.changes_nothing(&format!("{other} as {one}"));
    assert!(refused.contains("the file of this name holds"), "{refused}");
}

/// A header counts whatever the file's name is and whatever else is lost.
#[test]
fn a_whole_segment_under_another_name_is_read() {
    let log = Recycled::new();
    let all = log.segments();
    let shown = |one: Option<&str>| {
        log.reset();
        assert!(log.disk.remove_file(PATH, &all[2]));
        if let Some(name) = one {
            log.rename(name, "ffffffffffff0000.seg");
        }
        let (shown, summary, _) = log.seen();
        assert!(summary.strays.is_empty(), "{:?}", summary.strays);
        shown
    };
    let without = shown(None);
    assert!(without < RECORDS);
    for name in all.iter().filter(|n| **n != all[2]) {
        assert_eq!(shown(Some(name)), without, "{name}");
    }
}

/// A crash during a rename may leave a truncated segment under another name, with nothing lost. That file is
/// not kept for ever.
#[test]
fn a_truncated_segment_under_another_name_is_used_again_or_removed() {
    let log = Recycled::new();
    let used = &log.used[0];
    log.reset();
    assert!(log.disk.inject(PATH, used, 0, &SectorFault::Stale));
    let stale = log.disk.file_bytes(PATH, used).expect("there");
    log.reset();
    let name = "fffffffffffe0000.seg";
    log.disk.put_file(PATH, name, &stale);
    for spares in [0, 4] {
        let image = log.disk.snapshot();
        assert_eq!(log.open(spares, OnDamage::Refuse).ok(), Some(RECORDS));
        let names = log.disk.names(PATH);
        assert!(!names.contains_key(name), "{spares} spares: {names:?}");
        log.disk.restore(&image);
        log.disk.reboot(1);
    }
}

/// A second read past the cache gets the new header.
#[test]
fn a_header_that_is_stale_once_costs_nothing() {
    let log = Recycled::new();
    let calm = {
        log.reset();
        let before = log.disk.reads();
        log.open(4, OnDamage::Refuse).expect("it opens");
        log.disk.reads() - before
    };
    let mut wrong = 0;
    for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
        for n in 0..calm {
            log.reset();
            log.disk.misread_at(n, Misread::Stale);
            let shown = log
                .open(4, on_damage)
                .unwrap_or_else(|e| panic!("read {n}: {e}"));
            // The end of the log may be read in its state before the last commit.
            wrong += usize::from(shown != RECORDS);
            assert!(shown + 1 >= RECORDS, "read {n}: {shown}");
        }
    }
    assert!(wrong <= 4, "{wrong}");
}

/// Returns the results of an inspector and of a repair for the segment.
fn what_is_made_of(
    log: &Recycled,
    name: &str,
    fault: &SectorFault,
) -> (usize, LogSummary, (Lsn, Vec<Record>)) {
    log.reset();
    assert!(log.disk.inject(PATH, name, 0, fault));
    let (shown, summary, _) = log.seen();
    let done = SimRuntime::run(2, |rt| {
        let (_, report) = repaired(&log.disk, rt, &small());
        let from = report.cut.as_ref().expect("it is damaged").from;
        (from, cut(&*log.disk.system(rt), &report))
    });
    (shown, summary, done)
}

/// A stale header is treated like one with a wrong checksum: only the batches count.
#[test]
fn it_counts_as_one_that_is_damaged() {
    let log = Recycled::new();
    for name in &log.used {
        let (shown, summary, done) = what_is_made_of(&log, name, &SectorFault::Stale);
        let flipped = what_is_made_of(&log, name, &SectorFault::Flipped(1));
        assert_eq!(shown, flipped.0, "{name}");
        let strays = |s: &LogSummary| s.strays.iter().map(|s| s.0.clone()).collect::<Vec<_>>();
        assert_eq!(strays(&summary), std::slice::from_ref(name));
        assert_eq!(strays(&summary), strays(&flipped.1));
        assert_eq!(done, flipped.2, "{name}");
    }
}
