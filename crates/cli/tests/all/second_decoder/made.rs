//! Files of logs of all kinds.

use super::changed::{batches, number};
use crate::common::place;
use crate::mutants::{Files, files, lay_out};
use crate::packed::unpack;
use logforce::{
    Batch, Guarantee, Log, Options, Tuning,
    inspect::{RepairOptions, RepairReport},
};
use std::path::PathBuf;
use std::time::Duration;

const GOLDEN: [(&str, &str); 4] = [
    (
        "Linux, closed",
        include_str!("../../../../logforce/tests/golden/linux/closed.hex"),
    ),
    (
        "Linux, killed",
        include_str!("../../../../logforce/tests/golden/linux/killed.hex"),
    ),
    (
        "Windows, closed",
        include_str!("../../../../logforce/tests/golden/windows/closed.hex"),
    ),
    (
        "Windows, killed",
        include_str!("../../../../logforce/tests/golden/windows/killed.hex"),
    ),
];

fn options() -> Options {
    Options::new()
        .calibrate(false)
        .tuning(Tuning::new().live_stats(false))
        .require(Guarantee::ProcessCrash)
        .segment_size(64 << 10)
        .max_batch_size(16 << 10)
        .tuning(Tuning::new().idle_stamp(Duration::MAX))
}

fn record(n: usize) -> Vec<u8> {
    (0..n).map(|i| (n * 31 + i * 7) as u8).collect()
}

/// Logs of all kinds.
pub struct Made {
    pub place: tempfile::TempDir,
    pub all: Vec<(String, Files)>,
    /// True if stamps say what is durable. Without stamps less counts as damage.
    pub is_stamped: bool,
    /// File and offset of the damage in `repaired` before its last repair.
    pub damaged: (String, usize),
}

impl Made {
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Returns the last log of this name.
    pub fn latest(&self, name: &str) -> &Files {
        let found = self.all.iter().rfind(|(n, _)| n == name);
        &found.unwrap().1
    }

    fn create(&self, name: &str) -> Log {
        logforce::create_new(self.path(name), options()).unwrap()
    }

    fn open(&self, name: &str, options: Options) -> Log {
        logforce::open_existing(self.path(name), options).unwrap()
    }

    /// Repairs the log, which ends it before its damage.
    fn repair(&self, name: &str) -> RepairReport {
        logforce::inspect::repair(self.path(name), &RepairOptions::new()).unwrap()
    }

    /// Adds the copies that a repair has made.
    fn take_copies(&mut self, name: &str, report: RepairReport) {
        if let Some(aside) = report.aside {
            self.all.push((format!("{name}, cut"), files(&aside)));
        }
    }

    /// Adds the files as they are now.
    fn take(&mut self, name: &str, how: &str) {
        let files = files(&self.path(name));
        self.all.push((format!("{name}, {how}"), files));
    }

    /// Adds the files as a crash of the process would leave them now, and goes on with these.
    fn crash(&mut self, name: &str, log: Log) {
        let before = files(&self.path(name));
        drop(log);
        lay_out(&before, &self.path(name));
        self.all.push((format!("{name}, crashed"), before));
    }
}

/// Adds records of all sizes, appends of several records, and both over several batches and segments.
fn sizes(made: &mut Made) {
    let log = made.create("sizes");
    made.is_stamped = log.guarantee() == Guarantee::PowerLoss;
    made.take("sizes", "new");
    for n in [0, 1, 7, 8, 9, 376, 377, 504, 3000, 4095, 9000, 40_000] {
        log.commit(&record(n)).unwrap();
    }
    let parts = [record(3), record(0), record(30_000), record(700)];
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    for _ in 0..3 {
        log.commit(Batch::of(&parts)).unwrap();
    }
    log.set_meta(b"a vote").unwrap();
    made.take("sizes", "open");
    log.close().unwrap();
    made.take("sizes", "closed");
}

/// Adds logs whose segments are truncated at the front, within an append, and reused.
fn fronts(made: &mut Made) {
    let log = made.create("fronts");
    for round in 0..6 {
        let mut last = None;
        for n in [2000, 12_000, 500, 7000] {
            last = Some(log.commit(&record(n + round)).unwrap());
        }
        log.append(Batch::of(&[&record(9000), &record(9001), &record(10)]))
            .unwrap();
        log.truncate_front(last.unwrap().start).unwrap();
    }
    let last = log.commit(Batch::of(&[&record(9000), &record(50_000), &record(10)]));
    let front = last.unwrap().end;
    for n in 0..9 {
        log.commit(&record(900 + n)).unwrap();
    }
    log.truncate_front(front).unwrap();
    made.crash("fronts", log);
}

/// Adds openings after crashes, nested truncations at the end, and batches of old epochs.
fn epochs(made: &mut Made) {
    let mut log = made.create("epochs");
    for round in 0..5_usize {
        let kept = log.commit(&record(600 + round)).unwrap();
        for n in 0..6 {
            log.commit(&record(1500 * n + round)).unwrap();
        }
        let taken = log.commit(&record(100)).unwrap();
        log.commit(&record(5000)).unwrap();
        log.truncate_back(taken.start).unwrap();
        log.commit(&record(50)).unwrap();
        if round % 2 == 1 {
            log.truncate_back(kept.end).unwrap();
        }
        log.append(&record(2000)).unwrap();
        log.set_meta(&record(round)).unwrap();
        made.crash("epochs", log);
        log = made.open("epochs", options());
    }
    log.close().unwrap();
    made.take("epochs", "closed");
}

/// Adds crashes within a record over several batches, which the next opening voids.
fn torn(made: &mut Made) {
    let log = made.create("torn");
    log.commit(&record(800)).unwrap();
    let long = log.commit(&record(45_000)).unwrap();
    made.crash("torn", log);
    for back in [4096, 30_000] {
        let mut files = files(&made.path("torn"));
        let segment = files.get_mut("0000000000000000.seg").unwrap();
        segment[long.end.0 as usize - back..].fill(0);
        lay_out(&files, &made.path("torn"));
        made.take("torn", "a write in part");
        made.repair("torn");
        let log = made.open("torn", options());
        log.commit(&record(1000)).unwrap();
        made.crash("torn", log);
    }
}

/// Adds a log that moves to a device with a larger write unit and continues in a new segment.
fn coarser(made: &mut Made) {
    let log = made.create("coarser");
    for n in 0..9 {
        log.commit(&record(1700 * n)).unwrap();
    }
    made.crash("coarser", log);
    let log = made.open(
        "coarser",
        options().tuning(Tuning::new().write_unit_size(8192)),
    );
    for n in 0..6 {
        log.commit(&record(3100 * n)).unwrap();
    }
    made.crash("coarser", log);
}

/// Adds a log that was repaired twice, with the copies of what was removed.
fn repaired(made: &mut Made) {
    let log = made.create("repaired");
    for n in 0..30 {
        log.commit(&record(1900 + n)).unwrap();
    }
    let last = log.commit(&record(99)).unwrap();
    log.truncate_back(last.start).unwrap();
    log.commit(&record(98)).unwrap();
    made.crash("repaired", log);
    for _ in 0..2 {
        let mut files = files(&made.path("repaired"));
        // An opening does not read below the anchor.
        let anchor = number(&files["control"][72..80]);
        let above = |(file, at): &(String, usize)| number(&files[file][at + 32..at + 40]) >= anchor;
        let damaged = batches(&files).into_iter().find(above).unwrap();
        files.get_mut(&damaged.0).unwrap()[damaged.1 + 100] ^= 4;
        lay_out(&files, &made.path("repaired"));
        made.take("repaired", "damaged");
        let report = made.repair("repaired");
        made.take_copies("repaired", report);
        let log = made.open("repaired", options());
        for n in 0..8 {
            log.commit(&record(2100 + n)).unwrap();
        }
        made.crash("repaired", log);
        made.damaged = damaged;
    }
}

pub fn made() -> Made {
    let mut made = Made {
        place: place(),
        all: Vec::new(),
        is_stamped: false,
        damaged: (String::new(), 0),
    };
    for make in [sizes, fronts, epochs, torn, coarser, repaired] {
        make(&mut made);
    }
    made
}

pub fn golden() -> Vec<(String, Files)> {
    let named = |(name, packed): &(&str, &str)| {
        let files = unpack(packed).into_iter().map(|f| (f.name, f.bytes));
        (format!("golden: {name}"), files.collect())
    };
    GOLDEN.iter().map(named).collect()
}
