//! Several processes contend for one log: each opens it again and again, commits a few records and
//! closes it, or is killed.
//!
//! Never are two in it: each winner sets a mark elsewhere before it writes, and each opening finds
//! everything that was acknowledged to the ones before it. A loser gets `Locked`, and nothing else.
//! Each of them wins.

mod role;

pub use role::{Contending, role_contention};

use super::{Counted, Plan, in_halves};
use crate::check::{Opening, Promises, Session, check};
use crate::ledger::{Entry, Kind};
use crate::started::{Role, Started, TIMEOUT, User, ledger_path};
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce::{Guarantee, Method};
use logforce_crashtest::testbed::Mounted;
use logforce_testkit::Rng;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Processes at the same time.
const CONTENDERS: usize = 4;

/// One of those that contend, through several processes.
struct Contender {
    process: Started,
    /// Openings after which this process is killed.
    enough: u64,
    wins: u64,
}

struct Contest {
    dir: PathBuf,
    marker: PathBuf,
    stop: PathBuf,
    fault: Fault,
    rng: Rng,
    processes: u64,
    sessions: Vec<Session>,
    counted: Counted,
}

impl Contest {
    fn start(&mut self) -> Result<(Started, u64)> {
        self.processes += 1;
        let contending = Contending {
            dir: self.dir.clone(),
            ledger: ledger_path(),
            number: self.processes,
            marker: self.marker.clone(),
            stop: self.stop.clone(),
            fault: self.fault,
            seed: self.rng.bits(),
        };
        let process = Started::new(Role::Contention, &contending, User::Root)?;
        Ok((process, 1 + self.rng.below(6)))
    }

    /// Takes in what a process that has ended was promised.
    fn ended(&mut self, process: &Started) -> Result<u64> {
        let sessions = openings(&process.entries()?[0]);
        let wins = sessions.len() as u64;
        self.counted.add("wins", wins);
        self.counted.add("refused", process.count(Kind::Refused)?);
        self.sessions.extend(sessions);
        Ok(wins)
    }

    /// Lets them contend until `wins` openings were won.
    fn contend(&mut self, wins: u64) -> Result<()> {
        let mut contenders = Vec::new();
        for _ in 0..CONTENDERS {
            let (process, enough) = self.start()?;
            contenders.push(Contender {
                process,
                enough,
                wins: 0,
            });
        }
        let mut until = Instant::now() + TIMEOUT;
        let over = |contenders: &[Contender]| {
            let sum: u64 = contenders.iter().map(|f| f.wins).sum();
            sum >= wins && contenders.iter().all(|f| f.wins > 0)
        };
        while !over(&contenders) && self.counted.broken.is_empty() {
            for contender in &mut contenders {
                if contender.process.has_ended()? {
                    let how = contender.process.ended_badly(true).unwrap_or_default();
                    self.counted.breaks(format!("a contender ended: {how}"));
                }
                if contender.process.count(Kind::Opened)? < contender.enough {
                    continue;
                }
                // In the midst of whatever it does now.
                std::thread::sleep(Duration::from_micros(self.rng.below(2000)));
                contender.process.kill()?;
                self.counted.add("killed", 1);
                contender.wins += self.ended(&contender.process)?;
                (contender.process, contender.enough) = self.start()?;
                until = Instant::now() + TIMEOUT;
            }
            if Instant::now() > until {
                self.counted.breaks("no process wins any more");
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        std::fs::File::create(&self.stop)?;
        for contender in &mut contenders {
            if let Some(bad) = contender.process.end(true)? {
                self.counted.breaks(format!("a contender: {bad}"));
            }
            contender.wins += self.ended(&contender.process)?;
        }
        std::fs::remove_file(&self.stop)?;
        let least = contenders.iter().map(|f| f.wins).min().unwrap_or(0);
        self.counted.add("wins of the unluckiest", least);
        self.counted.demand("wins of the unluckiest", 1);
        Ok(())
    }

    /// Compares the log with everything that all of them were promised.
    fn check_log(&mut self) -> Result<()> {
        // In the order of the openings: each recovers more than the one before.
        let opened = |session: &Session| session.all(Kind::Opened).map(|e| e.end).next();
        self.sessions.sort_by_key(opened);
        for pair in self.sessions.windows(2) {
            if opened(&pair[0]) == opened(&pair[1]) {
                let (a, b) = (pair[0].number, pair[1].number);
                self.counted
                    .breaks(format!("openings {a:x} and {b:x} recovered the same log"));
            }
        }
        let mut promises = Promises::default();
        self.sessions
            .drain(..)
            .for_each(|session| promises.add(session));
        let opening = Opening {
            method: Method::DirectDsync,
            claims: Guarantee::ProcessCrash,
        };
        let outcome = check(&self.dir, opening, &mut promises)?;
        self.counted.add("acknowledged", outcome.acknowledged);
        self.counted.add("lost", outcome.lost);
        for broken in outcome.broken {
            self.counted.breaks(broken);
        }
        Ok(())
    }
}

/// Returns the openings of one process, each as a session.
fn openings(entries: &[Entry]) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    for e in entries.iter().filter(|e| e.kind != Kind::Refused) {
        if e.kind == Kind::Opened {
            sessions.push(Session {
                number: e.sequence,
                claimed: vec![Vec::new()],
                all: vec![Vec::new()],
            });
        }
        if let Some(session) = sessions.last_mut() {
            session.claimed[0].push(*e);
            session.all[0].push(*e);
        }
    }
    sessions
}

fn contest(disk: &Path, home: &Path, fault: Fault, wins: u64, seed: u64) -> Result<Counted> {
    let mut contest = Contest {
        dir: disk.join(format!("log-{fault:?}")),
        marker: home.join(format!("marker-{seed:x}")),
        stop: home.join(format!("stop-{seed:x}")),
        fault,
        rng: Rng::new(seed),
        processes: 0,
        sessions: Vec::new(),
        counted: Counted::default(),
    };
    if fault != Fault::None {
        // What it does to the creation of a log is not what is planted.
        contest.check_log()?;
    }
    contest.contend(wins)?;
    contest.check_log()?;
    for entry in std::fs::read_dir(home)?.flatten() {
        let name = entry.file_name();
        if name
            .to_string_lossy()
            .starts_with(&format!("marker-{seed:x}"))
        {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(contest.counted)
}

/// Each filesystem; a row for each.
///
/// # Errors
/// Errors of the machine.
pub fn run(home: &Path, plan: &Plan) -> Result<Vec<Counted>> {
    let wins = plan.wins;
    let name = "contend for one log";
    let mut rows = in_halves(name, plan.seed ^ 0xF167, |filesystem, half, seed| {
        let mut row = Counted::default();
        let image = filesystem.make()?;
        let mounted = Mounted::image(filesystem, &image, home)?;
        if half == 0 {
            let unlocked = contest(mounted.path(), home, Fault::Unlocked, wins, seed)?;
            row.caught("a lock that everybody gets", &unlocked.broken);
        } else {
            row = contest(mounted.path(), home, Fault::None, wins, seed)?;
        }
        mounted.unmount()?;
        Ok(row)
    })?;
    for row in &mut rows {
        row.demand("wins", wins);
        row.demand("refused", 1);
        row.demand("killed", 1);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_opening_is_a_session() {
        let opened = |session| Entry {
            sequence: session,
            ..Entry::of(Kind::Opened)
        };
        let (refused, acked) = (Entry::of(Kind::Refused), Entry::of(Kind::Acked));
        let sessions = openings(&[refused, opened(7), acked, acked, opened(8), refused, acked]);
        let counted: Vec<_> = sessions
            .iter()
            .map(|l| (l.number, l.all[0].len()))
            .collect();
        assert_eq!(counted, [(7, 3), (8, 2)]);
    }
}
