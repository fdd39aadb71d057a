//! Single operations of the disk fail: the nth write, flush or read is answered by EIO, once or
//! from then on, while the log recovers and works.
//!
//! The log has to end by itself, without a panic and without waiting for ever. Then the power goes,
//! and on a good disk everything has to be there that was acknowledged, whatever the filesystem
//! answered after the error: a sync that succeeds on a second try has lost what the first one had
//! to write. The kernel's filesystem may have gone read-only; that is its right.

use super::{Counted, FILESYSTEMS, Plan, in_halves};
use crate::check::{Opening, Promises, Session, check};
use crate::ledger::{Entry, Kind, SubjectLedger};
use crate::started::{Role, Started, User, Waited, Workload};
use crate::subject::seam::Fault;
use anyhow::{Context, Result};
use logforce::{Guarantee, Method};
use logforce_crashtest::disk::{Command, Cut, CutReport, Fail, FailKind, Settings, Survival};
use logforce_crashtest::outage::Disks;
use logforce_crashtest::testbed::{Filesystem, Image, Mounted, Powered, Unmountable};
use logforce_testkit::Rng;
use std::fmt;
use std::path::Path;

/// Commits after which a subject ends that no error reached.
const COMMITS: u64 = 150;

/// The methods that force.
const METHODS: [Method; 5] = [
    Method::DirectDsync,
    Method::Fdatasync,
    Method::Dsync,
    Method::DirectFdatasync,
    Method::Fsync,
];

const KINDS: [FailKind; 3] = [FailKind::Write, FailKind::Flush, FailKind::Read];

/// Filesystem with a log that a cut left, from which each run starts.
struct Testbed<'a> {
    filesystem: Filesystem,
    home: &'a Path,
    disks: Disks,
    base: Image,
    promises: Promises,
    session: u64,
    rng: Rng,
}

/// Failing operation, and the moment from which operations are counted.
#[derive(Debug, Clone, Copy)]
struct Failure {
    fail: Fail,
    /// Number of acknowledgements before the moment; 0 is before the log is opened.
    from: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fail { kind, nth, on } = self.fail;
        let on = if on { " and all that follow" } else { "" };
        write!(
            f,
            "{kind:?} {nth}{on}, counted from {} commits on",
            self.from
        )
    }
}

/// Result of a session on the disk.
struct Ended {
    report: CutReport,
    session: Session,
    /// Description of a wrong end.
    bad: Option<String>,
}

impl<'a> Testbed<'a> {
    fn new(home: &'a Path, filesystem: Filesystem, seed: u64) -> Result<Testbed<'a>> {
        let mut testbed = Testbed {
            filesystem,
            home,
            disks: Disks::new(filesystem.size())?,
            base: filesystem.make()?,
            promises: Promises::default(),
            session: 0,
            rng: Rng::new(seed),
        };
        // The log as it is found: not closed, so that there is something to recover.
        let first = testbed.run_session(Method::DirectDsync, Fault::None, None)?;
        testbed.promises.add(first.session);
        let stable = &testbed.disks.stable;
        testbed.base.copy_from(stable)?;
        Ok(testbed)
    }

    /// Runs a session of a subject on a copy of the base, and cuts the power when it has ended.
    fn run_session(
        &mut self,
        method: Method,
        fault: Fault,
        failure: Option<Failure>,
    ) -> Result<Ended> {
        self.session += 1;
        let stable = &self.disks.stable;
        stable.copy_from(&self.base)?;
        let ledger = SubjectLedger::new()?;
        let settings = Settings::honest(self.rng.bits(), self.rng.pick(&[0, 20]));
        let switched = self
            .disks
            .switched(self.filesystem, ledger.image(), settings);
        let mut powered = Powered::on(switched, self.home, None)?;
        let dir = powered.mounted().context("a disk that stays dark")?;
        let mut workload = Workload::new(&dir.join("log"), method, self.session, self.rng.bits());
        workload.job.demanding = true;
        workload.job.fault = fault;
        workload.job.commits = COMMITS;
        if let Some(Failure { fail, from: 0 }) = failure {
            powered.send(Command::Fail(fail))?;
        }
        let theirs = ledger.try_clone()?;
        let mut subject = Started::with(theirs, Role::Work, &workload, User::Root)?;
        if let Some(Failure { fail, from }) = failure
            && from > 0
            && subject.until(Kind::Acked, from)? == Waited::There
        {
            powered.send(Command::Fail(fail))?;
        }
        let bad = match failure {
            Some(_) => subject.end(false)?,
            None => {
                subject.until(Kind::Acked, COMMITS / 2)?;
                subject.kill()?;
                None
            }
        };
        let report = powered.cut(Cut {
            survival: Survival {
                seed: self.rng.bits(),
                // Whole blocks. After an error of the disk xfs leaves its own metadata unflushed,
                // and takes a torn block of it for a new one (its header says so) when it replays
                // its journal: then it does not mount. That is not what is looked for here.
                grain: 4096,
                keep: self.rng.pick(&[0, 0, 50]),
            },
        })?;
        powered.off()?;
        let session = Session {
            number: self.session,
            claimed: ledger.entries(&report.counters)?,
            all: subject.entries()?,
        };
        Ok(Ended {
            report,
            session,
            bad,
        })
    }

    /// Runs a session in which one operation fails, or all from one on.
    fn run(&mut self, method: Method, fault: Fault, failure: Failure) -> Result<Counted> {
        let mut run = Counted::default();
        let ended = self.run_session(method, fault, Some(failure))?;
        run.add("operations failed", ended.report.failed);
        if ended.report.failed == 0 {
            run.add("runs without a failure", 1);
        } else {
            run.add("runs", 1);
            run.add(met(&ended.session), 1);
        }
        let named = format!("{method}, {failure}");
        if let Some(bad) = &ended.bad {
            run.breaks(format!("{named}: {bad}"));
        }
        for entries in &ended.session.all {
            if acknowledged_after_failure(entries) {
                run.breaks(format!("{named}: a thread went on after the log failed"));
            }
        }
        let mut promises = self.promises.clone();
        promises.add(ended.session);
        let stable = &self.disks.stable;
        self.filesystem.check_at_boot(stable)?;
        let mounted = match Mounted::image(self.filesystem, stable, self.home) {
            // Not of a bug that is planted: it has to be caught by the comparison.
            Err(e) if fault == Fault::None && e.is::<Unmountable>() => {
                run.breaks(format!("{named}: {e:#}"));
                return Ok(run);
            }
            mounted => mounted.context(named.clone())?,
        };
        let opening = Opening {
            method,
            claims: Guarantee::PowerLoss,
        };
        let log = mounted.path().join("log");
        let outcome = check(&log, opening, &mut promises)?;
        mounted.unmount()?;
        run.add("acknowledged", outcome.acknowledged);
        run.add("lost", outcome.lost);
        for broken in outcome.broken {
            run.breaks(format!("{named}: {broken}"));
        }
        Ok(run)
    }
}

/// Returns the effect of the error on the log.
fn met(session: &Session) -> &'static str {
    if session.all(Kind::Failed).next().is_some() {
        "logs that stopped"
    } else if session.all(Kind::Opened).next().is_none() {
        "openings refused"
    } else {
        "logs that never noticed"
    }
}

/// Returns true if a thread was promised something by a log that it had seen fail.
fn acknowledged_after_failure(entries: &[Entry]) -> bool {
    let failed = entries.iter().position(|e| e.kind == Kind::Failed);
    let acked = |e: &Entry| matches!(e.kind, Kind::Acked | Kind::Forced);
    failed.is_some_and(|at| entries[at..].iter().any(acked))
}

/// Each filesystem; a row for each.
///
/// # Errors
/// Errors of the machine.
pub fn run(home: &Path, plan: &Plan) -> Result<Vec<Counted>> {
    let each = plan.errors.div_ceil(2 * FILESYSTEMS.len() as u64);
    let name = "errors of the disk";
    let mut rows = in_halves(name, plan.seed ^ 0xE10, |filesystem, half, seed| {
        let mut testbed = Testbed::new(home, filesystem, seed)?;
        let mut row = Counted::default();
        let kind = [FailKind::Write, FailKind::Flush][half];
        let mut found = Vec::new();
        for nth in [40, 20, 60, 10] {
            let on = true;
            let fail = Fail { kind, nth, on };
            let failure = Failure { fail, from: 5 };
            if found.is_empty() {
                found = testbed
                    .run(Method::DirectDsync, Fault::ErrorsIgnored, failure)?
                    .broken;
            }
        }
        row.caught(&format!("{kind:?} errors pass for success"), &found);
        let mut round = 0;
        while row.count("runs") < each && row.broken.len() <= 5 && round < each {
            round += 1;
            for failure in failures(round, &mut testbed.rng) {
                // Once, and from then on: one for each half.
                if failure.fail.on == (half == 1) {
                    let method = testbed.rng.pick(&METHODS);
                    row.take(&testbed.run(method, Fault::None, failure)?);
                }
            }
        }
        Ok(row)
    })?;
    for row in &mut rows {
        row.demand("runs", 2 * each);
        row.demand("operations failed", 2 * each);
        row.demand("logs that stopped", each / 2);
    }
    Ok(rows)
}

/// Rounds in which the nth operation is that of the round.
const EVERY: u64 = 6;

/// Returns the operation that fails in a round: in the first rounds each in turn, then later ones. Reads happen while
/// a log is opened, and are few.
fn failures(round: u64, rng: &mut Rng) -> Vec<Failure> {
    let mut failures = Vec::new();
    for kind in KINDS {
        for on in [false, true] {
            for from in [0, 5] {
                let nth = match kind {
                    FailKind::Read if from > 0 || round > EVERY => continue,
                    _ if round <= EVERY => round,
                    FailKind::Flush => EVERY + 1 + rng.below(30),
                    _ => EVERY + 1 + rng.below(80),
                };
                let fail = Fail { kind, nth, on };
                failures.push(Failure { fail, from });
            }
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_of_the_first_operations_fails() {
        let mut rng = Rng::new(1);
        for round in 1..=EVERY {
            let failures = failures(round, &mut rng);
            assert_eq!(failures.len(), 10);
            assert!(failures.iter().all(|t| t.fail.nth == round));
        }
        let later = failures(EVERY + 1, &mut rng);
        assert_eq!(later.len(), 8);
        assert!(later.iter().all(|t| t.fail.nth > EVERY));
    }

    #[test]
    fn a_promise_after_a_failure_is_seen() {
        let entries = |kinds: &[Kind]| kinds.iter().map(|k| Entry::of(*k)).collect::<Vec<_>>();
        let after = |kinds: &[Kind]| acknowledged_after_failure(&entries(kinds));
        assert!(!after(&[Kind::Acked, Kind::Failed]));
        assert!(!after(&[Kind::Acked, Kind::RecordRange]));
        assert!(after(&[Kind::Acked, Kind::Failed, Kind::Acked]));
        assert!(after(&[Kind::Failed, Kind::Forced]));
    }
}
