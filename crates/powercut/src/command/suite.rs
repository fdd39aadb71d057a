//! `suite`: self-checks, live cuts, replayed states.

use super::print::{self, Section};
use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use logforce_crashtest::parts::Part;
use logforce_crashtest::testbed::Filesystem;
use logforce_device::Method;
use logforce_powercut::log::{self, DURABLE, cells};
use logforce_powercut::own::{self, OwnRun};
use logforce_powercut::report::{Cell, Sink};
use logforce_powercut::selfcheck::{self, Checked};
use logforce_testkit::Rng;
use serde::Serialize;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Number of live cuts that met something unflushed.
    #[arg(long, default_value_t = 1000)]
    cycles: u64,
    /// Number of replayed crash states that count.
    #[arg(long, default_value_t = 20_000)]
    states: u64,
    /// Minutes for which rounds of the volume above are repeated.
    #[arg(long)]
    minutes: Option<f64>,
    /// Seed of all random choices. When exactly the power goes depends on the machine too.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of cells tested at a time: by default that of the processors, for replayed states twice that.
    #[arg(long)]
    threads: Option<usize>,
    /// Writes everything that was counted into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these filesystems.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    filesystem: Vec<Filesystem>,
    /// Only these methods.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    method: Vec<Method>,
    /// Leaves the self-checks out. What is found then says little.
    #[arg(long)]
    unchecked: bool,
    /// Ends at the first thing that breaks.
    #[arg(long)]
    first: bool,
}

impl Args {
    /// Returns the filesystems to test.
    pub fn filesystems(&self) -> Vec<Filesystem> {
        if self.filesystem.is_empty() {
            Filesystem::ALL.to_vec()
        } else {
            self.filesystem.clone()
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let methods = if self.method.is_empty() {
            &DURABLE[..]
        } else {
            &self.method[..]
        };
        cells(&self.filesystems(), methods)
    }

    fn threads(&self) -> usize {
        let here = std::thread::available_parallelism().map_or(2, |n| n.get());
        self.threads.unwrap_or(here).max(1)
    }

    /// Returns twice the processors: a replayed state waits for mounts and the disk half of its time. Not for live
    /// cuts: a subject that waits for a processor has acknowledged nothing when the cut comes.
    fn threads_of_replay(&self) -> usize {
        self.threads.unwrap_or(2 * self.threads()).max(1)
    }
}

/// Number of findings after which the suite stops.
const MANY: usize = 50;

/// Document of all results.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    version: u32,
    kernel: String,
    seed: u64,
    selfchecks: Vec<Checked>,
    own: Vec<OwnRun>,
    /// Live cuts; `None` if something before them broke.
    live: Option<Section>,
    replayed: Option<Section>,
    /// True if the self-checks were left out.
    unchecked: bool,
    minutes: Option<f64>,
    broken: Vec<String>,
}

/// Runs the suite. Fails if a self-check was not caught, a count was not reached, or an invariant broke.
///
/// # Errors
/// Errors of the machine.
pub fn run(args: &Args, home: &Path) -> Result<ExitCode> {
    let cells = args.cells();
    if cells.is_empty() {
        anyhow::bail!("none of these filesystems offers any of these methods");
    }
    let mut broken = Vec::new();
    let selfchecks = if args.unchecked {
        Vec::new()
    } else {
        let found = checks(args, &cells, home)?;
        for check in found.iter().filter(|c| !c.is_as_it_should_be()) {
            broken.push(print::unexpected(check));
        }
        found
    };
    let mut own = Vec::new();
    if broken.is_empty() && !args.unchecked {
        println!("logforce powercut:");
        let (runs, wrong) = own_runs(args, home)?;
        own = runs;
        broken.extend(wrong);
    }
    let (mut live, mut replayed) = (None, None);
    if broken.is_empty() {
        let kind = Kind {
            name: "live cuts",
            wanted: args.cycles,
            threads: args.threads(),
            part: Part::Cuts,
        };
        live = Some(section(args, &kind, &cells, home, &mut broken)?);
    }
    if broken.is_empty() {
        let kind = Kind {
            name: "replayed states",
            wanted: args.states,
            threads: args.threads_of_replay(),
            part: Part::States,
        };
        replayed = Some(section(args, &kind, &cells, home, &mut broken)?);
    }
    if let Some(path) = &args.json {
        let document = Document {
            schema: "logforce-powercut",
            version: 1,
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            seed: args.seed,
            selfchecks,
            own,
            live,
            replayed,
            unchecked: args.unchecked,
            minutes: args.minutes,
            broken: broken.clone(),
        };
        let json = serde_json::to_string_pretty(&document)?;
        std::fs::write(path, json + "\n").with_context(|| path.display().to_string())?;
    }
    if broken.is_empty() {
        let unchecked = if args.unchecked {
            "; the self-checks were left out, so this says little"
        } else {
            ""
        };
        println!("nothing that was acknowledged was lost{unchecked}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("FAILED:");
    for what in &broken {
        println!("    {what}");
    }
    Ok(ExitCode::FAILURE)
}

fn checks(args: &Args, cells: &[Cell], home: &Path) -> Result<Vec<Checked>> {
    let started = Instant::now();
    let all = selfcheck::all(cells, &args.filesystems());
    println!("self-checks: {} of them", all.len());
    let found = Mutex::new(Vec::new());
    let mut rng = Rng::new(args.seed);
    let seeded: Vec<_> = all.into_iter().map(|c| (c, rng.bits())).collect();
    share(args.threads(), seeded, |(check, seed)| {
        let checked = check.run(home, seed)?;
        println!("    {}", print::checked(&checked));
        lock(&found).push(checked);
        Ok(())
    })?;
    println!("self-checks took {:.0?}", started.elapsed());
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs `logforce powercut` on each filesystem, on an honest disk and on one that lies. Fails if one of its verdicts
/// is wrong.
///
/// # Errors
/// Errors of the machine.
pub fn own(args: &Args, home: &Path) -> Result<ExitCode> {
    let broken = own_runs(args, home)?.1;
    broken.iter().for_each(|b| println!("FAILED: {b}"));
    Ok(ExitCode::from(u8::from(!broken.is_empty())))
}

fn own_runs(args: &Args, home: &Path) -> Result<(Vec<OwnRun>, Vec<String>)> {
    let program = own::program()?;
    let mut rng = Rng::new(args.seed);
    let all = args.filesystems().into_iter();
    let seeded: Vec<_> = all
        .flat_map(|f| [(f, false), (f, true)])
        .map(|(f, lying)| (f, lying, rng.bits()))
        .collect();
    let found = Mutex::new(Vec::new());
    share(args.threads(), seeded, |(filesystem, lying, seed)| {
        let run = own::run(&program, filesystem, lying, home, seed)
            .with_context(|| format!("logforce powercut on {filesystem}, lying disk: {lying}"))?;
        println!("    {}", print::own(&run));
        lock(&found).push(run);
        Ok(())
    })?;
    let runs: Vec<OwnRun> = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let wrong = runs.iter().filter(|r| !r.is_as_it_should_be());
    let broken = wrong.map(print::own).collect();
    Ok((runs, broken))
}

/// Kind of cuts.
struct Kind {
    name: &'static str,
    wanted: u64,
    threads: usize,
    part: Part,
}

/// Runs one kind of cuts over all cells.
fn section(
    args: &Args,
    kind: &Kind,
    cells: &[Cell],
    home: &Path,
    broken: &mut Vec<String>,
) -> Result<Section> {
    let Kind {
        name,
        wanted,
        threads,
        part,
    } = *kind;
    let started = Instant::now();
    // Half of the time each.
    let until = args
        .minutes
        .map(|m| started + Duration::from_secs_f64((m * 30.0).max(0.0)));
    let least = wanted.div_ceil(cells.len() as u64);
    let sink = Sink::new(until, if args.first { 1 } else { MANY });
    let mut rng = Rng::new(args.seed ^ wanted);
    loop {
        let seeded: Vec<_> = cells.iter().map(|c| (*c, rng.bits())).collect();
        share(threads, seeded, |(cell, seed)| {
            log::run(part, cell, least, home, seed, &sink)
        })?;
        if until.is_none() || sink.is_over() {
            break;
        }
        println!("{name} so far: {}", print::total(&sink.total()));
    }
    let section = Section {
        total: sink.total(),
        rows: sink.rows(),
        coverage: sink.coverage(),
        least,
        threads,
        seconds: started.elapsed().as_secs_f64(),
    };
    print::section(name, &section);
    broken.extend(sink.all_broken());
    // By the clock each has to have met something; else all that was asked for.
    let least = if until.is_none() { least } else { 1 };
    for row in &section.rows {
        if row.counts.cycles < least {
            broken.push(print::too_few(name, row, least));
        }
        // A tear inside a block of the filesystem's metadata is rare. Where one lies unflushed for long, many states
        // of one recording show it.
        if row.counts.filesystem_lost > 3 + row.counts.cycles / 10 {
            broken.push(print::too_many_lost(name, row));
        }
    }
    if section.rows.len() < cells.len() {
        broken.push(format!("{name}: a filesystem or method is missing"));
    }
    broken.extend(
        section
            .coverage
            // Only recordings contain repairs.
            .missing(section.total.cycles, part == Part::States)
            .map(|what| format!("{name}: too few {what}")),
    );
    Ok(section)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` for each of `all`, several at a time. The first error ends it.
pub(super) fn share<T: Send>(
    threads: usize,
    all: Vec<T>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let left = Mutex::new(VecDeque::from(all));
    let error = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // By itself: a guard in a `while let` would be held while the work is done.
                    let next = lock(&left).pop_front();
                    let Some(next) = next else { break };
                    if let Err(e) = work(next) {
                        lock(&left).clear();
                        lock(&error).get_or_insert(e);
                    }
                }
            });
        }
    });
    match lock(&error).take() {
        Some(e) => Err(e),
        None => Ok(()),
    }
}
