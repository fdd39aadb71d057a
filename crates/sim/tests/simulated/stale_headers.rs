//! Headers from before a file was used again: the device has lost the write of the new one, or a read shows
//! the old one. Such a header says that the file holds what was truncated.

use crate::common::open;
use logforce_core::{Error, GivenUp, Inspector, LogSummary, OnDamage, Visit};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{
    Failure, Misread, SectorFault, SimDisk, SimOptions, SimRuntime, Snapshot, Survival,
};
use std::collections::BTreeMap;

/// How many records the log holds.
const RECORDS: usize = 6;

/// A log that has used files again, and was cut.
struct Recycled {
    disk: SimDisk,
    image: Snapshot,
    /// The segments whose files held truncated ones before.
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
        let all: Vec<String> = log.disk.names(PATH).into_keys().collect();
        for name in all.into_iter().filter(|n| n.ends_with(".seg")) {
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

    fn reset(&self) {
        self.disk.restore(&self.image);
        self.disk.reboot(1);
    }

    /// Opens and closes; how many records it shows.
    fn open(&self, spares: usize, on_damage: OnDamage) -> Result<usize, Error> {
        SimRuntime::run(2, |rt| {
            let options = small().max_spare_segments(spares).on_damage(on_damage);
            let log = open(&self.disk, rt, &options)?;
            let records = read(&log, log.front_lsn()).len();
            log.close()?;
            Ok(records)
        })
    }

    /// An opening refuses, and changes no name; then the header can be read.
    fn costs_nothing(&self, what: &str) {
        for spares in [0, 4] {
            let before: BTreeMap<String, u64> = self.disk.names(PATH);
            assert!(self.open(spares, OnDamage::Refuse).is_err(), "{what}");
            assert_eq!(self.disk.names(PATH), before, "{what}, {spares} spares");
        }
        self.disk.lift_faults();
        assert_eq!(self.open(4, OnDamage::Refuse).ok(), Some(RECORDS), "{what}");
    }

    fn look<T>(&self, look: impl FnOnce(Inspector) -> T) -> T {
        SimRuntime::run(3, |rt| {
            look(Inspector::open(&*self.disk.system(rt), PATH).expect("it can be looked at"))
        })
    }

    fn swap(&self, a: &str, b: &str) {
        SimRuntime::run(4, |rt| {
            let dir = self
                .disk
                .system(rt)
                .directory(PATH.as_ref())
                .expect("there");
            for (from, to) in [(a, "x"), (b, a), ("x", b)] {
                dir.rename(from, to).expect("nothing fails");
            }
            dir.sync().expect("nothing fails");
        });
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

/// Names are hints: the file may have that of a segment that another file holds.
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

/// Another look past the cache gets the new header.
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
    for on_damage in [OnDamage::Refuse, OnDamage::Truncate] {
        for n in 0..calm {
            log.reset();
            log.disk.misread_at(n, Misread::Stale);
            let shown = log
                .open(4, on_damage)
                .unwrap_or_else(|e| panic!("read {n}: {e}"));
            // The end of the log may be read as it was before its last commit.
            wrong += usize::from(shown != RECORDS);
            assert!(shown + 1 >= RECORDS, "read {n}: {shown}");
        }
    }
    assert!(wrong <= 4, "{wrong}");
}

/// What an inspector and a truncating opening make of the segment.
fn what_is_made_of(
    log: &Recycled,
    name: &str,
    fault: &SectorFault,
) -> (usize, LogSummary, Vec<GivenUp>) {
    log.reset();
    assert!(log.disk.inject(PATH, name, 0, fault));
    let (shown, summary) = log.look(|inspector| {
        let mut shown = 0;
        let walked = inspector.walk(&mut |visit| {
            shown += usize::from(matches!(visit, Visit::Record { .. }));
            true
        });
        walked.expect("nothing fails");
        (shown, inspector.summary())
    });
    log.open(4, OnDamage::Truncate).expect("it opens");
    (
        shown,
        summary,
        log.look(|inspector| inspector.given_up().expect("nothing fails")),
    )
}

/// As a header whose checksum is wrong, which says nothing: what its batches say counts.
#[test]
fn it_counts_as_one_that_is_damaged() {
    let log = Recycled::new();
    for name in &log.used {
        let (shown, summary, given_up) = what_is_made_of(&log, name, &SectorFault::Stale);
        let flipped = what_is_made_of(&log, name, &SectorFault::Flipped(1));
        assert_eq!(shown, flipped.0, "{name}");
        let strays = |s: &LogSummary| s.strays.iter().map(|s| s.0.clone()).collect::<Vec<_>>();
        assert_eq!(strays(&summary), std::slice::from_ref(name));
        assert_eq!(strays(&summary), strays(&flipped.1));
        let ranges = |all: &[GivenUp]| {
            let range = |g: &GivenUp| (g.from, g.to, g.files.clone());
            all.iter().map(range).collect::<Vec<_>>()
        };
        assert_eq!(ranges(&given_up), ranges(&flipped.2), "{name}");
    }
}
