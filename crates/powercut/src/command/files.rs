//! `files`: a naive engine on a durable file under power cuts.

use super::suite::share;
use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use logforce_crashtest::parts;
use logforce_crashtest::testbed::Filesystem;
use logforce_powercut::files::{self, Layout};
use logforce_powercut::pages::Counts;
use logforce_powercut::subject::seam::Fault;
use logforce_testkit::Rng;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Number of live cuts that count, of each layout on each filesystem.
    #[arg(long, default_value_t = 60)]
    cycles: u64,
    /// Number of replayed crash states that count, of each.
    #[arg(long, default_value_t = 1000)]
    states: u64,
    /// Seed of all random choices. When exactly the power goes depends on the machine too.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of files tested at a time.
    #[arg(long)]
    threads: Option<usize>,
    /// Writes everything that was counted into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these filesystems.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    filesystem: Vec<Filesystem>,
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
            true => Filesystem::ALL.to_vec(),
            false => self.filesystem.clone(),
        }
    }
}

/// Kind of cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Part {
    /// Power cuts without the forces of the system: must break it.
    CutsWithoutForces,
    Cuts,
    States,
}

/// Largest number of cuts until the known fault is found.
const PLANTED: u64 = 40;

impl Part {
    const ALL: [Part; 3] = [Part::CutsWithoutForces, Part::Cuts, Part::States];

    fn has_fault(self) -> bool {
        self == Part::CutsWithoutForces
    }

    fn wanted(self, args: &Args) -> u64 {
        match self {
            Part::CutsWithoutForces => PLANTED,
            Part::Cuts => args.cycles,
            Part::States => args.states,
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    part: Part,
    filesystem: String,
    layout: &'static str,
    counts: Counts,
    seconds: f64,
}

/// Runs all parts.
///
/// # Errors
/// Errors of the machine.
pub fn run(args: &Args, home: &Path) -> Result<ExitCode> {
    let mut rng = Rng::new(args.seed);
    let mut all = Vec::new();
    for part in Part::ALL {
        for filesystem in args.filesystems() {
            for (name, layout) in Layout::ALL {
                let seed = rng.bits();
                // A filesystem that journals its data offers no direct I/O.
                let is_offered =
                    layout != Layout::Direct || filesystem != Filesystem::Ext4DataJournal;
                if is_offered && !(args.unchecked && part.has_fault()) {
                    all.push((part, filesystem, name, layout, seed));
                }
            }
        }
    }
    let rows = Mutex::new(Vec::<Row>::new());
    let lock = || rows.lock().unwrap_or_else(PoisonError::into_inner);
    let here = std::thread::available_parallelism().map_or(2, |n| n.get());
    let threads = args.threads.unwrap_or(here).max(1);
    share(threads, all, |(part, filesystem, name, layout, seed)| {
        if args.first && lock().iter().any(is_broken) {
            return Ok(());
        }
        let began = Instant::now();
        let (kind, fault) = match part {
            Part::CutsWithoutForces => (parts::Part::Cuts, Fault::Forgetful),
            Part::Cuts => (parts::Part::Cuts, Fault::None),
            Part::States => (parts::Part::States, Fault::None),
        };
        let wanted = part.wanted(args);
        let counts = files::run(kind, filesystem, layout, fault, wanted, home, seed)?;
        let row = Row {
            part,
            filesystem: filesystem.to_string(),
            layout: name,
            counts,
            seconds: began.elapsed().as_secs_f64(),
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
        for broken in &row.counts.broken {
            println!("BROKEN: {} {}: {broken}", row.filesystem, row.layout);
        }
    }
    if failed.is_empty() {
        let sum = |of: fn(&Counts) -> u64| {
            let rows = rows.iter().filter(|row| !row.part.has_fault());
            rows.map(|row| of(&row.counts)).sum::<u64>()
        };
        println!(
            "nothing that was acknowledged was lost, in {} cuts and states with {} acknowledged slots",
            sum(|c| c.counted),
            sum(|c| c.acknowledged)
        );
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Returns true if the check found what it should not, or did not find the known fault.
fn is_broken(row: &Row) -> bool {
    row.counts.broken.is_empty() == row.part.has_fault()
}

fn is_failed(row: &Row, args: &Args) -> bool {
    let too_few = row.counts.counted < row.part.wanted(args) && !row.part.has_fault();
    let lost = row.counts.filesystem_lost > 3 + row.counts.counted / 20;
    is_broken(row) || too_few || lost
}

fn line(row: &Row) -> String {
    let Counts {
        counted,
        empty,
        filesystem_lost,
        acknowledged,
        broken,
    } = &row.counts;
    let what = match (row.part.has_fault(), broken.first()) {
        (true, Some(why)) => format!("caught: {why}"),
        (true, None) => "NOT CAUGHT".to_owned(),
        (false, Some(why)) => format!("lost: {why}"),
        (false, None) => String::new(),
    };
    format!(
        "{:?} {} {}: {counted} counted, {empty} empty, {filesystem_lost} fs lost, {acknowledged} slots, {:.1} s {what}",
        row.part, row.filesystem, row.layout, row.seconds
    )
}
