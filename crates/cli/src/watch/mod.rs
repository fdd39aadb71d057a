//! `logforce watch`.

pub mod lines;
mod metrics;
mod record;
mod reporter;
pub mod server;
mod text;

use crate::bench::common::{DirArgs, command_line, counters, leaving_nothing, one_place_each};
use crate::bench::os;
use crate::exit::{End, Usage};
use crate::output::Target;
use anyhow::{Context, bail};
use lines::{Format, Lines};
use logforce::disk::calibration;
use logforce_device::{Facts, Method, System};
use logforce_measure::machine::Machine;
use logforce_measure::watch::{CommitFile, Event, Settings, Totals, Watch};
use logforce_measure::workplace::Workplace;
use logforce_measure::{Interrupt, MeasureError};
use logforce_terminal::arguments;
use logforce_terminal::numbers::bytes;
use record::Start;
use reporter::Reporter;
use server::{Address, Server};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Shortest interval. More commits a second are the task of `logforce bench`.
const SHORTEST: Duration = Duration::from_millis(10);
/// Longest interval, and largest limit of --stall.
const LONGEST: Duration = Duration::from_secs(3600);
/// Largest commit, bytes.
const LARGEST: u64 = 1 << 20;
/// Number of events that wait for an output that is blocked; further ones are dropped and counted.
const QUEUE: usize = 1000;

const MORE: &str = "\
Runs until Ctrl-C or SIGTERM, then prints a summary and exits with 0. A failed commit ends it with 4: a
full disk, for example. A line a minute has the percentiles; each commit that takes --stall seconds or
longer has another line. Times are UTC.

--csv and --json append, a line for each event, and start a new file when theirs was renamed or removed.
--listen serves metrics for Prometheus at http://127.0.0.1:PORT/metrics.

The commits are those of a log there: the same method (see `logforce calibrate`), and a small file that is
overwritten in place. The file is removed at the end.";

/// Flags of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    place: DirArgs,
    /// Seconds from the start of one commit to the start of the next, 0.01 to 3600
    #[arg(long, value_name = "S", default_value = "1", value_parser = arguments::seconds_to(LONGEST))]
    interval: Duration,
    /// Size of a commit, at most 1 MiB [default: the smallest write of a log there, mostly 4 KiB]
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    size: Option<u64>,
    /// Commit method [default: the one that logs use there]
    #[arg(long, value_name = "METHOD", value_parser = arguments::method)]
    method: Option<Method>,
    /// Seconds from which a commit counts as a stall
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = arguments::seconds_to(LONGEST))]
    stall: Duration,
    /// Append a CSV line for each event to FILE; - writes to standard output, and text to standard error
    #[arg(long, value_name = "FILE")]
    csv: Option<Target>,
    /// Append a JSON line for each event to FILE; - writes to standard output, and text to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Serve metrics for Prometheus at this port of the loopback address, or at this address
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    listen: Option<Address>,
    /// Permit --listen on an address that other machines can reach; everyone there can read the metrics
    #[arg(long, requires = "listen")]
    allow_remote: bool,
}

/// Commits until the user ends it, and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    one_place_each(&[("--csv", &args.csv), ("--json", &args.json)])?;
    if args.interval < SHORTEST {
        bail!(Usage(
            "--interval is too short: at least 0.01 seconds; `logforce bench` commits without a pause"
                .to_owned()
        ));
    }
    args.place.check()?;
    // Bound and opened first, so that a wrong address or name is reported before anything is written.
    let server = args.listen.map(|a| Server::bind(a, args.allow_remote));
    let server = server.transpose()?;
    let open = |target: &Option<Target>, format| {
        let target = target.as_ref();
        target.map(|target| Lines::open(target, format)).transpose()
    };
    let files = [
        open(&args.csv, Format::Csv)?,
        open(&args.json, Format::Json)?,
    ];
    let files = files.into_iter().flatten().collect();
    let dir = args.place.dir().to_owned();
    let watched = leaving_nothing(&dir, |place, interrupt| {
        Ok(watch(&args, &dir, place, interrupt, server, files))
    })?;
    watched.unwrap_or(Ok(End::Done))
}

fn watch(
    args: &Args,
    dir: &Path,
    place: &Workplace,
    interrupt: Interrupt,
    server: Option<Server>,
    files: Vec<Lines>,
) -> anyhow::Result<End> {
    let facts = place.directory().facts_for_writing();
    let facts = facts.with_context(|| format!("cannot read the facts of {}", dir.display()))?;
    let method = match args.method {
        Some(method) => method,
        None => {
            let cache = calibration::default_cache();
            let known = calibration::known_or_measured(dir, cache.as_deref())?;
            known.decision.method
        }
    };
    let size = size(args, &facts, method)?;
    let Some(assessment) = facts.assess(method, CommitFile::STATE) else {
        let why = facts.why_not_offered(method);
        bail!(Usage(format!("--method {method} cannot be used: {why}")));
    };
    let settings = Settings {
        interval: args.interval,
        stall: args.stall,
    };
    let machine = Machine::new(&facts, os::host()).at(dir);
    let start = Start::new(
        command_line(),
        dir,
        machine,
        method,
        size,
        settings,
        &assessment,
    );
    let totals = Arc::new(Totals::default());
    let address = server.as_ref().map(Server::address);
    if let Some(server) = server {
        let clock = os::system().runtime();
        let source = metrics::Source::new(&start, Arc::clone(&totals), clock);
        server.start(move || source.text())?;
    }
    let mut reporter = Reporter::new(start, files, Arc::clone(&totals), interrupt.clone());
    reporter.begin(address)?;
    let (sender, events) = sync_channel(QUEUE);
    let lost = reporter.lost();
    let commits = Commits {
        dir,
        place,
        method,
        size,
        unit: facts.write_unit(),
        settings,
        interrupt: &interrupt,
        totals: &totals,
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("commits".to_owned());
        let thread = thread
            .spawn_scoped(scope, || commits.run(sender, &lost))
            .context("cannot start the thread that commits")?;
        let reported = reporter.run(&events);
        // Ends the commits after an output has failed.
        interrupt.raise();
        drop(events);
        let committed = match thread.join() {
            Ok(committed) => committed,
            Err(_) => bail!("the thread that commits has panicked"),
        };
        reported?;
        match committed {
            // Interrupted while the file was filled.
            Err(MeasureError::Interrupted) | Ok(()) => Ok(End::Done),
            Err(e) => Err(advised(e)),
        }
    })
}

/// Returns the size of a commit.
fn size(args: &Args, facts: &Facts, method: Method) -> anyhow::Result<u64> {
    let unit = u64::from(facts.write_unit());
    let size = args.size.unwrap_or(unit);
    if size > LARGEST {
        bail!(Usage(format!(
            "--size {} is too large: at most {}",
            bytes(size),
            bytes(LARGEST)
        )));
    }
    if method.plan().direct && !size.is_multiple_of(unit) {
        bail!(Usage(format!(
            "--size {}: {method} writes multiples of {} here; give one, or another --method",
            bytes(size),
            bytes(unit)
        )));
    }
    Ok(size)
}

/// Adds the remedy to an error of the disk.
fn advised(e: MeasureError) -> anyhow::Error {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kind = match &e {
        MeasureError::Io { cause, .. } => Some(cause.kind()),
        _ => None,
    };
    let advice = match kind {
        Some(StorageFull | QuotaExceeded) => "free space there, then start the watch again",
        Some(ReadOnlyFilesystem) => {
            "the system may have stopped writes after an error of the disk: see its messages (dmesg)"
        }
        Some(_) => "see the system's messages (dmesg) for errors of the disk",
        None => return e.into(),
    };
    anyhow::anyhow!("{e}; {advice}")
}

/// The thread that commits.
struct Commits<'a> {
    dir: &'a Path,
    place: &'a Workplace,
    method: Method,
    size: u64,
    unit: u32,
    settings: Settings,
    interrupt: &'a Interrupt,
    totals: &'a Totals,
}

impl Commits<'_> {
    /// Makes the file, and commits until the interrupt. An event that finds the queue full is counted in
    /// `lost`, because an output that is blocked must not delay commits.
    fn run(&self, sender: SyncSender<Event>, lost: &AtomicU64) -> Result<(), MeasureError> {
        let dir = self.place.directory();
        let (method, interrupt) = (self.method, self.interrupt.clone());
        let mut file = CommitFile::make(dir, method, self.size, self.unit, interrupt)?;
        let counters = counters(self.dir);
        let watch = Watch {
            settings: self.settings,
            runtime: os::system().runtime(),
            counters: &*counters,
            interrupt: self.interrupt,
            totals: self.totals,
        };
        watch.run(&mut file, &mut |event| {
            if sender.try_send(event).is_err() {
                lost.fetch_add(1, Relaxed);
            }
        })
    }
}
