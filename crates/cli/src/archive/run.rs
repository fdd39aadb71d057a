//! `logforce archive run`.

use super::state::{State, live_durable};
use super::{Access, Url, base, failed, log_of, metrics, owner, times};
use crate::exit::End;
use crate::output::{Target, complain, is_quiet, print};
use crate::progress::Bar;
use crate::signal;
use crate::watch::lines::{Format, Lines};
use crate::watch::server::{Address, Server};
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use logforce::replica::AtHoldLimit;
use logforce_archive::object::Base;
use logforce_archive::{Archive, AttachOptions, Attached, Error, Status};
use logforce_measure::Interrupt;
use logforce_terminal::arguments;
use logforce_terminal::numbers::bytes;
use logforce_terminal::progress::Progress;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Interval at which signals and the state are looked at.
const TICK: Duration = Duration::from_millis(100);

const MORE: &str = "\
Copies what is durable in LOGDIR, also while a program writes it, and goes on until Ctrl-C or SIGTERM, which
archive the rest and end it with 0. A second signal ends it at once; the next run continues either way. A
commit is in the archive after --delay and one put. What is newer is lost with the machine: --json and
--listen report it as behind_seconds. While the store fails, it is tried again for as long as it takes.

A file in LOGDIR, the hold, keeps the log from dropping what is not archived, also after the end: the next
run continues there. Without --limit the log may fill its disk if that run never comes. --release removes
the hold; an archive that then misses a part of the log must begin anew at another URL.

LOGDIR may be a page file that commits through a log. Its log is archived, and a base copy is made first,
with which a restore begins; `logforce archive base` makes further ones.

A terminal gets a line every --interval. --json appends a line for each, and starts a new file when its file
was renamed or removed. --listen serves metrics for Prometheus at http://127.0.0.1:PORT/metrics.

Exit status: 0 ended, or --once is done, 2 unusable arguments, 4 failed: another machine has taken the log
over, or the store refuses, for example.";

/// Archives a log.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The directory of the log, or of a page file that commits through a log
    #[arg(value_name = "LOGDIR")]
    log: PathBuf,
    /// URL or directory of the archive; created if the bucket or directory has none
    #[arg(value_name = "URL", required_unless_present = "release", value_parser = Url)]
    url: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Longest time that a commit waits for others before it is put, such as 500ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = times::duration)]
    delay: Duration,
    /// Number of chunks that are put at once, 1 to 256
    #[arg(long, value_name = "N", default_value = "8", value_parser = arguments::within(1_usize, 256))]
    window: usize,
    /// Log in a chunk at most, 64KiB to 64MiB
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size_within(64 << 10, 64 << 20))]
    chunk_size: u64,
    /// Log in a segment, which replaces chunks, 1MiB to 128MiB; up to five times as much is kept in memory
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = size_within(1 << 20, 128 << 20))]
    segment_size: u64,
    /// Name of this machine, for people who read the archive, up to 1,024 bytes [default: its host name]
    #[arg(long, value_name = "NAME", value_parser = owner)]
    owner: Option<String>,
    /// Most that the log keeps for the archive, bytes or such as 10GiB [default: everything]
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, requires = "at_limit")]
    limit: Option<u64>,
    /// Choice at the limit
    #[arg(long, value_enum, requires = "limit")]
    at_limit: Option<AtLimit>,
    /// Archive what is durable now, and end
    #[arg(long, conflicts_with = "listen")]
    once: bool,
    /// Remove the hold of an archive that is given up, and end; nothing is archived
    #[arg(long, conflicts_with_all = ["once", "limit", "json", "listen"])]
    release: bool,
    /// Time between two lines of state
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = times::duration)]
    interval: Duration,
    /// Append a JSON line with the state to FILE each --interval; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Serve metrics for Prometheus at this port of the loopback address, or at this address
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    listen: Option<Address>,
    /// Permit --listen on an address that other machines can reach; everyone there can read the metrics
    #[arg(long, requires = "listen")]
    allow_remote: bool,
}

/// Choice at the limit of what the log keeps.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum AtLimit {
    /// The log drops what is not archived; the archive must begin anew at another URL
    Drop,
    /// The log refuses appends until the archive has caught up
    Refuse,
}

/// Returns a parser of sizes from `least` to `most` bytes.
fn size_within(least: u64, most: u64) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let size = arguments::size(text)?;
        match (least..=most).contains(&size) {
            true => Ok(size),
            false => Err(format!(
                "'{text}' is outside the range: give a size from {} to {}",
                bytes(least),
                bytes(most)
            )),
        }
    }
}

/// Archives until the user ends it.
pub fn run(args: Args) -> anyhow::Result<End> {
    let log = log_of(&args.log)?;
    if log != args.log && !args.release {
        // A page file without a log is refused before anything is archived.
        logforce::pages::base::read(&args.log).map_err(|error| failed(error.into()))?;
    }
    let Some(url) = args.url.as_deref().filter(|_| !args.release) else {
        return release(&args, &log);
    };
    let mut run = Run::begin(&args, url, &log)?;
    let archive = args.access.open(url)?;
    let interrupt = Interrupt::new();
    if !args.once {
        // A run with --once has an end: a signal may kill it, and the next run continues.
        signal::install(interrupt.clone(), Arc::default())?;
    }
    let attached = archive.attach_directory(&log, options(&args));
    let attached = attached.map_err(|error| ended(error, &args))?;
    run.attached(&attached)?;
    let mut base = None;
    if log != args.log && archive.list().map_err(failed)?.bases.is_empty() {
        base = Some(FirstBase::begin(&archive, &args, interrupt.clone())?);
    }
    while (!args.once || base.is_some()) && !interrupt.is_raised() && !attached.status().has_ended {
        base = base.and_then(FirstBase::ended);
        run.tick(&attached.status())?;
        sleep(TICK);
    }
    if interrupt.is_raised() {
        complain("archiving the rest; a second Ctrl-C ends at once");
    }
    let status = run.close(attached).map_err(|error| ended(error, &args))?;
    run.finish(&status, &args)?;
    Ok(End::Done)
}

/// The first base copy of a page file, which is made while its log is archived.
struct FirstBase {
    file: PathBuf,
    thread: JoinHandle<Result<Base, Error>>,
}

impl FirstBase {
    fn begin(archive: &Archive, args: &Args, interrupt: Interrupt) -> anyhow::Result<FirstBase> {
        let (archive, file) = (archive.clone(), args.log.clone());
        // Without commits, the copy waits for the first one.
        let patience = args.once.then_some(base::PATIENCE);
        let body = move || {
            let begun = Instant::now();
            let is_late = || patience.is_some_and(|patience| begun.elapsed() > patience);
            archive.base(&file, &|| interrupt.is_raised() || is_late(), &mut |_| {})
        };
        let thread = std::thread::Builder::new().spawn(body);
        Ok(FirstBase {
            file: args.log.clone(),
            thread: thread.context("cannot start the thread of the base copy")?,
        })
    }

    /// Reports the end of the copy, once it has ended; else returns it.
    fn ended(self) -> Option<FirstBase> {
        if !self.thread.is_finished() {
            return Some(self);
        }
        complain(&match self.thread.join() {
            Ok(Ok(made)) => base::described(&self.file, &made),
            Ok(Err(error)) => format!(
                "{error}. Without a base copy nothing can be restored: make one by `logforce archive base`"
            ),
            Err(_) => "the thread of the base copy panicked".to_owned(),
        });
        None
    }
}

fn release(args: &Args, log: &Path) -> anyhow::Result<End> {
    logforce::replica::read_only(log, None)?.release()?;
    let text = format!(
        "{} keeps nothing for an archive any more, unless a `logforce archive run` goes on\n",
        args.log.display()
    );
    print(&text, false)?;
    Ok(End::Done)
}

fn options(args: &Args) -> AttachOptions {
    let owner = args.owner.clone().or_else(host_name);
    let mut options = AttachOptions::new()
        .delay(args.delay)
        .window(args.window)
        .chunk_size(args.chunk_size)
        .segment_size(args.segment_size);
    if let Some(owner) = owner {
        options = options.owner(owner);
    }
    if let (Some(limit), Some(choice)) = (args.limit, args.at_limit) {
        let choice = match choice {
            AtLimit::Drop => AtHoldLimit::DropReplica,
            AtLimit::Refuse => AtHoldLimit::RefuseAppends,
        };
        options = options.limit(limit, choice);
    }
    options
}

/// Returns the name of this machine, where the system offers it without a call.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("COMPUTERNAME").ok());
    let name = name.or_else(|| std::env::var("HOSTNAME").ok())?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Adds the remedy to the error that has ended the archive.
fn ended(error: Error, args: &Args) -> anyhow::Error {
    match &error {
        Error::Log(logforce::Error::Truncated { .. }) => anyhow!(
            "{}: {error}, and the archive ends below: a part of the log was dropped before it was archived. \
             Begin an archive at another URL",
            args.log.display()
        ),
        _ => failed(error),
    }
}

/// Outputs of a run.
struct Run {
    state: State,
    dir: PathBuf,
    lines: Option<Lines>,
    server: Option<Server>,
    /// State that the metrics are made of.
    shared: Arc<Mutex<State>>,
    interval: Duration,
    printed: Instant,
    is_terminal: bool,
    trouble: Option<String>,
}

impl Run {
    /// Opens the outputs, so that a wrong name or address is reported before anything is archived.
    fn begin(args: &Args, url: &str, log: &Path) -> anyhow::Result<Run> {
        let lines = args.json.as_ref();
        let lines = lines.map(|target| Lines::open(target, Format::Json));
        let server = args.listen.map(|a| Server::bind(a, args.allow_remote));
        Ok(Run {
            state: State {
                schema: "logforce-archive-run",
                version: 1,
                log: args.log.display().to_string(),
                url: url.to_owned(),
                ..State::default()
            },
            dir: log.to_owned(),
            lines: lines.transpose().context("--json")?,
            server: server.transpose()?,
            shared: Arc::default(),
            interval: args.interval,
            printed: Instant::now(),
            is_terminal: std::io::stderr().is_terminal() && !is_quiet(),
            trouble: None,
        })
    }

    fn attached(&mut self, attached: &Attached) -> anyhow::Result<()> {
        self.state.epoch = attached.epoch().0;
        let mut text = format!(
            "archiving {} to {}, epoch {}",
            self.state.log, self.state.url, self.state.epoch
        );
        if let Some(server) = self.server.take() {
            text.push_str(&format!("; metrics at http://{}/metrics", server.address()));
            let shared = self.shared.clone();
            self.update("state", &attached.status());
            server.start(move || {
                metrics::text(&shared.lock().unwrap_or_else(PoisonError::into_inner))
            })?;
        }
        complain(&text);
        Ok(())
    }

    fn update(&mut self, event: &'static str, status: &Status) {
        let is_behind = status.behind_for >= Duration::from_secs(1);
        let live = is_behind.then(|| live_durable(&self.dir)).flatten();
        self.state.update(event, status, live);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.clone_from(&self.state);
    }

    /// Reports the state, if it is time for it, and trouble that begins or ends.
    fn tick(&mut self, status: &Status) -> anyhow::Result<()> {
        self.update("state", status);
        self.report_trouble(status);
        if self.printed.elapsed() < self.interval {
            return Ok(());
        }
        self.printed = Instant::now();
        if self.is_terminal {
            complain(&self.state.text());
        }
        self.write()
    }

    fn report_trouble(&mut self, status: &Status) {
        match (&self.trouble, &status.trouble) {
            (None, Some(trouble)) => complain(&format!("the store fails, trying again: {trouble}")),
            (Some(_), None) => complain("the store works again"),
            _ => {}
        }
        self.trouble.clone_from(&status.trouble);
    }

    fn write(&mut self) -> anyhow::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.write_json(&self.state),
            None => Ok(()),
        }
    }

    /// Archives the rest, and returns the last state.
    fn close(&mut self, attached: Attached) -> Result<Status, Error> {
        let bar = Bar::new();
        bar.doing("archiving");
        let mut first = None;
        let closed = attached.close_with(&mut |status| {
            let first = *first.get_or_insert(status.archived);
            let whole = status.durable.since(first).max(1);
            bar.fraction(status.archived.since(first) as f64 / whole as f64);
            self.report_trouble(status);
        });
        bar.clear();
        closed
    }

    fn finish(&mut self, status: &Status, args: &Args) -> anyhow::Result<()> {
        let mut log = logforce::replica::read_only(&self.dir, None)?;
        let proven = log.state()?.end;
        let written = log.written_lsn();
        self.state.unproven_bytes = written.since(status.archived);
        // One that was closed meanwhile has proven everything.
        self.state.was_killed = !log.is_in_use() && written > proven;
        self.update("end", status);
        self.write()?;
        let text = format!(
            "{}\n{1} keeps what is not archived for the next run; to give the archive up, `logforce archive run \
             {1} --release`\n",
            self.state.text(),
            args.log.display()
        );
        print(&text, args.json == Some(Target::Stdout))
    }
}
