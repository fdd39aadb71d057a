//! Power cuts of SQLite, and states that one could have left of a recorded run.

use super::{Checked, Job, Mode, Promises, Sabotage, SqliteCounts, check::check};
use crate::bench::Bench;
use crate::ledger::Entry;
use crate::started::{Role, Started, ledger_path};
use anyhow::Result;
use logforce_crashtest::counters::Counters;
use logforce_crashtest::disk::Flushes;
use logforce_crashtest::live::{self, Cuts, Moment};
use logforce_crashtest::parts::Part;
use logforce_crashtest::states::{self, Recordings, Take};
use logforce_crashtest::subject::{Case, Session, Site, Subject};
use logforce_crashtest::testbed::Filesystem;
use rustix::process::Signal;
use std::path::Path;

/// Percentages of writes that the disk holds in flight.
const HOLDS: [u64; 3] = [0, 30, 50];

/// Largest number of states that are built from one recording.
const OF_ONE: u64 = 150;

/// Longest session, milliseconds. Without syncs a program may never learn that the disk is gone.
const SESSION: u64 = 2000;

/// SQLite on one filesystem, in one mode.
struct SqliteSubject<'a> {
    bench: Bench<'a>,
    mode: Mode,
    is_stock: bool,
    sabotage: Sabotage,
}

impl Subject for SqliteSubject<'_> {
    type Running = Started;
    type Entry = Entry;
    type Promised = Promises;
    type Checked = Checked;

    fn site(&self) -> Site<'_> {
        self.bench.site()
    }

    fn begin(&self) -> Result<()> {
        self.bench.begin()
    }

    fn start(&self, mounted: &Path, _: &Promises, seed: u64) -> Result<Started> {
        let job = Job {
            dir: mounted.join("sqlite"),
            ledger: ledger_path(),
            mode: self.mode,
            is_stock: self.is_stock,
            first_thread: 0,
            seed,
            sabotage: self.sabotage,
            millis: SESSION,
        };
        self.bench.start(Role::SqliteWork, &job)
    }

    fn end(&self, mut running: Started, _: &Counters) -> Result<Option<String>> {
        let wrong = running.end(false)?;
        // The index of a write-ahead log is mapped memory. A filesystem that the power cut has stopped answers a
        // write there with this signal.
        let is_answer_of_mapped_memory = running.ended_by(Signal::BUS);
        Ok(wrong.filter(|_| !is_answer_of_mapped_memory))
    }

    fn entries(&self) -> Result<Vec<Vec<Entry>>> {
        self.bench.entries()
    }

    fn promise(&self, promised: &mut Promises, session: &Session<'_, Entry>) {
        let is_strict = !matches!(self.mode, Mode::WalGroup | Mode::WalBounded);
        promised.add(&session.claimed, &session.all, is_strict);
    }

    fn is_promised(promised: &Promises) -> bool {
        promised.exists
    }

    fn check(&self, mounted: &Path, promised: &Promises) -> Result<(Checked, Option<Promises>)> {
        let (checked, found) = check(&mounted.join("sqlite"), self.mode, promised);
        Ok((checked, found.map(|found| promised.after(&found))))
    }
}

/// Subject and volume of power cuts.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Live cuts or replayed states.
    pub part: Part,
    /// Filesystem.
    pub filesystem: Filesystem,
    /// Settings of the connections.
    pub mode: Mode,
    /// True to use SQLite's own VFS.
    pub is_stock: bool,
    /// True to go on when something breaks.
    pub goes_on: bool,
    /// Fault of the subject.
    pub sabotage: Sabotage,
    /// Number of cuts that have to count.
    pub wanted: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Cuts the power until enough cuts count or something breaks.
///
/// # Errors
/// Errors of the machine.
pub fn run(run: &Run, home: &Path) -> Result<SqliteCounts> {
    // A journal has the path of its super-journal. So each disk is mounted at the same path each time, and in a
    // directory that no other test uses.
    let home = home.join(format!("sqlite-{:x}", run.seed));
    std::fs::create_dir(&home)?;
    let subject = SqliteSubject {
        bench: Bench::new(run.filesystem, &home)?,
        mode: run.mode,
        is_stock: run.is_stock,
        sabotage: run.sabotage,
    };
    let mut all = SqliteCounts::default();
    let mut take = |case: Case<'_, SqliteSubject<'_>>| {
        all.take(
            case.checked,
            case.wrong,
            case.grain,
            case.met.unflushed_sectors > 0,
        );
        let counts = &all.counts;
        // A subject that cannot work never makes a cut count.
        let tried = counts.counted + counts.empty;
        let goes_on = counts.broken.is_empty() || run.goes_on;
        Ok(counts.counted < run.wanted && tried < 10 * run.wanted + 750 && goes_on)
    };
    match run.part {
        Part::States => states::states(&subject, &recordings(run.wanted), run.seed, &mut take)?,
        _ => live::cuts(&subject, &cuts(run.filesystem), run.seed, &mut take)?,
    }
    Ok(all)
}

fn cuts(filesystem: Filesystem) -> Cuts {
    Cuts {
        flushes: Flushes::Honest,
        holds: &HOLDS,
        grains: filesystem.grains(),
        chain: 5,
        early_in: 3,
        early: vec![Moment {
            writes: 60,
            millis: 100..101,
            any_write: 4,
        }],
        work: vec![Moment {
            writes: 1500,
            millis: 100..500,
            any_write: 4,
        }],
    }
}

fn recordings(states: u64) -> Recordings {
    Recordings {
        row: vec![Take {
            writes: 2000,
            millis: 800,
            states: OF_ONE.min(states),
        }],
        holds: &HOLDS,
        unpromised: 1,
    }
}
