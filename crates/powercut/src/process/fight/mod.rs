//! Several processes fight for one log: each opens it again and again, commits a few records and
//! closes it, or is killed.
//!
//! Never are two in it: each winner sets a mark elsewhere before it writes, and each opening finds
//! everything that the ones before it were promised. Who loses is told `Locked`, and nothing else.
//! Each of them wins.

mod role;

pub use role::{Fighting, role_fight};

use super::started::{Role, Started, User, ledger_path};
use super::{Counted, PATIENCE, Plan, in_halves};
use crate::check::{Life, Opening, Promises, check};
use crate::ledger::{Entry, Kind};
use crate::rig::Mounted;
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce::{Guarantee, Method};
use logforce_testkit::Rng;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Processes at the same time.
const FIGHTERS: usize = 4;

/// One of those that fight, through several processes.
struct Fighter {
    process: Started,
    /// Openings after which this process is killed.
    enough: u64,
    wins: u64,
}

struct Arena {
    dir: PathBuf,
    marker: PathBuf,
    stop: PathBuf,
    fault: Fault,
    rng: Rng,
    processes: u64,
    lives: Vec<Life>,
    counted: Counted,
}

impl Arena {
    fn start(&mut self) -> Result<(Started, u64)> {
        self.processes += 1;
        let fighting = Fighting {
            dir: self.dir.clone(),
            ledger: ledger_path(),
            number: self.processes,
            marker: self.marker.clone(),
            stop: self.stop.clone(),
            fault: self.fault,
            seed: self.rng.bits(),
        };
        let process = Started::new(Role::Fight, &fighting, User::Root)?;
        Ok((process, 1 + self.rng.below(6)))
    }

    /// Takes in what a process that has ended was promised.
    fn ended(&mut self, process: &Started) -> Result<u64> {
        let lives = openings(&process.entries()?[0]);
        let wins = lives.len() as u64;
        self.counted.add("wins", wins);
        self.counted.add("refused", process.count(Kind::Refused)?);
        self.lives.extend(lives);
        Ok(wins)
    }

    /// Lets them fight until so many openings were won.
    fn fight(&mut self, wins: u64) -> Result<()> {
        let mut fighters = Vec::new();
        for _ in 0..FIGHTERS {
            let (process, enough) = self.start()?;
            fighters.push(Fighter {
                process,
                enough,
                wins: 0,
            });
        }
        let mut until = Instant::now() + PATIENCE;
        let over = |fighters: &[Fighter]| {
            let sum: u64 = fighters.iter().map(|f| f.wins).sum();
            sum >= wins && fighters.iter().all(|f| f.wins > 0)
        };
        while !over(&fighters) && self.counted.broken.is_empty() {
            for fighter in &mut fighters {
                if fighter.process.has_ended()? {
                    let how = fighter.process.ended_badly(true).unwrap_or_default();
                    self.counted.breaks(format!("a fighter ended: {how}"));
                }
                if fighter.process.count(Kind::Opened)? < fighter.enough {
                    continue;
                }
                // In the midst of whatever it does now.
                std::thread::sleep(Duration::from_micros(self.rng.below(2000)));
                fighter.process.kill()?;
                self.counted.add("killed", 1);
                fighter.wins += self.ended(&fighter.process)?;
                (fighter.process, fighter.enough) = self.start()?;
                until = Instant::now() + PATIENCE;
            }
            if Instant::now() > until {
                self.counted.breaks("nobody wins any more");
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        std::fs::File::create(&self.stop)?;
        for fighter in &mut fighters {
            if let Some(bad) = fighter.process.end(true)? {
                self.counted.breaks(format!("a fighter: {bad}"));
            }
            fighter.wins += self.ended(&fighter.process)?;
        }
        std::fs::remove_file(&self.stop)?;
        let least = fighters.iter().map(|f| f.wins).min().unwrap_or(0);
        self.counted.add("wins of the unluckiest", least);
        self.counted.demand("wins of the unluckiest", 1);
        Ok(())
    }

    /// Compares the log with everything that all of them were promised.
    fn look(&mut self) -> Result<()> {
        // In the order of the openings: each recovers more than the one before.
        let opened = |life: &Life| life.all(Kind::Opened).map(|e| e.end).next();
        self.lives.sort_by_key(opened);
        for pair in self.lives.windows(2) {
            if opened(&pair[0]) == opened(&pair[1]) {
                let (a, b) = (pair[0].number, pair[1].number);
                self.counted
                    .breaks(format!("openings {a:x} and {b:x} recovered the same log"));
            }
        }
        let mut promises = Promises::default();
        self.lives.drain(..).for_each(|life| promises.add(life));
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

/// The openings of one process, each a life of its own.
fn openings(entries: &[Entry]) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for e in entries.iter().filter(|e| e.kind != Kind::Refused) {
        if e.kind == Kind::Opened {
            lives.push(Life {
                number: e.sequence,
                claimed: vec![Vec::new()],
                all: vec![Vec::new()],
            });
        }
        if let Some(life) = lives.last_mut() {
            life.claimed[0].push(*e);
            life.all[0].push(*e);
        }
    }
    lives
}

fn arena(disk: &Path, home: &Path, fault: Fault, wins: u64, seed: u64) -> Result<Counted> {
    let mut arena = Arena {
        dir: disk.join(format!("log-{fault:?}")),
        marker: home.join(format!("marker-{seed:x}")),
        stop: home.join(format!("stop-{seed:x}")),
        fault,
        rng: Rng::new(seed),
        processes: 0,
        lives: Vec::new(),
        counted: Counted::default(),
    };
    if fault != Fault::None {
        // What it does to the creation of a log is not what is planted.
        arena.look()?;
    }
    arena.fight(wins)?;
    arena.look()?;
    for entry in std::fs::read_dir(home)?.flatten() {
        let name = entry.file_name();
        if name
            .to_string_lossy()
            .starts_with(&format!("marker-{seed:x}"))
        {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(arena.counted)
}

/// Each filesystem; a row for each.
///
/// # Errors
/// Of the machine.
pub fn run(home: &Path, plan: &Plan) -> Result<Vec<Counted>> {
    let wins = plan.wins;
    let name = "fight for one log";
    let mut rows = in_halves(name, plan.seed ^ 0xF167, |filesystem, half, seed| {
        let mut row = Counted::default();
        let image = filesystem.make()?;
        let mounted = Mounted::image(filesystem, &image, home)?;
        if half == 0 {
            let unlocked = arena(mounted.path(), home, Fault::Unlocked, wins, seed)?;
            row.caught("a lock that everybody gets", &unlocked.broken);
        } else {
            row = arena(mounted.path(), home, Fault::None, wins, seed)?;
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
    fn each_opening_is_a_life() {
        let opened = |life| Entry {
            sequence: life,
            ..Entry::of(Kind::Opened)
        };
        let (refused, acked) = (Entry::of(Kind::Refused), Entry::of(Kind::Acked));
        let lives = openings(&[refused, opened(7), acked, acked, opened(8), refused, acked]);
        let counted: Vec<_> = lives.iter().map(|l| (l.number, l.all[0].len())).collect();
        assert_eq!(counted, [(7, 3), (8, 2)]);
    }
}
