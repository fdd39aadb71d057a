//! A disk that is full: for root and for an unprivileged user, on filesystems that overwrite in
//! place and on one that does not.
//!
//! A log that gives nothing back fills it with many threads, until it refuses; it is killed then,
//! and opened again, while the disk is still full; it continues when another process's file shrinks,
//! and when its own front moves. Over the disk whose plug can be pulled it is cut while it is full.
//! Nothing that was acknowledged may be missing after any of that. In place, nothing may poison
//! the log: space is refused before anything is accepted. Where every write goes to a new place a
//! prepared segment can find no space either; there the log may stop, and be opened again.

use super::filler::{self, Filler};
use super::{Counted, FILESYSTEMS, Plan, in_halves};
use crate::check::{Opening, Promises, Session, check};
use crate::ledger::{Kind, SubjectLedger};
use crate::started::{NOBODY, Role, Started, TIMEOUT, User, Waited, Workload};
use crate::subject::Space;
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce::{Guarantee, Method};
use logforce_crashtest::disk::{Cut, Settings, Survival};
use logforce_crashtest::outage::Disks;
use logforce_crashtest::testbed::{Filesystem, Mounted, Powered};
use logforce_testkit::Rng;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that are left to the log.
const ROOM: u64 = 3 << 20;

/// Refusals by which a log has met the end of the space.
const REFUSED: u64 = 30;

/// Acknowledgements by which a log continues.
const CONTINUED: u64 = 50;

/// A log on a full disk, and what it was promised.
struct Scenario<'a> {
    filesystem: Filesystem,
    user: User,
    method: Method,
    fault: Fault,
    dir: PathBuf,
    disk: &'a Path,
    promises: Promises,
    rng: Rng,
    session: u64,
    counted: Counted,
}

impl Scenario<'_> {
    fn in_place(&self) -> bool {
        self.filesystem != Filesystem::Btrfs
    }

    fn breaks(&mut self, what: &str) {
        let (user, method, session) = (self.user.name(), self.method, self.session);
        self.counted
            .breaks(format!("{user}, {method}, session {session}: {what}"));
    }

    fn workload(&mut self, space: Space, commits: u64) -> Workload {
        self.session += 1;
        let mut workload = Workload::new(&self.dir, self.method, self.session, self.rng.bits());
        workload.job.fault = self.fault;
        workload.job.commits = commits;
        workload.space = space;
        workload
    }

    fn start(&mut self, space: Space, commits: u64) -> Result<Started> {
        let workload = self.workload(space, commits);
        Started::new(Role::Work, &workload, self.user)
    }

    /// Waits for what has to come. A process that ended before is for [`finish`](Self::finish).
    fn wait(&mut self, subject: &mut Started, kind: Kind, count: u64) -> Result<bool> {
        let waited = subject.until(kind, count)?;
        if waited == Waited::Hung {
            let there = subject.count(kind)?;
            self.breaks(&format!("{there} of {count} {kind:?} and no more come"));
        }
        Ok(waited == Waited::There)
    }

    /// The end of a session, by a kill if it goes on.
    fn finish(&mut self, mut subject: Started, must_succeed: bool) -> Result<()> {
        subject.kill()?;
        let session = subject.session(self.session)?;
        let poisoned = session.all(Kind::Failed).next().is_some();
        let opened = session.all(Kind::Opened).next().is_some();
        self.counted
            .add("refusals", session.all(Kind::Refused).count() as u64);
        self.counted.add("sessions", 1);
        if poisoned || (!opened && !self.in_place()) {
            self.counted.add("stopped for lack of space", 1);
            if self.in_place() {
                self.breaks(&format!("lack of space poisoned it: {}", subject.stderr()));
            }
        } else if subject.status_is_bad(must_succeed || self.in_place()) {
            self.breaks(&format!("the process ended: {}", subject.stderr()));
        }
        self.promises.add(session);
        Ok(())
    }

    /// Compares what is there.
    fn check_log(&mut self) -> Result<()> {
        let opening = Opening {
            method: self.method,
            claims: Guarantee::ProcessCrash,
        };
        let outcome = check(&self.dir, opening, &mut self.promises)?;
        self.counted.add("looks", 1);
        self.counted.add("acknowledged", outcome.acknowledged);
        self.counted.add("lost", outcome.lost);
        for broken in outcome.broken {
            self.breaks(&broken);
        }
        if self.user == User::Nobody {
            // What this process made is its owner's, too.
            for entry in fs::read_dir(&self.dir)? {
                chown(entry?.path(), Some(NOBODY), Some(NOBODY))?;
            }
        }
        Ok(())
    }

    /// Acknowledgements have to come again, more than there were.
    fn continues(&mut self, subject: &mut Started, what: &'static str) -> Result<()> {
        let there = subject.count(Kind::Acked)?;
        if self.wait(subject, Kind::Acked, there + CONTINUED)? {
            self.counted.add(what, 1);
        } else if self.in_place() {
            self.breaks(&format!("{what}: not"));
        }
        Ok(())
    }

    fn run(mut self) -> Result<Counted> {
        self.fill_and_kill()?;
        if self.fault != Fault::None {
            return Ok(self.counted);
        }
        self.another_file_shrinks()?;
        self.the_front_moves()?;
        // On a disk with space it works as ever.
        let mut subject = self.start(Space::Little, 100)?;
        if let Some(bad) = subject.end(true)? {
            self.breaks(&format!("with space again: {bad}"));
        }
        self.finish(subject, true)?;
        self.check_log()?;
        Ok(self.counted)
    }

    /// Killed while full, opened while full, and killed again.
    fn fill_and_kill(&mut self) -> Result<()> {
        let mut filler = Filler::new(self.disk, ROOM)?;
        for _ in 0..3 {
            let mut subject = self.start(Space::All, 0)?;
            if self.wait(&mut subject, Kind::Refused, REFUSED)? {
                self.counted.add("killed while full", 1);
            }
            self.finish(subject, false)?;
            if self.in_place() {
                self.check_log()?;
            } else {
                // To open it takes space, there.
                filler.remove()?;
                self.check_log()?;
                filler = Filler::new(self.disk, ROOM)?;
            }
            if !self.counted.broken.is_empty() {
                break;
            }
        }
        filler.remove()
    }

    /// Another file shrinks while the log is refused.
    fn another_file_shrinks(&mut self) -> Result<()> {
        let filler = Filler::new(self.disk, ROOM)?;
        let mut subject = self.start(Space::All, 0)?;
        let refused = self.wait(&mut subject, Kind::Refused, REFUSED)?;
        let filler = filler.release(2 * ROOM)?;
        if refused {
            self.continues(&mut subject, "went on when a file shrank")?;
        }
        self.finish(subject, false)?;
        filler.remove()?;
        self.check_log()
    }

    /// The log's own front moves, again and again, while it is refused.
    fn the_front_moves(&mut self) -> Result<()> {
        let filler = Filler::new(self.disk, ROOM)?;
        let mut subject = self.start(Space::UntilFull, 0)?;
        for round in 1..=3 {
            if self.in_place() {
                if !self.wait(&mut subject, Kind::FrontDone, round)? {
                    break;
                }
            } else if subject.until_within(Kind::FrontDone, round, TIMEOUT / 8)? != Waited::There {
                // To move the front takes a write, and there a write takes space.
                self.counted.add("the front could not move", 1);
                break;
            }
            self.continues(&mut subject, "went on when the front moved")?;
        }
        self.finish(subject, false)?;
        filler.remove()?;
        self.check_log()
    }
}

/// On a mounted filesystem, where only processes are killed.
fn killed(
    home: &Path,
    filesystem: Filesystem,
    user: User,
    fault: Fault,
    seed: u64,
) -> Result<Counted> {
    let image = filesystem.make()?;
    let mounted = Mounted::image(filesystem, &image, home)?;
    let mut rng = Rng::new(seed);
    let mut counted = Counted::default();
    let methods = match fault {
        Fault::None => &[Method::DirectDsync, Method::Fdatasync, Method::Buffered][..],
        _ => &[Method::DirectDsync],
    };
    let empty = free(mounted.path())?;
    for method in methods {
        let own = mounted.path().join(format!("{method}-{}", user.name()));
        fs::create_dir(&own)?;
        if user == User::Nobody {
            chown(&own, Some(NOBODY), Some(NOBODY))?;
        }
        let scenario = Scenario {
            filesystem,
            user,
            method: *method,
            fault,
            dir: own.join("log"),
            disk: mounted.path(),
            promises: Promises::default(),
            rng: Rng::new(rng.bits()),
            session: 0,
            counted: Counted::default(),
        };
        counted.take(&scenario.run()?);
        fs::remove_dir_all(&own)?;
        wait_until_freed(mounted.path(), empty)?;
    }
    mounted.unmount()?;
    Ok(counted)
}

/// Free bytes.
fn free(disk: &Path) -> Result<u64> {
    let all = rustix::fs::statvfs(disk)?;
    Ok(all.f_bavail * all.f_frsize)
}

/// xfs gives the blocks of removed files back in the background: waits until the disk is about as
/// empty as it was.
fn wait_until_freed(disk: &Path, empty: u64) -> Result<()> {
    let until = Instant::now() + TIMEOUT / 8;
    while free(disk)? < empty / 4 * 3 && Instant::now() < until {
        let _ = rustix::fs::syncfs(&fs::File::open(disk)?);
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Over the disk whose plug can be pulled: the power goes while the disk is full.
fn cut(
    home: &Path,
    filesystem: Filesystem,
    method: Method,
    fault: Fault,
    seed: u64,
) -> Result<Counted> {
    let disks = Disks::new(filesystem.size())?;
    let stable = &disks.stable;
    stable.copy_from(&filesystem.make()?)?;
    let ledger = SubjectLedger::new()?;
    let mut rng = Rng::new(seed);
    let settings = Settings::honest(rng.bits(), rng.pick(&[0, 30]));
    let switched = disks.switched(filesystem, ledger.image(), settings);
    let mut powered = Powered::on(switched, home, None)?;
    let Some(disk) = powered.mounted().map(Path::to_owned) else {
        anyhow::bail!("a disk that stays dark");
    };
    // What lies in it has to be found by the cut's survivor as well.
    let _filler = Filler::new(&disk, ROOM)?;
    let mut scenario = Scenario {
        filesystem,
        user: User::Root,
        method,
        fault,
        dir: disk.join("log"),
        disk: &disk,
        promises: Promises::default(),
        rng,
        session: 0,
        counted: Counted::default(),
    };
    let workload = scenario.workload(Space::All, 0);
    let mut subject = Started::with(ledger.try_clone()?, Role::Work, &workload, User::Root)?;
    // A full btrfs writes everything again and again while it looks for space, and would
    // hide that the log did not ask for it.
    let full = match fault {
        Fault::None => scenario.wait(&mut subject, Kind::Refused, REFUSED)?,
        _ => scenario.wait(&mut subject, Kind::Acked, 3 * CONTINUED)?,
    };
    let ended = subject.has_ended()?;
    let report = powered.cut(Cut {
        survival: Survival {
            seed: scenario.rng.bits(),
            // Whole blocks: a tear inside of one may take the filesystem itself, which live cuts and
            // replayed states count apart, and which would end this.
            grain: 4096,
            keep: scenario.rng.pick(&[0, 0, 50]),
        },
    })?;
    if let Some(bad) = subject.end(false)? {
        scenario.breaks(&bad);
    }
    powered.off()?;
    if full || ended {
        scenario.counted.add("cut while full", 1);
    }
    scenario.promises.add(Session {
        number: scenario.session,
        claimed: ledger.entries(&report.counters)?,
        all: subject.entries()?,
    });
    filesystem.check_at_boot(stable)?;
    let mounted = Mounted::image(filesystem, stable, home)?;
    if !scenario.in_place() {
        filler::remove_left(mounted.path())?;
    }
    scenario.dir = mounted.path().join("log");
    let opening = Opening {
        method,
        claims: Guarantee::PowerLoss,
    };
    let outcome = check(&scenario.dir, opening, &mut scenario.promises)?;
    scenario.counted.add("acknowledged", outcome.acknowledged);
    scenario.counted.add("lost", outcome.lost);
    if fault == Fault::None
        && let Some(why) = outcome.filesystem_lost
    {
        scenario.breaks(&format!("cut: the filesystem is lost: {why}"));
    }
    for broken in outcome.broken {
        scenario.breaks(&format!("cut: {broken}"));
    }
    let counted = scenario.counted;
    mounted.unmount()?;
    Ok(counted)
}

/// Cuts of each filesystem.
const CUTS: [Method; 4] = [
    Method::DirectDsync,
    Method::Fdatasync,
    Method::Dsync,
    Method::DirectDsync,
];

/// Each filesystem, each user; a row for each filesystem.
///
/// # Errors
/// Errors of the machine.
pub fn run(home: &Path, plan: &Plan) -> Result<Vec<Counted>> {
    let name = "full disk";
    let mut rows = in_halves(name, plan.seed ^ 0xF011, |filesystem, half, seed| {
        let mut row = Counted::default();
        let mut rng = Rng::new(seed);
        if half == 0 {
            // A full btrfs may find some space just when it is asked to, and no error comes.
            let mut found = Vec::new();
            for _ in 0..20 {
                if found.is_empty() {
                    let seed = rng.bits();
                    found =
                        killed(home, filesystem, User::Nobody, Fault::ErrorsIgnored, seed)?.broken;
                }
            }
            row.caught("errors pass for success on a full disk", &found);
            for method in CUTS {
                row.take(&cut(home, filesystem, method, Fault::None, rng.bits())?);
            }
        } else {
            let method = Method::DirectDsync;
            let forgetful = cut(home, filesystem, method, Fault::Forgetful, rng.bits())?;
            row.caught("no force reaches the disk", &forgetful.broken);
        }
        let user = [User::Root, User::Nobody][half];
        row.take(&killed(home, filesystem, user, Fault::None, rng.bits())?);
        Ok(row)
    })?;
    for (row, filesystem) in rows.iter_mut().zip(FILESYSTEMS) {
        row.demand("cut while full", CUTS.len() as u64);
        row.demand("refusals", REFUSED);
        if filesystem != Filesystem::Btrfs {
            // Three methods, two users.
            row.demand("killed while full", 3 * 3 * 2);
            row.demand("went on when a file shrank", 3 * 2);
            row.demand("went on when the front moved", 3 * 3 * 2);
        }
    }
    Ok(rows)
}
