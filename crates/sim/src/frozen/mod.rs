//! Damaged directories, kept on disk with what a version of the library makes of them: the guard of a change
//! that must not lose a record which can be recovered today.
//!
//! A directory `N` holds the files of a log, `N.txt` its sectors that cannot be read and what openings show.

mod taken;

use crate::fuzz;
use crate::model::{PATH, small};
use logforce_core::{
    Error, Inspector, Log, OpenMode, Options, ReadOnly, Record, RepairOptions, RepairReport,
    Result, Visit, repair,
};
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
pub use taken::Frozen;
use taken::TAKEN;
pub(crate) use taken::take;

/// Records, and what ended the reading.
type Shown = Result<(Vec<Record>, String)>;

impl Frozen {
    fn disk(&self) -> SimDisk {
        let disk = SimDisk::new(
            SimOptions {
                sector: self.sector,
                log_lines: 0,
                capacity: Some(8 << 20),
                ..SimOptions::default()
            },
            1,
        );
        for (name, bytes) in &self.files {
            disk.put_file(PATH, name, bytes);
        }
        for (name, at) in &self.unreadable {
            disk.make_unreadable(PATH, name, *at);
        }
        disk
    }

    fn write(&self, path: &Path, outcome: &str) -> std::io::Result<()> {
        fs::create_dir_all(path)?;
        for (name, bytes) in &self.files {
            fs::write(path.join(name), &**bytes)?;
        }
        let mut text = format!("sector {}\n", self.sector);
        for (name, at) in &self.unreadable {
            let _ = writeln!(text, "unreadable {name} {at}");
        }
        fs::write(path.with_extension("txt"), text + outcome)
    }

    fn read(path: &Path) -> std::io::Result<(Frozen, String)> {
        let text = fs::read_to_string(path.with_extension("txt"))?;
        let (mut frozen, mut outcome) = (Frozen::default(), String::new());
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["sector", n] => frozen.sector = n.parse().expect("a number"),
                ["unreadable", name, at] => {
                    let at = at.parse().expect("a number");
                    frozen.unreadable.push((name.to_owned(), at));
                }
                _ => {
                    let _ = writeln!(outcome, "{line}");
                }
            }
        }
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            frozen.files.insert(name, Arc::new(fs::read(entry.path())?));
        }
        Ok((frozen, outcome))
    }
}

/// Adds a line for each record that is shown, and one for what ended the reading.
fn describe(text: &mut String, how: &str, shown: Shown) {
    match shown {
        Err(Error::Damaged(d)) => {
            if std::env::var_os("SAY").is_some() {
                println!("{how}: {d}");
            }
            let _ = writeln!(text, "{how} damaged {} {:?}", d.lsn.0, d.case);
        }
        Err(e) => {
            let _ = writeln!(text, "{how} {:?}", e.kind());
        }
        Ok((records, rest)) => {
            let _ = writeln!(text, "{how} {} records, {rest}", records.len());
            for r in records {
                let crc = logforce_format::payload_crc(0, &r.data);
                let _ = writeln!(text, "{how}: {} {} {crc:08x}", r.start.0, r.end.0);
            }
        }
    }
}

fn all<R: Iterator<Item = Result<Record>>>(reader: Result<R>) -> (Vec<Record>, String) {
    let mut records = Vec::new();
    let reader = match reader {
        Ok(reader) => reader,
        Err(e) => return (records, format!("then {:?}", e.kind())),
    };
    for record in reader {
        match record {
            Ok(record) => records.push(record),
            Err(e) => return (records, format!("then {:?}", e.kind())),
        }
    }
    (records, "whole".to_owned())
}

fn open(rt: &SimRuntime, disk: &SimDisk, options: Options) -> Shown {
    let log = Log::open(&*disk.system(rt), PATH, OpenMode::OpenExisting, options)?;
    let (records, end) = all(log.read_from(log.front_lsn()));
    let meta = log.meta().map(|m| logforce_format::payload_crc(0, &m));
    let rest = format!("{end}, front {}, metadata {meta:?}", log.front_lsn().0);
    log.close()?;
    Ok((records, rest))
}

fn read_only(rt: &SimRuntime, disk: &SimDisk) -> Shown {
    let log = ReadOnly::open(&*disk.system(rt), PATH)?;
    let (records, end) = all(log.read_from(log.front_lsn()));
    Ok((records, format!("{end}, front {}", log.front_lsn().0)))
}

fn salvage(rt: &SimRuntime, disk: &SimDisk, path: &Path) -> Shown {
    let inspector = Inspector::salvage(&*disk.system(rt), path)?;
    let mut records = Vec::new();
    inspector.walk(&mut |visit| {
        if let Visit::Record { record, .. } = visit {
            records.push(record.clone());
        }
        true
    })?;
    Ok((records, "salvaged".to_owned()))
}

/// Returns what this version makes of it.
fn outcome(frozen: &Frozen) -> String {
    let mut text = String::new();
    let run = |disk: &SimDisk, how: &dyn Fn(&SimRuntime, &SimDisk) -> Shown| {
        disk.reboot(1);
        SimRuntime::run(1, |rt| how(rt, disk))
    };
    let strict = |rt: &SimRuntime, disk: &SimDisk| open(rt, disk, small());
    let log = Path::new(PATH);
    let shown = |rt: &SimRuntime, disk: &SimDisk| salvage(rt, disk, log);
    describe(&mut text, "read", run(&frozen.disk(), &read_only));
    describe(&mut text, "open", run(&frozen.disk(), &strict));
    describe(&mut text, "salvage", run(&frozen.disk(), &shown));
    let disk = frozen.disk();
    let mut report: Option<RepairReport> = None;
    let repaired = SimRuntime::run(1, |rt| {
        repair(&*disk.system(rt), log, &RepairOptions::new())
    });
    match repaired {
        Ok(repaired) => {
            report = Some(repaired);
            describe(&mut text, "cut", run(&disk, &strict));
        }
        Err(e) => describe(&mut text, "cut", Err(e)),
    }
    describe(&mut text, "again", run(&disk, &strict));
    if let Some(RepairReport {
        cut: Some(cut),
        aside: Some(aside),
        ..
    }) = report
    {
        let rest = |rt: &SimRuntime, disk: &SimDisk| {
            let (mut records, rest) = salvage(rt, disk, &aside)?;
            records.retain(|record| record.start >= cut.from);
            Ok((records, rest))
        };
        describe(&mut text, "rest", run(&disk, &rest));
    }
    text
}

/// Freezes so many damaged directories in `to`, half of them from random runs and half mutations.
pub fn freeze(to: &Path, count: usize) {
    let mut rng = Rng::new(39);
    let mut written = 0;
    let mut write = |frozen: &Frozen| {
        let outcome = outcome(frozen);
        let is_harmed = !outcome.contains("open ") || outcome.contains("open damaged");
        // Few of those that every way shows whole.
        if is_harmed || written % 5 == 0 {
            let path = to.join(format!("{written:05}"));
            frozen.write(&path, &outcome).expect("there is space");
            written += 1;
        }
        written
    };
    loop {
        let len = 20 + rng.below(200);
        let bytes: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
        if fuzz::mutated_files(&bytes).is_some_and(|frozen| write(&frozen) >= count / 2) {
            break;
        }
    }
    *TAKEN.lock().unwrap_or_else(|e| e.into_inner()) = Some(Vec::new());
    let mut seed = 390_000_000;
    loop {
        crate::simulation::run(seed);
        seed += 1;
        let taken = std::mem::take(
            TAKEN
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .as_mut()
                .expect("it is there"),
        );
        for frozen in &taken {
            if write(frozen) >= count {
                return;
            }
        }
    }
}

/// Compares what this version makes of frozen directories with what is written beside them.
pub fn thaw(from: &Path) -> usize {
    let mut differ = 0;
    let mut paths: Vec<_> = fs::read_dir(from)
        .expect("a directory")
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_dir())
        .collect();
    paths.sort();
    for path in &paths {
        let (frozen, was) = Frozen::read(path).expect("it was frozen");
        let is = outcome(&frozen);
        if was != is {
            differ += 1;
            println!("{}", path.display());
            for line in was.lines().filter(|l| !is.lines().any(|i| i == *l)) {
                println!("  - {line}");
            }
            for line in is.lines().filter(|l| !was.lines().any(|i| i == *l)) {
                println!("  + {line}");
            }
        }
    }
    println!("{} directories, {differ} differ", paths.len());
    differ
}
