//! `sqlite`: SQLite on the VFS `logforce` under power cuts, and under kills beside stock SQLite.

use super::suite::share;
use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use logforce_crashtest::parts;
use logforce_crashtest::testbed::Filesystem;
use logforce_powercut::sqlite::{self, Mode, Run, Sabotage, SqliteCounts};
use logforce_testkit::Rng;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Filesystems that are tested by default. The last one is only reported on.
const FILESYSTEMS: [Filesystem; 4] = [
    Filesystem::Ext4,
    Filesystem::Xfs,
    Filesystem::Btrfs,
    Filesystem::Ext4NoJournal,
];

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Number of live cuts that count, of each mode on each filesystem.
    #[arg(long, default_value_t = 40)]
    cycles: u64,
    /// Number of replayed crash states that count, of each.
    #[arg(long, default_value_t = 250)]
    states: u64,
    /// Number of live cuts and of states of stock SQLite that count, of each, for comparison.
    #[arg(long, default_value_t = 0)]
    stock: u64,
    /// Number of kills that met a working process, of each mode.
    #[arg(long, default_value_t = 100)]
    kills: u64,
    /// Seed of all random choices. When exactly the power goes depends on the machine too.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of databases tested at a time.
    #[arg(long)]
    threads: Option<usize>,
    /// Writes everything that was counted into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these filesystems.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    filesystem: Vec<Filesystem>,
    /// Only these modes.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    mode: Vec<String>,
    /// Leaves the self-check out. What is found then says little.
    #[arg(long)]
    unchecked: bool,
    /// Ends at the first thing that breaks.
    #[arg(long)]
    first: bool,
}

impl Args {
    pub fn filesystems(&self) -> Vec<Filesystem> {
        match self.filesystem.is_empty() {
            true => FILESYSTEMS.to_vec(),
            false => self.filesystem.clone(),
        }
    }

    /// Returns the parts to run, with a seed each.
    fn rows(&self) -> Vec<(Kind, u64)> {
        let filesystems = self.filesystems();
        let mut rng = Rng::new(self.seed);
        let mut rows = Vec::new();
        for part in Part::ALL {
            let modes = Mode::DURABLE.into_iter().chain([Mode::OFF]);
            for (name, mode) in modes.filter(|(_, mode)| part.takes(*mode)) {
                let on = filesystems
                    .iter()
                    .filter(|f| part.is_of_kills() <= (*f == &filesystems[0]));
                for filesystem in on {
                    let kind = Kind {
                        part,
                        filesystem: *filesystem,
                        name,
                        mode,
                    };
                    rows.push((kind, rng.bits()));
                }
            }
        }
        rows.retain(|(kind, _)| {
            let is_wanted = self.mode.is_empty() || self.mode.iter().any(|m| m == kind.name);
            let is_left_out = self.unchecked && kind.part.has_fault();
            is_wanted && !is_left_out && kind.part.wanted(self) > 0
        });
        rows
    }
}

/// Kind of faults, and of the SQLite that meets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Part {
    /// Power cuts with `synchronous=OFF`: must break it.
    CutsWithoutSync,
    /// Kills with a journal in memory: must break it.
    KillsWithoutJournal,
    Cuts,
    States,
    Kills,
    /// Power cuts of stock SQLite.
    StockCuts,
    StockStates,
}

/// Largest number of cuts or kills until a known fault is found.
const PLANTED: u64 = 40;

impl Part {
    const ALL: [Part; 7] = [
        Part::CutsWithoutSync,
        Part::KillsWithoutJournal,
        Part::Cuts,
        Part::States,
        Part::Kills,
        Part::StockCuts,
        Part::StockStates,
    ];

    fn has_fault(self) -> bool {
        matches!(self, Part::CutsWithoutSync | Part::KillsWithoutJournal)
    }

    fn is_stock(self) -> bool {
        matches!(self, Part::StockCuts | Part::StockStates)
    }

    /// Returns true if no disk is involved, so that one filesystem stands for all.
    fn is_of_kills(self) -> bool {
        matches!(self, Part::Kills | Part::KillsWithoutJournal)
    }

    fn takes(self, mode: Mode) -> bool {
        match self {
            Part::CutsWithoutSync => matches!(mode, Mode::Wal | Mode::Delete),
            Part::KillsWithoutJournal => mode == Mode::Delete,
            Part::Kills => true,
            _ => mode != Mode::DeleteOff,
        }
    }

    fn wanted(self, args: &Args) -> u64 {
        match self {
            Part::CutsWithoutSync | Part::KillsWithoutJournal => PLANTED,
            Part::Cuts => args.cycles,
            Part::States => args.states,
            Part::Kills => args.kills,
            Part::StockCuts | Part::StockStates => args.stock,
        }
    }
}

/// Part of the tests.
#[derive(Debug, Clone, Copy, Serialize)]
struct Kind {
    part: Part,
    #[serde(serialize_with = "as_name")]
    filesystem: Filesystem,
    #[serde(rename = "mode")]
    name: &'static str,
    #[serde(skip)]
    mode: Mode,
}

fn as_name<S: serde::Serializer>(filesystem: &Filesystem, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(filesystem.name())
}

impl Kind {
    /// Returns true if findings fail nothing. Stock SQLite is only compared with. On ext4 without a journal, a
    /// power cut may take back blocks of a file that grows, although they were synced (docs/durability.md, A8).
    fn is_only_reported(self) -> bool {
        let is_cut = matches!(self.part, Part::Cuts | Part::States);
        self.part.is_stock() || (is_cut && self.filesystem == Filesystem::Ext4NoJournal)
    }

    fn run(self, wanted: u64, home: &Path, seed: u64) -> Result<SqliteCounts> {
        let sabotage = match self.part {
            Part::CutsWithoutSync => Sabotage::NoSync,
            Part::KillsWithoutJournal => Sabotage::NoJournal,
            _ => Sabotage::None,
        };
        if self.part.is_of_kills() {
            return sqlite::kills(self.filesystem, self.mode, sabotage, wanted, home, seed);
        }
        let run = Run {
            part: match self.part {
                Part::States | Part::StockStates => parts::Part::States,
                _ => parts::Part::Cuts,
            },
            filesystem: self.filesystem,
            mode: self.mode,
            is_stock: self.part.is_stock(),
            goes_on: self.is_only_reported(),
            sabotage,
            wanted,
            seed,
        };
        sqlite::run(&run, home)
    }
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    kind: Kind,
    #[serde(flatten)]
    found: SqliteCounts,
    seconds: f64,
}

/// Runs all parts.
///
/// # Errors
/// Errors of the machine.
pub fn run(args: &Args, home: &Path) -> Result<ExitCode> {
    let rows = Mutex::new(Vec::<Row>::new());
    let lock = || rows.lock().unwrap_or_else(PoisonError::into_inner);
    let here = std::thread::available_parallelism().map_or(2, |n| n.get());
    let threads = args.threads.unwrap_or(here).max(1);
    share(threads, args.rows(), |(kind, seed)| {
        if args.first && lock().iter().any(is_broken) {
            return Ok(());
        }
        let began = Instant::now();
        let found = kind.run(kind.part.wanted(args), home, seed)?;
        let seconds = began.elapsed().as_secs_f64();
        let row = Row {
            kind,
            found,
            seconds,
        };
        println!("    {}", line(&row));
        lock().push(row);
        Ok(())
    })?;
    let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&rows)?;
        std::fs::write(path, json + "\n").with_context(|| path.display().to_string())?;
    }
    let failed: Vec<_> = rows.iter().filter(|row| is_failed(row, args)).collect();
    for row in &failed {
        println!("FAILED: {}", line(row));
        for broken in &row.found.counts.broken {
            println!(
                "BROKEN: {} {}: {broken}",
                row.kind.filesystem, row.kind.name
            );
        }
    }
    if failed.is_empty() {
        let tested = rows
            .iter()
            .filter(|row| !row.kind.part.has_fault() && !row.kind.is_only_reported());
        let sum = |of: fn(&Row) -> u64| tested.clone().map(of).sum::<u64>();
        println!(
            "nothing was lost that was durable, in {} cuts, states and kills with {} acknowledged commits",
            sum(|row| row.found.counts.counted),
            sum(|row| row.found.counts.acknowledged)
        );
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Returns true if the check found what it should not, or did not find the known fault.
fn is_broken(row: &Row) -> bool {
    let is_whole = row.found.counts.broken.is_empty();
    is_whole == row.kind.part.has_fault() && !row.kind.is_only_reported()
}

fn is_failed(row: &Row, args: &Args) -> bool {
    let counts = &row.found.counts;
    let too_few = counts.counted < row.kind.part.wanted(args) && !row.kind.part.has_fault();
    let lost = counts.filesystem_lost > 3 + counts.counted / 20;
    is_broken(row) || ((too_few || lost) && !row.kind.is_only_reported())
}

fn line(row: &Row) -> String {
    let counts = &row.found.counts;
    let what = match (row.kind.part.has_fault(), counts.broken.first()) {
        (true, Some(why)) => format!("caught: {why}"),
        (true, None) => "NOT CAUGHT".to_owned(),
        (false, Some(why)) => format!("{} findings: {why}", counts.broken.len()),
        (false, None) => String::new(),
    };
    format!(
        "{:?} {} {}: {} counted, {} empty, {} fs lost, {} commits, {} lost, up to {:.1} ms old, {:.1} s {what}",
        row.kind.part,
        row.kind.filesystem,
        row.kind.name,
        counts.counted,
        counts.empty,
        counts.filesystem_lost,
        counts.acknowledged,
        row.found.lost,
        row.found.oldest_lost_ms,
        row.seconds
    )
}
