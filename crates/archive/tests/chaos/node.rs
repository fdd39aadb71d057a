//! A node: opens its log or takes it over, attaches the archive, and commits with several threads.

use crate::content::Id;
use logforce::{Guarantee, Log, Lsn, Options, Policy};
use logforce_archive::store::{Pacing, StoreOptions};
use logforce_archive::{Archive, ArchiveOptions, AttachOptions, Error};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Threads of a node that commit.
const COMMITTERS: u64 = 4;
/// Tries of an operation that fails because of the store.
const TRIES: u32 = 100;

/// Seconds by which the clock of this node is ahead; negative if it is behind.
static AHEAD: AtomicI64 = AtomicI64::new(0);

fn clock() -> SystemTime {
    let ahead = AHEAD.load(Relaxed);
    let by = Duration::from_secs(ahead.unsigned_abs());
    let now = SystemTime::now();
    if ahead < 0 { now - by } else { now + by }
}

fn unix_time() -> u64 {
    let since = clock().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Task of a node.
#[derive(Debug, Clone)]
pub struct Job {
    pub directory: PathBuf,
    pub url: String,
    pub number: u64,
    pub is_standby: bool,
    /// Seconds by which its clock is ahead.
    pub ahead: i64,
}

impl Job {
    pub fn from_environment() -> Option<Job> {
        let of = |name: &str| std::env::var(format!("CHAOS_{name}")).ok();
        Some(Job {
            directory: of("DIRECTORY")?.into(),
            url: of("URL")?,
            number: of("NUMBER")?.parse().ok()?,
            is_standby: of("STANDBY")? == "true",
            ahead: of("AHEAD")?.parse().ok()?,
        })
    }

    pub fn put_into(&self, command: &mut Command) {
        command
            .env("CHAOS_DIRECTORY", &self.directory)
            .env("CHAOS_URL", &self.url)
            .env("CHAOS_NUMBER", self.number.to_string())
            .env("CHAOS_STANDBY", self.is_standby.to_string())
            .env("CHAOS_AHEAD", self.ahead.to_string());
    }
}

pub fn options() -> Options {
    Options::new()
        .require(Guarantee::ProcessCrash)
        .calibrate(false)
        .segment_size(256 << 10)
}

/// Opens the archive with short pauses and limits: the store of these tests is near.
pub fn archive(url: &str, settings: &[(String, String)]) -> Archive {
    let mut store = StoreOptions::default().time_limit(Duration::from_secs(1));
    for (name, value) in settings {
        store = store.setting(name, value);
    }
    let pacing = Pacing {
        first: Duration::from_millis(20),
        longest: Duration::from_millis(300),
        deadline: Duration::from_secs(30),
    };
    let options = ArchiveOptions {
        store,
        pacing,
        clock,
        ..ArchiveOptions::default()
    };
    Archive::open(url, options).unwrap()
}

/// Writes one line for the test, in one call: a kill never leaves half of it.
fn say(line: &str) {
    let _ = std::io::stdout()
        .lock()
        .write_all(format!("@{line}\n").as_bytes());
}

pub fn run(job: &Job) {
    AHEAD.store(job.ahead, Relaxed);
    let ended = match work(job) {
        Ok(()) => "closed".to_owned(),
        Err(error) if error.is_deposed() => format!("deposed {error}"),
        Err(Error::State(error)) => format!("refused {error}"),
        Err(error) => format!("failed {error}"),
    };
    say(&format!("ended {}", ended.replace('\n', " ")));
}

fn work(job: &Job) -> Result<(), Error> {
    let archive = archive(&job.url, &[]);
    let name = format!("node {}", job.number);
    if job.is_standby {
        let (epoch, end) = insist(|| take_over(&archive, &job.directory, &name))?;
        say(&format!("took {epoch} {end}"));
    }
    let log = logforce::open_or_create(&job.directory, options())?;
    let attach = || {
        let options = AttachOptions::new()
            .synchronous()
            .owner(&name)
            .window(4)
            .segment_size(1 << 20);
        archive.attach(&log, options)
    };
    let attached = insist(attach)?;
    say(&format!("owner {}", attached.epoch().0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let commands = log.clone();
        let stop = &stop;
        for thread in 0..COMMITTERS {
            let (log, epoch) = (&log, attached.epoch().0);
            scope.spawn(move || commit(log, job.number, thread, epoch, stop));
        }
        // Not joined: it waits for its input, which ends with the test.
        std::thread::spawn(move || obey(&commands));
    });
    drop(log);
    attached.close()
}

pub fn take_over(archive: &Archive, to: &Path, name: &str) -> Result<(u64, Lsn), Error> {
    let taken = archive.takeover(to, name, Guarantee::ProcessCrash, &mut |_| {});
    taken.map(|(epoch, report)| (epoch.0, report.end))
}

/// Tries again what the store has made fail, as a program would.
pub fn insist<T>(mut operation: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let mut tries = 0;
    loop {
        match operation() {
            Err(error) if tries < TRIES && is_passing(&error) => tries += 1,
            result => return result,
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Store(_)) || error.to_string().contains("call it again")
}

fn commit(log: &Log, node: u64, thread: u64, epoch: u64, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Relaxed) {
            return;
        }
        let id = Id {
            node,
            thread,
            number,
        };
        let (ahead, began) = (AHEAD.load(Relaxed), unix_time());
        match log.commit_with(id.record(), Policy::Replicated) {
            Ok(at) => {
                // A clock that was set meanwhile says nothing about this commit.
                let began = began * u64::from(AHEAD.load(Relaxed) == ahead);
                say(&format!("ack {epoch} {} {} {began} {id}", at.start, at.end));
            }
            Err(_) => return stop.store(true, Relaxed),
        }
        std::thread::sleep(Duration::from_millis(id.number % 7));
    }
}

/// Follows the commands of the test: in each line a position to truncate to, or the seconds by which the clock
/// is ahead from now on. At the end the test is gone.
fn obey(log: &Log) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match line.split_once(' ') {
            Some(("front", front)) => {
                // The log may have failed meanwhile, which its committers report.
                let _ = log.truncate_front(Lsn(front.parse().unwrap()));
            }
            Some(("ahead", seconds)) => AHEAD.store(seconds.parse().unwrap(), Relaxed),
            _ => break,
        }
    }
    std::process::exit(0);
}
