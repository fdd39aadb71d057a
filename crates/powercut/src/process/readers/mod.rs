//! Other processes read a log while it is written: truncated at both ends, its segments recycled,
//! its writer killed beneath them and another one going on; and, over the disk whose plug can be
//! pulled, while the power goes.
//!
//! What they are shown must be what was appended, whole, in order, where it was appended, and never
//! twice. A replica that keeps what a follower shows, and undoes what it reports as voided, has in
//! the end what the log has; and after a cut the log still has what any follower was shown. They
//! may get `Truncated` and `Voided`, and nothing else.

mod replica;
mod role;

pub use replica::{Places, Replica};
pub use role::{How, Reading, role_read};

use super::{Counted, Plan, in_halves};
use crate::check::{Opening, Promises, Session, check};
use crate::ledger::{Kind, SubjectLedger};
use crate::started::{Role, Started, TIMEOUT, User, Waited, Workload, ledger_path};
use crate::subject::CONTROL;
use crate::subject::seam::Fault;
use anyhow::{Context, Result};
use logforce::{Guarantee, Method};
use logforce_crashtest::disk::{Cut, Settings, Survival};
use logforce_crashtest::outage::Disks;
use logforce_crashtest::testbed::{Filesystem, Mounted, Powered};
use logforce_testkit::Rng;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Those that read one log at the same time.
const READERS: [How; 4] = [How::Follow, How::Lag, How::Scan, How::Walk];

/// A log, its writers one after the other, and its readers.
struct Scenario {
    method: Method,
    dir: PathBuf,
    promises: Promises,
    places: Places,
    rng: Rng,
    session: u64,
    counted: Counted,
}

impl Scenario {
    fn write(&mut self, commits: u64) -> Result<Started> {
        self.session += 1;
        let mut workload = Workload::new(&self.dir, self.method, self.session, self.rng.bits());
        workload.job.commits = commits;
        Started::new(Role::Work, &workload, User::Root)
    }

    fn ended(&mut self, mut writer: Started) -> Result<()> {
        writer.kill()?;
        let session = writer.session(self.session)?;
        self.places.add(&session);
        self.promises.add(session);
        Ok(())
    }

    /// A writer that is killed.
    fn session(&mut self) -> Result<()> {
        let mut writer = self.write(0)?;
        let enough = 20 + self.rng.below(200);
        if writer.until(Kind::Acked, enough)? != Waited::There {
            let stderr = writer.stderr();
            self.counted
                .breaks(format!("a writer that stops: {stderr}"));
        }
        self.counted.add("writers killed", 1);
        self.ended(writer)
    }

    fn check_log(&mut self) -> Result<()> {
        let opening = Opening {
            method: self.method,
            claims: Guarantee::ProcessCrash,
        };
        let outcome = check(&self.dir, opening, &mut self.promises)?;
        self.counted.add("acknowledged", outcome.acknowledged);
        self.counted.add("lost", outcome.lost);
        for broken in outcome.broken {
            self.counted.breaks(broken);
        }
        Ok(())
    }
}

/// Sessions of writers beneath readers on a mounted filesystem.
fn beside(
    disk: &Path,
    home: &Path,
    method: Method,
    fault: Fault,
    sessions: u64,
    seed: u64,
) -> Result<Counted> {
    let mut scenario = Scenario {
        method,
        dir: disk.join(format!("{method}-{fault:?}")),
        promises: Promises::default(),
        places: Places::default(),
        rng: Rng::new(seed),
        session: 0,
        counted: Counted::default(),
    };
    // There is a log when they come.
    scenario.check_log()?;
    let stop = home.join(format!("stop-{seed:x}"));
    let mut readers = Vec::new();
    for how in READERS {
        let reading = Reading {
            dir: scenario.dir.clone(),
            ledger: ledger_path(),
            thread: 0,
            how,
            fault,
            stop: stop.clone(),
            seed: scenario.rng.bits(),
        };
        readers.push((how, Started::new(Role::Read, &reading, User::Root)?));
    }
    for _ in 0..sessions {
        scenario.session()?;
        if scenario.rng.one_in(3) {
            scenario.check_log()?;
        }
        if !scenario.counted.broken.is_empty() || over(&mut readers)? {
            break;
        }
    }
    let mut last = scenario.write(100)?;
    if let Some(bad) = last.end(true)? {
        scenario.counted.breaks(format!("the last writer: {bad}"));
    }
    scenario.ended(last)?;
    scenario.check_log()?;
    let Some(log) = scenario.promises.base.clone() else {
        return Ok(scenario.counted);
    };
    // Closed in order, all of it is proven: followers get to its end.
    let timeout = if fault == Fault::None {
        TIMEOUT
    } else {
        TIMEOUT / 25
    };
    let until = Instant::now() + timeout;
    let wanted = log.present.last_key_value().map(|(start, _)| *start);
    for (how, reader) in &mut readers {
        while how.follows()
            && Replica::of(&reader.entries()?[0]).last() < wanted
            && !reader.has_ended()?
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    std::fs::File::create(&stop)?;
    for (how, reader) in &mut readers {
        if let Some(bad) = reader.end(true)? {
            scenario.counted.breaks(format!("{how:?}: {bad}"));
        }
        let entries = &reader.entries()?[0];
        let mut broken = scenario.places.wrong(entries, scenario.session);
        let shown = entries.iter().filter(|e| e.kind == Kind::Shown).count();
        let rounds = entries.iter().filter(|e| e.kind == Kind::Closing);
        match how {
            How::Follow | How::Lag => {
                let replica = Replica::of(entries);
                broken.extend(replica.superfluous(&log, &[]));
                broken.extend(replica.missing(&log));
                scenario.counted.add("shown to followers", replica.shown);
                scenario.counted.add("reported as voided", replica.voided);
                scenario
                    .counted
                    .add("reported as truncated at the front", replica.passed);
                broken.extend(replica.broken);
            }
            How::Scan => scenario.counted.add("scans", rounds.count() as u64),
            How::Walk => scenario.counted.add("inspections", rounds.count() as u64),
        }
        if shown == 0 && *how != How::Walk {
            broken.push("was shown nothing".to_owned());
        }
        for broken in broken.iter().take(3) {
            scenario
                .counted
                .breaks(format!("{method}, {how:?}: {broken}"));
        }
    }
    std::fs::remove_file(&stop)?;
    std::fs::remove_dir_all(&scenario.dir)?;
    Ok(scenario.counted)
}

/// Returns true if a reader ended before the suite stopped it.
fn over(readers: &mut [(How, Started)]) -> Result<bool> {
    for (_, reader) in readers {
        if reader.has_ended()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The power goes while a follower follows: the log has what it was shown.
fn cut(
    home: &Path,
    filesystem: Filesystem,
    disks: &Disks,
    method: Method,
    fault: Fault,
    seed: u64,
) -> Result<Counted> {
    let mut rng = Rng::new(seed);
    let mut counted = Counted::default();
    let stable = &disks.stable;
    let ledger = SubjectLedger::new()?;
    let settings = Settings::honest(rng.bits(), rng.pick(&[0, 30, 50]));
    let switched = disks.switched(filesystem, ledger.image(), settings);
    let mut powered = Powered::on(switched, home, None)?;
    let dir = powered.mounted().context("a disk that stays dark")?;
    let dir = dir.join("log");
    let mut workload = Workload::new(&dir, method, 1, rng.bits());
    workload.job.demanding = true;
    workload.job.fault = fault;
    let stop = home.join(format!("stop-{seed:x}"));
    let reading = Reading {
        dir,
        ledger: ledger_path(),
        thread: CONTROL + 1,
        how: How::Follow,
        fault: Fault::None,
        stop: stop.clone(),
        seed: rng.bits(),
    };
    let mut writer = Started::with(ledger.try_clone()?, Role::Work, &workload, User::Root)?;
    writer.until(Kind::Opened, 1)?;
    let mut reader = Started::with(ledger.try_clone()?, Role::Read, &reading, User::Root)?;
    let waited = reader.until(Kind::Shown, 30 + rng.below(300))?;
    if waited != Waited::There {
        let stderr = reader.stderr();
        counted.breaks(format!("before a cut the reader is {waited:?}: {stderr}"));
    }
    let report = powered.cut(Cut {
        survival: Survival {
            seed: rng.bits(),
            // Whole blocks: a tear inside of one may take the filesystem itself, which live cuts and
            // replayed states count apart, and which would end this.
            grain: 4096,
            keep: rng.pick(&[0, 0, 50]),
        },
    })?;
    std::fs::File::create(&stop)?;
    // Their disk is gone: an error is right, a panic is a finding.
    for process in [&mut writer, &mut reader] {
        if let Some(bad) = process.end(false)? {
            counted.breaks(format!("when the disk was gone: {bad}"));
        }
    }
    powered.off()?;
    std::fs::remove_file(&stop)?;
    let claimed = ledger.entries(&report.counters)?;
    let shown = Replica::of(&claimed[CONTROL + 1]);
    let mut promises = Promises::default();
    promises.add(Session {
        number: 1,
        claimed,
        all: writer.entries()?,
    });
    let (mut allowed, begun) = promises.truncated_back();
    allowed.extend(begun);
    let mounted = Mounted::image(filesystem, stable, home)?;
    let opening = Opening {
        method,
        claims: Guarantee::PowerLoss,
    };
    let outcome = check(&mounted.path().join("log"), opening, &mut promises)?;
    mounted.unmount()?;
    if fault == Fault::None
        && let Some(why) = &outcome.filesystem_lost
    {
        counted.breaks(format!("{method}: the filesystem is lost: {why}"));
    }
    counted.add("lost", outcome.lost);
    counted.add("cuts", 1);
    counted.add("shown before a cut", shown.shown);
    let log = promises.base.unwrap_or_default();
    let gone = shown.superfluous(&log, &allowed);
    counted.add("shown and gone", gone.len() as u64);
    for broken in gone.into_iter().take(5).chain(outcome.broken) {
        counted.breaks(format!("{method}: {broken}"));
    }
    Ok(counted)
}

/// Cuts of each filesystem.
const CUTS: [Method; 5] = [
    Method::DirectDsync,
    Method::Fdatasync,
    Method::Dsync,
    Method::DirectFdatasync,
    Method::DirectDsync,
];

/// On a mounted filesystem, where only processes are killed.
fn mounted(home: &Path, filesystem: Filesystem, sessions: u64, rng: &mut Rng) -> Result<Counted> {
    let mut row = Counted::default();
    let image = filesystem.make()?;
    let mounted = Mounted::image(filesystem, &image, home)?;
    for (fault, name) in [
        (Fault::Blind, "reads find zeroes"),
        (Fault::Stale, "reads of the control file are stale"),
    ] {
        let method = Method::DirectDsync;
        let part = beside(mounted.path(), home, method, fault, 4, rng.bits())?;
        row.caught(name, &part.broken);
    }
    for (method, sessions) in [
        (Method::DirectDsync, sessions),
        (Method::Fdatasync, sessions.div_ceil(2)),
        (Method::Buffered, sessions.div_ceil(2)),
    ] {
        let fault = Fault::None;
        let part = beside(mounted.path(), home, method, fault, sessions, rng.bits())?;
        row.take(&part);
    }
    mounted.unmount()?;
    Ok(row)
}

/// Over the disk whose plug can be pulled.
fn pulled(home: &Path, filesystem: Filesystem, rng: &mut Rng) -> Result<Counted> {
    let mut row = Counted::default();
    let template = filesystem.make()?;
    let disks = Disks::new(filesystem.size())?;
    let mut pull = |method, fault| {
        disks.stable.copy_from(&template)?;
        cut(home, filesystem, &disks, method, fault, rng.bits())
    };
    let mut found = Vec::new();
    for _ in 0..5 {
        if found.is_empty() {
            found = pull(Method::DirectDsync, Fault::Forgetful)?.broken;
            found.retain(|f| f.contains("shown and gone"));
        }
    }
    row.caught("shown before it was forced", &found);
    for method in CUTS {
        row.take(&pull(method, Fault::None)?);
    }
    Ok(row)
}

/// Each filesystem; a row for each.
///
/// # Errors
/// Errors of the machine.
pub fn run(home: &Path, plan: &Plan) -> Result<Vec<Counted>> {
    let sessions = plan.readers;
    let mut rows = in_halves("readers", plan.seed ^ 0x4EAD, |filesystem, half, seed| {
        let mut rng = Rng::new(seed);
        match half {
            0 => mounted(home, filesystem, sessions, &mut rng),
            _ => pulled(home, filesystem, &mut rng),
        }
    })?;
    for row in &mut rows {
        row.demand("writers killed", 2 * sessions);
        row.demand("cuts", CUTS.len() as u64);
        row.demand("shown to followers", 20 * sessions);
        row.demand("reported as voided", 1);
        row.demand("reported as truncated at the front", 1);
        row.demand("scans", 1);
        row.demand("inspections", 1);
    }
    Ok(rows)
}
