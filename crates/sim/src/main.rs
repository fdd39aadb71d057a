//! `cargo xtask sim`: thousands of random runs, each of which its seed repeats.

#![forbid(unsafe_code)]

use logforce_sim::known_bugs::{self, KnownBug};
use logforce_sim::subject::{FileRuns, LogRuns, PageRuns, Subject};
use logforce_sim::workload::{be_quiet, held_reports, hold_reports};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const HELP: &str = "\
logforce-sim [--pages | --files] [--seeds N] [--from SEED] [--minutes M] [--threads T] [--go-on] [--listed FILE]
    Makes N random runs (10,000 by default), or runs for M minutes, and prints what they covered.
    Stops at the first run in which an invariant does not hold; with --go-on it prints each of them
    and continues. --listed: first the seeds in FILE (one at the start of each line), and those that
    find known bugs. Runs are of the log, with --pages of the page file, with --files of durable
    files.

logforce-sim [--pages | --files] --seed N
    Repeats that run, exactly. Says in one line whether it passed; if it failed, what panicked and
    what the disk had been asked comes first.

logforce-sim planted [--pages | --files] [--search] [--seeds N] [NAME]...
    In a build with --cfg planted: turns each known bug of the log, of the page file and of durable files (with
    --pages or --files of these alone) on in turn and prints which seed found it.
    The seed that is known to find it comes first, unless --search is given.
";

/// Default number of runs in a batch.
const SEEDS: u64 = 10_000;
/// Number of runs from which on a batch must cover every kind of fault and every row of the decision table.
const ENOUGH: u64 = 2_000;

/// Subject that the command names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chosen {
    Pages,
    Files,
}

#[derive(Debug)]
struct Options {
    seeds: Option<u64>,
    from: u64,
    minutes: Option<f64>,
    threads: usize,
    seed: Option<u64>,
    /// Subject of the runs; `None` for the log, or for the known bugs of all.
    subject: Option<Chosen>,
    planted: bool,
    search: bool,
    go_on: bool,
    /// File of seeds that are run as well.
    listed: Option<PathBuf>,
    names: Vec<String>,
}

impl Options {
    fn read() -> Result<Option<Options>, lexopt::Error> {
        use lexopt::prelude::*;
        let mut options = Options {
            seeds: None,
            from: 0,
            minutes: None,
            threads: std::thread::available_parallelism().map_or(2, |n| n.get()),
            seed: None,
            subject: None,
            planted: false,
            search: false,
            go_on: false,
            listed: None,
            names: Vec::new(),
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(arg) = parser.next()? {
            match arg {
                Long("seeds") => options.seeds = Some(parser.value()?.parse()?),
                Long("from") => options.from = parser.value()?.parse()?,
                Long("minutes") => options.minutes = Some(parser.value()?.parse()?),
                Long("threads") => options.threads = parser.value()?.parse::<usize>()?.max(1),
                Long("seed") => options.seed = Some(parser.value()?.parse()?),
                Long("pages") => options.subject = Some(Chosen::Pages),
                Long("files") => options.subject = Some(Chosen::Files),
                Long("search") if options.planted => options.search = true,
                Long("go-on") if !options.planted => options.go_on = true,
                Long("listed") if !options.planted => {
                    options.listed = Some(parser.value()?.into());
                }
                Long("help") | Short('h') => return Ok(None),
                Value(word) if !options.planted && word == "planted" => options.planted = true,
                Value(name) if options.planted => options.names.push(name.string()?),
                other => return Err(other.unexpected()),
            }
        }
        options.check()?;
        Ok(Some(options))
    }
}

impl Options {
    fn check(&self) -> Result<(), lexopt::Error> {
        if self.seeds == Some(0) || self.minutes.is_some_and(|m| !(m > 0.0 && m < 1e6)) {
            return Err("--seeds and --minutes must be more than 0".into());
        }
        let many = self.seeds.is_some() || self.minutes.is_some() || self.from > 0 || self.go_on;
        if self.seed.is_some() && (many || self.planted) {
            return Err("--seed makes one run and cannot be used with other options".into());
        }
        if self.planted && self.minutes.is_some() {
            return Err("planted takes --seeds, not --minutes".into());
        }
        for name in &self.names {
            let is_in = |list: &[KnownBug]| list.iter().any(|p| p.name == name);
            let others = [
                ("interleavings", known_bugs::INTERLEAVINGS),
                ("interleavings", known_bugs::ORDERINGS),
                ("exhaustive", known_bugs::EXHAUSTIVE),
                ("fuzzing", known_bugs::FUZZING),
                ("of crates/pages", known_bugs::PAGES_BY_TEST),
            ];
            let searched = [known_bugs::SIMULATION, known_bugs::PAGES, known_bugs::FILES];
            if searched.into_iter().any(is_in) {
                continue;
            }
            return Err(match others.iter().find(|(_, list)| is_in(list)) {
                Some((suite, _)) => format!("the suite {suite} must find {name}").into(),
                None => format!("no known bug is called {name}; sim/src/known_bugs.rs lists them")
                    .into(),
            });
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let options = match Options::read() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            eprintln!("error: {e}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match (options.planted, options.subject) {
        (true, _) => planted(&options),
        (false, Some(Chosen::Pages)) => runs::<PageRuns>(&options),
        (false, Some(Chosen::Files)) => runs::<FileRuns>(&options),
        (false, None) => runs::<LogRuns>(&options),
    }
}

fn runs<S: Subject>(options: &Options) -> ExitCode {
    match options.seed {
        Some(seed) => one::<S>(seed),
        None => many::<S>(options),
    }
}

/// Repeats the run of a seed.
fn one<S: Subject>(seed: u64) -> ExitCode {
    hold_reports();
    match checked::<S>(seed) {
        Ok(_) => {
            println!("seed {seed}: passed");
            ExitCode::SUCCESS
        }
        Err(why) => {
            print!("{}", held_reports());
            println!("seed {seed}: FAILED: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the run of a seed. Returns its coverage, or the reason for its failure.
fn checked<S: Subject>(seed: u64) -> Result<S::Coverage, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| S::run(seed)));
    let coverage = ran.map_err(|panic| text(&*panic))?;
    S::too_little(&coverage).map_or(Ok(coverage), Err)
}

/// Keeps a run on one processor. Its threads take turns, and waking one on another processor costs more
/// than its work. The threads inherit the processor from the thread that starts them.
#[cfg(target_os = "linux")]
fn stay_on_one_processor(worker: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(all) = sched_getaffinity(None) else {
        return;
    };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|n| all.is_set(*n)).collect();
    if let Some(mine) = allowed.get(worker % allowed.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(*mine);
        // If this fails, the run is only slower.
        let _ = sched_setaffinity(None, &one);
    }
}

#[cfg(not(target_os = "linux"))]
fn stay_on_one_processor(_: usize) {}

/// A run that failed.
struct Failed {
    seed: u64,
    why: String,
}

fn many<S: Subject>(options: &Options) -> ExitCode {
    // Panics of the device, and of checks that a power cut interrupts, are part of a run. The panic that
    // fails a run is printed below, and in full by `--seed`.
    std::panic::set_hook(Box::new(|_| {}));
    be_quiet();
    let began = Instant::now();
    let until = options.minutes.map(|m| Duration::from_secs_f64(m * 60.0));
    let seeds = match (options.seeds, until) {
        (Some(seeds), _) => seeds,
        (None, Some(_)) => u64::MAX,
        (None, None) => SEEDS,
    };
    let listed = match options.listed.as_deref().map(listed::<S>).transpose() {
        Ok(listed) => listed.unwrap_or_default(),
        Err(e) => {
            eprintln!("error: {e}");
            return ExitCode::from(2);
        }
    };
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let all = Mutex::new((S::Coverage::default(), None::<Failed>));
    std::thread::scope(|scope| {
        for worker in 0..options.threads {
            let (next, stop, all, listed) = (&next, &stop, &all, &listed);
            scope.spawn(move || {
                stay_on_one_processor(worker);
                let over = || until.is_some_and(|u| began.elapsed() >= u);
                while !stop.load(Relaxed) && !over() {
                    let n = next.fetch_add(1, Relaxed);
                    let seed = match listed.get(n as usize) {
                        Some(seed) => *seed,
                        None if n - listed.len() as u64 >= seeds => return,
                        None => options.from.wrapping_add(n - listed.len() as u64),
                    };
                    let ran = checked::<S>(seed);
                    let mut all = all.lock().expect("never panics");
                    match ran {
                        Ok(coverage) => S::add(&mut all.0, &coverage),
                        Err(why) => {
                            if options.go_on {
                                println!("{}", failure::<S>(seed, &why));
                            } else {
                                stop.store(true, Relaxed);
                            }
                            if all.1.as_ref().is_none_or(|f| f.seed > seed) {
                                all.1 = Some(Failed { seed, why });
                            }
                        }
                    }
                }
            });
        }
    });
    let (coverage, failed) = all.into_inner().expect("never panics");
    let took = began.elapsed().as_secs_f64();
    println!(
        "{coverage}in {took:.1} s, {:.0} runs per second",
        S::runs(&coverage) as f64 / took
    );
    if let Some(Failed { seed, why }) = failed {
        println!("{}", failure::<S>(seed, &why));
        return ExitCode::FAILURE;
    }
    let gaps = S::gaps(&coverage);
    if S::runs(&coverage) >= ENOUGH && !gaps.is_empty() {
        println!("FAILED, too little covered: {}", gaps.join("; "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Returns the seeds in a file, each at the start of a line before a note on what it found, and the seeds of
/// the known bugs.
fn listed<S: Subject>(file: &Path) -> Result<Vec<u64>, String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("{name}: {e}"))?;
    let lines = text.lines().map(str::trim);
    let seeds = lines.filter(|l| !l.is_empty() && !l.starts_with('#'));
    let seeds = seeds.map(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        let seed = word.parse();
        seed.map_err(|_| format!("{name}: no seed at the start of '{line}'"))
    });
    let mut seeds: Vec<u64> = seeds.collect::<Result<_, _>>()?;
    seeds.extend(S::KNOWN_BUGS.iter().filter_map(|bug| bug.seed));
    seeds.sort_unstable();
    seeds.dedup();
    Ok(seeds)
}

fn failure<S: Subject>(seed: u64, why: &str) -> String {
    let words: String = S::WORDS.iter().map(|word| format!("{word} ")).collect();
    format!("FAILED seed {seed}: {why}\nagain: cargo xtask sim {words}--seed {seed}")
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without text").to_owned()
}

/// Runs this program again with a known bug. Returns the seed of the run that failed, and why.
fn with_bug<S: Subject>(
    name: &str,
    threads: usize,
    from: u64,
    seeds: u64,
) -> Option<(String, String)> {
    let program = std::env::current_exe().expect("this program has a path");
    let run = std::process::Command::new(program)
        .args(S::WORDS)
        .args(["--from", &from.to_string()])
        .args(["--seeds", &seeds.to_string()])
        .args(["--threads", &threads.to_string()])
        .env("LOGFORCE_PLANTED", name)
        .output()
        .ok()?;
    // Any other status does not mean a failed run, but a signal or an unknown bug.
    if run.status.code() != Some(1) {
        return None;
    }
    let text = String::from_utf8_lossy(&run.stdout);
    let line = text.lines().find_map(|l| l.strip_prefix("FAILED seed "))?;
    let (seed, why) = line.split_once(": ")?;
    Some((seed.to_owned(), why.to_owned()))
}

/// Searches for each known bug.
fn planted(options: &Options) -> ExitCode {
    if !cfg!(planted) {
        eprintln!("error: this build has no known bugs in it; `cargo xtask planted` makes one");
        return ExitCode::from(2);
    }
    println!(
        "{:<34} {:>6} {:>7}  message of the run",
        "known bug", "seed", "s"
    );
    let mut missed = Vec::new();
    let mut caught = 0;
    if options.subject.is_none() {
        caught += search::<LogRuns>(options, &mut missed);
    }
    if options.subject != Some(Chosen::Files) {
        caught += search::<PageRuns>(options, &mut missed);
    }
    if options.subject != Some(Chosen::Pages) {
        caught += search::<FileRuns>(options, &mut missed);
    }
    let seeds = options.seeds.unwrap_or(SEEDS);
    println!("{caught} known bugs caught within {seeds} seeds");
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("FAILED: not caught: {}", missed.join(", "));
    ExitCode::FAILURE
}

/// Searches for the known bugs of one list. Returns the number of bugs that were caught.
fn search<S: Subject>(options: &Options, missed: &mut Vec<&str>) -> u64 {
    let seeds = options.seeds.unwrap_or(SEEDS);
    let chosen =
        |p: &&KnownBug| options.names.is_empty() || options.names.iter().any(|name| name == p.name);
    let mut caught = 0;
    for bug in S::KNOWN_BUGS.iter().filter(chosen) {
        let began = Instant::now();
        let run = |from, seeds| with_bug::<S>(bug.name, options.threads, from, seeds);
        let known = bug.seed.filter(|_| !options.search);
        let mut found = known.and_then(|seed| run(seed, 1));
        if found.is_none() {
            if let Some(seed) = known {
                println!("{:<34} {seed:>6}          no longer finds it", bug.name);
            }
            found = run(0, seeds);
        }
        let took = began.elapsed().as_secs_f64();
        match found {
            Some((seed, why)) => {
                let why: String = why.chars().take(90).collect();
                println!("{:<34} {seed:>6} {took:>7.1}  {why}", bug.name);
                caught += 1;
            }
            None => {
                println!("{:<34} {:>6} {took:>7.1}  {}", bug.name, "-", bug.breaks);
                missed.push(bug.name);
            }
        }
    }
    caught
}
