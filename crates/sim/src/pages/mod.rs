//! Random runs of a page file, each determined by a seed: both commit modes, threads, options,
//! disks, failures, crashes inside recovery, and what the file shows of a corrupted copy.
//!
//! The model ([`model`]) knows only the results of the calls. From them it derives which state the file
//! may show after a failure: the state after the last acknowledged commit or a later one. Every commit is
//! whole or absent, and all snapshots agree on one order.

mod coverage;
mod damage;
pub mod model;
mod setup;
pub mod workload;

pub use coverage::Coverage;

use crate::workload::{FailureReport, forget_reports, is_quiet, random_failing_calls};
use logforce_core::OpenMode;
use logforce_device::{FilesystemKind, Runtime};
use logforce_pages::{CommitMode, Error, ErrorKind, Options, PageFile};
use logforce_testkit::{Call, Failure, Fault, Refusal, Rng, SimDisk, SimOptions, SimRuntime};
use model::{History, State};
use setup::Fixed;
use std::sync::{Arc, Mutex};
use workload::{Notes, Work};

/// Directory of the page file.
const PATH: &str = "/db";

/// Least number of calls of the page file in a run.
pub const CALLS: u64 = 60;

/// A run in progress.
struct Run {
    name: String,
    disk: SimDisk,
    fixed: Fixed,
    /// Options of the boot.
    options: Options,
    rng: Rng,
    /// Generator that draws the calls that fail for a while. It is separate from `rng`, so that these calls
    /// do not change a run before the first of them fails.
    failing_rng: Rng,
    coverage: Coverage,
    /// Durable state, and its commit.
    base: State,
    base_commit: u64,
    stamp: u64,
}

/// Makes the run of a seed, and returns its coverage.
///
/// # Panics
/// If the page file does not show what it must. The message names what was seen.
pub fn run(seed: u64) -> Coverage {
    let mut rng = Rng::new(seed ^ 0x9a6e_f11e);
    let disk = SimOptions {
        log_lines: if is_quiet() { 0 } else { 400 },
        ..SimOptions::random(seed)
    };
    let fixed = Fixed::random(&mut rng);
    let mut run = Run {
        name: format!("seed {seed}, {:?}", fixed.mode),
        options: fixed.options(&mut rng, &disk),
        disk: SimDisk::new(disk, seed),
        fixed,
        rng,
        failing_rng: Rng::new(seed ^ 0x7b0b_13e5),
        coverage: Coverage::default(),
        base: State::default(),
        base_commit: 0,
        stamp: 0,
    };
    let boots = 2 + run.rng.below(4);
    let mut boot = 0;
    while boot < boots || run.coverage.calls < CALLS {
        if boot > 0 && run.rng.one_in(3) {
            run.change_device();
        }
        let notes = run.work(boot);
        let failure = run.crash();
        run.recover(boot, notes, failure);
        // All panics so far were intended.
        forget_reports();
        boot += 1;
    }
    run.coverage.runs = 1;
    run.coverage.logged = u64::from(run.fixed.mode == CommitMode::Logged);
    run.coverage.note_faults(&run.disk.faults());
    run.coverage
}

impl Run {
    fn report(&self, what: &str) -> FailureReport {
        FailureReport::new(self.disk.clone(), format!("{}, {what}", self.name))
    }

    /// Moves the file to a device with other sectors, and opens it with other options.
    fn change_device(&mut self) {
        let physical = self.rng.pick(&[4096, 4096, 8192, 16384]);
        self.disk.change(|o| o.physical_sector = physical);
        self.options = self.fixed.options(&mut self.rng, &self.disk.options());
    }

    /// Plans the faults during the next work. Returns whether the disk may be full, and whether calls may
    /// fail.
    fn plan_faults(&mut self, boot: u64) -> (bool, bool) {
        let (disk, rng) = (&self.disk, &mut self.rng);
        let (mut may_be_full, mut may_fail) = (false, false);
        if rng.one_in(4) {
            let fault = rng.pick(&[Fault::Io, Fault::Io, Fault::NoSpace]);
            disk.fail_at(rng.below(300), fault);
            may_be_full = fault == Fault::NoSpace;
            may_fail = true;
        }
        if rng.one_in(6) {
            let page = u64::from(self.fixed.page_size);
            let capacity = (200 << 10) + rng.below(256) * 1024 + page * rng.below(40);
            disk.change(|o| o.capacity = Some(capacity));
            may_be_full = true;
        }
        // Draws from a separate generator, so that the other choices of a seed stay the same.
        let mut aside = Rng::new(rng.clone().bits() ^ 0xf011_d15c);
        if self.fixed.mode == CommitMode::CopyOnWrite && !may_fail && aside.one_in(3) {
            let page = u64::from(self.fixed.page_size);
            let capacity = (132 << 10) + page * (8 + aside.below(60));
            disk.change(|o| o.capacity = Some(capacity));
            may_be_full = true;
        }
        if boot == 0 && rng.one_in(4) {
            // Fails while the file is created.
            disk.cut_at(rng.below(50));
        } else if !rng.one_in(3) {
            let within = rng.pick(&[60, 300, 900]);
            disk.cut_at(rng.below(within));
        }
        if self.failing_rng.one_in(4) {
            for mut failing in failing_calls(&mut self.failing_rng) {
                failing.after += self.failing_rng.pick(&[0, 100, 600]);
                disk.fail_calls(failing);
            }
            may_fail = true;
        }
        (may_be_full, may_fail)
    }

    fn new_notes(&self) -> Notes {
        Notes {
            history: History {
                base: self.base.clone(),
                base_commit: self.base_commit,
                ..History::default()
            },
            stamp: self.stamp,
            ..Notes::default()
        }
    }

    /// Performs a boot: opens, works in some threads, and perhaps closes. Returns the notes.
    fn work(&mut self, boot: u64) -> Notes {
        let (may_be_full, may_fail) = self.plan_faults(boot);
        let rng = &mut self.rng;
        let threads = rng.pick(&[1, 1, 2, 3]);
        let count = match threads {
            1 => 5 + rng.below(60),
            _ => 5 + rng.below(20),
        };
        let (schedule, work_seed, closes) = (rng.bits(), rng.bits(), rng.one_in(2));
        let is_logged = self.fixed.mode == CommitMode::Logged;
        let notes = self.new_notes();
        let facts = self.disk.options().facts();
        // Shrinking is sure to succeed only if overwriting needs no space, and no page shares a granule
        // with another.
        let can_shrink = !is_logged
            && threads == 1
            && !may_fail
            && facts.kind == FilesystemKind::InPlace
            && self.fixed.page_size >= facts.write_unit();
        // Draws from a separate generator, so that the other choices of a seed stay the same.
        let mut aside = Rng::new(schedule ^ 0xb10c_f111);
        let fills = is_logged
            && !may_fail
            && !may_be_full
            && facts.kind == FilesystemKind::InPlace
            && aside.one_in(3);
        let _report = self.report(&format!("boot {boot}"));
        if fills && aside.one_in(2) {
            match aside.one_in(2) {
                true => self.disk.copy_sparsely(PATH),
                false => self.disk.copy_by_reference(PATH),
            }
        }
        let may_be_full = may_be_full || fills;
        let (disk, universe) = (&self.disk, &self.fixed.universe);
        let noted = SimRuntime::run(schedule, |rt| {
            let system = disk.system(rt);
            let opened =
                PageFile::open(&*system, PATH, OpenMode::OpenOrCreate, self.options.clone());
            let file = match opened {
                Ok(file) => file,
                Err(e) => {
                    let has_reason = may_be_full || may_fail || disk.is_cut();
                    assert!(has_reason && says_nothing(&e), "{:?}: {e}", e.kind());
                    return None;
                }
            };
            if fills {
                // Records that a crash has left in the log may have lost their space.
                let _ = file.checkpoint();
            }
            let work = Arc::new(Work {
                file,
                universe: universe.clone(),
                notes: Mutex::new(notes),
                disk: disk.clone(),
                may_be_full,
                may_be_weak: is_logged || !may_be_full,
                may_fail,
                can_shrink,
                fills,
            });
            let joiners: Vec<_> = (0..threads)
                .map(|n| {
                    let (work, seed) = (work.clone(), work_seed ^ n);
                    let body = move || work.run(seed, count);
                    let joiner = rt.spawn("worker", Box::new(body));
                    joiner.expect("simulated threads start")
                })
                .collect();
            for joiner in joiners {
                joiner.join().expect("the run fails with its panic");
            }
            if closes {
                work.close();
            } else {
                // A kill: the file is not closed, and its threads must end.
                disk.cut();
            }
            let notes = std::mem::take(&mut *work.notes());
            Some(notes)
        });
        disk.change(|o| o.capacity = None);
        noted.unwrap_or_else(|| self.new_notes())
    }

    /// Ends the boot by a failure.
    fn crash(&mut self) -> Failure {
        let failure = self.rng.pick(&[
            Failure::Power,
            Failure::Power,
            Failure::Power,
            Failure::Os,
            Failure::Process,
        ]);
        self.disk.crash(failure, None, self.rng.bits());
        self.coverage.note_crash(failure);
        failure
    }

    fn open(&self, rt: &SimRuntime) -> Result<PageFile, Error> {
        let system = self.disk.system(rt);
        PageFile::open(&*system, PATH, OpenMode::OpenOrCreate, self.options.clone())
    }

    /// Opens while calls fail. The opening succeeds, or its error says nothing about the file.
    fn open_amid_failing_calls(&mut self, boot: u64) {
        while self.failing_rng.one_in(3) {
            let failing = failing_calls(&mut self.failing_rng);
            let _report = self.report(&format!("boot {boot}, opened while {failing:?}"));
            for failing in failing {
                self.disk.fail_calls(failing);
            }
            let schedule = self.failing_rng.bits();
            SimRuntime::run(schedule, |rt| match self.open(rt) {
                Ok(file) => {
                    let snapshot = file.snapshot().and_then(|s| {
                        let state = State::of(&s, &self.fixed.universe)?;
                        Ok((s.commit(), state))
                    });
                    match snapshot {
                        Ok((commit, _)) => assert!(commit >= self.base_commit),
                        Err(e) => assert!(says_nothing(&e), "{:?}: {e}", e.kind()),
                    }
                    self.disk.cut();
                }
                Err(e) => assert!(says_nothing(&e), "{:?}: {e}", e.kind()),
            });
            self.coverage.openings_amid_failing_calls += 1;
            self.disk.stop_failing_calls();
            let failure = self.failing_rng.pick(&[Failure::Power, Failure::Process]);
            self.disk.crash(failure, None, self.failing_rng.bits());
            self.coverage.note_crash(failure);
        }
    }

    /// Opens the file after the failure, perhaps with crashes inside the opening, and compares it with
    /// the notes.
    fn recover(&mut self, boot: u64, notes: Notes, failure: Failure) {
        self.open_amid_failing_calls(boot);
        while self.rng.one_in(3) {
            self.disk.cut_at(self.rng.below(40));
            let opened = SimRuntime::run(self.rng.bits(), |rt| self.open(rt).is_ok());
            self.coverage.crashes_in_recovery += u64::from(!opened);
            let next = self.rng.pick(&[Failure::Power, Failure::Process]);
            self.disk.crash(next, None, self.rng.bits());
            self.coverage.note_crash(next);
        }
        let crashed = self.disk.snapshot();
        let _report = self.report(&format!("boot {boot}, after {failure:?}"));
        let (schedule, closes) = (self.rng.bits(), self.rng.one_in(2));
        let universe = self.fixed.universe.clone();
        let (commit, found) = SimRuntime::run(schedule, |rt| {
            let file = self
                .open(rt)
                .unwrap_or_else(|e| panic!("{}: {e}", self.name));
            let snapshot = file.snapshot().expect("it is open");
            let commit = snapshot.commit();
            let found = State::of(&snapshot, &universe);
            let found = found.unwrap_or_else(|e| panic!("{}: {e}", self.name));
            assert_eq!(file.latest().expect("it is open").commit(), commit);
            self.compare(&notes, commit, &found);
            drop(snapshot);
            match closes {
                true => file
                    .close()
                    .unwrap_or_else(|e| panic!("{}: {e}", self.name)),
                false => self.disk.cut(),
            }
            (commit, found)
        });
        if !closes {
            let failure = self.rng.pick(&[Failure::Power, Failure::Process]);
            self.disk.crash(failure, None, self.rng.bits());
            self.coverage.note_crash(failure);
        }
        if self.rng.one_in(3) && commit > 0 {
            let recovered = self.disk.snapshot();
            self.disk.restore(&crashed);
            damage::corrupt_and_look(self, &notes, commit, &found);
            self.disk.restore(&recovered);
        }
        self.coverage.openings += 1;
        self.coverage.calls += notes.calls;
        self.coverage.commits += notes.history.done.len() as u64;
        self.coverage.conflicts += notes.conflicts;
        self.coverage.refused += notes.refused;
        self.coverage.shrunk += notes.shrunk;
        self.coverage.unknown += notes.unknown.len() as u64;
        self.stamp = notes.stamp;
        (self.base, self.base_commit) = (found, commit);
    }

    /// Compares the found state with the notes.
    fn compare(&mut self, notes: &Notes, commit: u64, found: &State) {
        let universe = &self.fixed.universe;
        assert!(
            commit >= notes.acknowledged.max(self.base_commit),
            "commit {} was acknowledged or found before, but {commit} is the last one",
            notes.acknowledged.max(self.base_commit)
        );
        let known = &notes.history;
        let seen = notes.seen.iter().map(|seen| (seen.commit, &seen.state));
        let explained = known.explain(&notes.unknown, (commit, found), seen, universe);
        let Some(history) = explained else {
            let difference = known.at(commit, universe).difference(found);
            let why = difference.map(|d| format!("expected, and found: {d}"));
            panic!(
                "no prefix of the commits gives the state of commit {commit}: {}",
                why.or_else(|| known.not_isolated(commit, universe))
                    .unwrap_or_default()
            );
        };
        // A full disk refuses commits whose numbers may have stayed unknown.
        if notes.unknown.is_empty() {
            let seen_wrong = history.not_isolated(commit, universe);
            assert_eq!(seen_wrong, None);
        }
        for seen in &notes.seen {
            assert!(
                !seen.is_durable || seen.commit <= commit,
                "a durable snapshot showed commit {}, but {commit} is left",
                seen.commit
            );
            let is_known =
                history.is_whole(seen.commit) || (seen.is_durable && notes.unknown.is_empty());
            if is_known {
                let then = history.at(seen.commit, universe);
                if let Some(difference) = then.difference(&seen.state) {
                    panic!(
                        "commit {} was shown with other contents: {difference}",
                        seen.commit
                    );
                }
                self.coverage.snapshots += 1;
            }
        }
    }
}

impl Work {
    /// Closes the file, which makes all commits durable.
    fn close(&self) {
        let closed = self.file.clone().close();
        let mut notes = self.notes();
        match closed {
            Ok(()) => {
                let last = notes.history.done.keys().next_back().copied();
                notes.acknowledged = notes.acknowledged.max(last.unwrap_or(0));
            }
            Err(e) => {
                let has_reason = self.may_fail || self.may_be_full || self.disk.is_cut();
                assert!(has_reason && says_nothing(&e), "{:?}: {e}", e.kind());
            }
        }
    }
}

/// Draws failing calls that leave no trace once they are over.
fn failing_calls(rng: &mut Rng) -> Vec<logforce_testkit::FailingCalls> {
    let mut all = random_failing_calls(rng);
    for failing in &mut all {
        // A read error of the medium that repeats counts as damage.
        if failing.how == Refusal::Medium && failing.calls == [Call::Read] {
            failing.failing = 1;
        }
    }
    all
}

/// Returns true if the error says nothing about the contents of the medium.
fn says_nothing(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Io | ErrorKind::Poisoned | ErrorKind::NoSpace | ErrorKind::Closed
    )
}
