//! SIGKILL at random points: while starting, while recovering what the last kill left, and while
//! many threads commit.
//!
//! The kernel stays up, so what counts is every acknowledgement that says `process-crash` or more,
//! under every method. Cannot be found here: what the kernel had not written to the disk.

use super::{Counted, FILESYSTEMS, Plan, in_halves};
use crate::check::{Opening, Promises, check};
use crate::ledger::Kind;
use crate::started::{Role, Started, User, Workload};
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce::{Guarantee, Method};
use logforce_crashtest::testbed::Mounted;
use logforce_testkit::Rng;
use std::path::Path;

/// Kills of one log, before another one is made: creation is killed too.
const CHAIN: u64 = 30;

/// One chain of sessions.
#[derive(Debug)]
struct Chain<'a> {
    dir: &'a Path,
    method: Method,
    fault: Fault,
    rng: Rng,
    promises: Promises,
    session: u64,
}

impl Chain<'_> {
    /// A session that is killed somewhere. Whether the kill met a working log.
    fn session(&mut self, counted: &mut Counted) -> Result<bool> {
        self.session += 1;
        let mut workload = Workload::new(self.dir, self.method, self.session, self.rng.bits());
        workload.job.fault = self.fault;
        let mut subject = Started::new(Role::Work, &workload, User::Root)?;
        if let Some(wrong) = subject.kill_anywhere(&mut self.rng, 250)? {
            counted.breaks(format!("{}: {wrong}", self.method));
        }
        let session = subject.session(self.session)?;
        if session.all(Kind::Failed).next().is_some() {
            counted.breaks(format!("{}: the log failed on a whole disk", self.method));
        }
        let met = session.all.iter().flatten().next().is_some();
        self.promises.add(session);
        Ok(met)
    }

    /// Opens the log in this process, which also shows that the lock is free, and compares.
    fn check_log(&mut self, counted: &mut Counted) -> Result<()> {
        let opening = Opening {
            method: self.method,
            claims: Guarantee::ProcessCrash,
        };
        let outcome = check(self.dir, opening, &mut self.promises)?;
        counted.add("looks", 1);
        counted.add("acknowledged", outcome.acknowledged);
        counted.add("lost", outcome.lost);
        counted.add("present", outcome.present);
        for broken in outcome.broken {
            counted.breaks(format!(
                "{}, session {}: {broken}",
                self.method, self.session
            ));
        }
        Ok(())
    }
}

/// Kills logs of one method until `kills` of them were working. Stops at what breaks.
fn cell(home: &Path, method: Method, fault: Fault, kills: u64, rng: &mut Rng) -> Result<Counted> {
    let mut counted = Counted::default();
    for number in 0.. {
        let dir = home.join(format!("{method}-{fault:?}-{number}"));
        let mut chain = Chain {
            dir: &dir,
            method,
            fault,
            rng: Rng::new(rng.bits()),
            promises: Promises::default(),
            session: 0,
        };
        while chain.session < CHAIN {
            // Some openings find what several sessions left.
            for _ in 0..=rng.below(4) {
                let met = chain.session(&mut counted)?;
                counted.add(
                    if met {
                        "kills"
                    } else {
                        "kills before it began"
                    },
                    1,
                );
            }
            chain.check_log(&mut counted)?;
            if counted.count("kills") >= kills || !counted.broken.is_empty() {
                return Ok(counted);
            }
        }
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(counted)
}

/// Kills that a known fault may take to be found.
const PLANTED: u64 = 60;

/// All filesystems and methods; a row for each filesystem.
///
/// # Errors
/// Of the machine.
pub fn run(home: &Path, plan: &Plan) -> Result<Vec<Counted>> {
    let methods = Method::LINUX;
    let each = plan
        .kills
        .div_ceil((FILESYSTEMS.len() * methods.len()) as u64);
    let mut rows = in_halves("kill -9", plan.seed, |filesystem, half, seed| {
        let image = filesystem.make()?;
        let mounted = Mounted::image(filesystem, &image, home)?;
        let mut rng = Rng::new(seed);
        let mut row = Counted::default();
        let planted = [Method::Buffered, Method::DirectDsync][half];
        let found = cell(mounted.path(), planted, Fault::Late, PLANTED, &mut rng)?.broken;
        row.caught(&format!("writes kept in the process, {planted}"), &found);
        for method in methods.into_iter().skip(half).step_by(2) {
            let counted = cell(mounted.path(), method, Fault::None, each, &mut rng)?;
            row.add("methods", u64::from(counted.count("kills") >= each));
            row.take(&counted);
        }
        mounted.unmount()?;
        Ok(row)
    })?;
    for row in &mut rows {
        row.demand("methods", methods.len() as u64);
    }
    Ok(rows)
}
