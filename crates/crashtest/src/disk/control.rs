//! The disk's process: its commands, and its replies.

use super::power::{Cut, Fail, Flushes, Power, Settings, Trigger};
use super::record::Recorder;
use super::serve;
use anyhow::{Context, Result};
use fuser::{Errno, ReplyEmpty, ReplyWrite};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a disk serves, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The empty file over which it is mounted.
    pub at: PathBuf,
    /// What is stable.
    pub stable: PathBuf,
    /// A copy of that, to be written to.
    pub current: PathBuf,
    /// The counters that are sampled at the cut.
    pub counters: PathBuf,
    /// Where to record everything.
    pub record: Option<PathBuf>,
    /// How it behaves.
    pub settings: Settings,
}

/// The disk's commands, one line each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The power goes now.
    Cut(Cut),
    /// The power goes when `writes` more writes have come, or `millis` are over: in the midst of the
    /// next write, if one comes.
    CutAfter {
        /// So many writes from now.
        writes: u64,
        /// Milliseconds from now.
        millis: u64,
        /// Waits a while for a write that finds something unflushed: a cut that finds nothing
        /// takes nothing away but that write.
        loaded: bool,
        /// The loss.
        cut: Cut,
    },
    /// Lets an operation fail.
    Fail(Fail),
}

/// The state, as its threads share it.
pub(super) type Shared = Arc<Mutex<Power>>;

pub(super) fn lock(power: &Shared) -> MutexGuard<'_, Power> {
    power.lock().unwrap_or_else(PoisonError::into_inner)
}

impl serve::Disk for Shared {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        lock(self).read(offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8], reply: ReplyWrite) {
        lock(self).write(offset, data, reply);
    }

    fn flush(&self, reply: ReplyEmpty) {
        let flushed = lock(self).flush();
        match flushed {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }
}

/// Is the disk until its input ends.
///
/// # Errors
/// If it cannot be mounted.
pub fn run(setup: &Setup, harness: &UnixStream) -> Result<()> {
    frees_memory();
    let recorder = setup.record.as_deref().map(open).transpose()?;
    let current = open(&setup.current)?;
    let len = current.metadata()?.len();
    let power = Arc::new(Mutex::new(Power::new(
        setup.settings,
        current,
        open(&setup.stable)?,
        open(&setup.counters)?,
        recorder.map(Recorder::new),
    )));
    let session = serve::mount(&setup.at, Some(len), power.clone())?;
    serve::leave_mounts(&setup.at)?;
    std::thread::spawn(move || session.run());
    let releasing = power.clone();
    if setup.settings.hold > 0 {
        std::thread::spawn(move || release(&releasing));
    }
    send(harness, &"ready")?;
    run_commands(&power, harness)?;
    // The process ends, and with it the connection: a caller that still waits gets an error.
    Ok(())
}

/// Tells the kernel that this process does the I/O that frees memory. Where there is no right to, it
/// works all the same while memory is plenty.
pub(super) fn frees_memory() {
    let _ = rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT);
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

pub(super) fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| path.display().to_string())
}

fn release(power: &Shared) {
    loop {
        let next = lock(power).release();
        let pause = next.map(|n| n.saturating_duration_since(Instant::now()));
        // Short: a write that comes meanwhile may be due before.
        std::thread::sleep(
            pause
                .unwrap_or(SHORT)
                .clamp(Duration::from_micros(100), SHORT),
        );
    }
}

const SHORT: Duration = Duration::from_micros(500);

fn run_commands(power: &Shared, harness: &UnixStream) -> Result<()> {
    for line in BufReader::new(harness).lines() {
        match serde_json::from_str(&line?)? {
            Command::Fail(fail) => lock(power).fail(fail),
            Command::Cut(cut) => {
                let report = lock(power).cut(cut)?;
                send(harness, &report)?;
            }
            Command::CutAfter {
                writes,
                millis,
                loaded,
                cut,
            } => {
                let when = |writes, loaded| Trigger {
                    writes,
                    loaded,
                    cut,
                };
                lock(power).arm(when(writes, loaded));
                wait(power, Duration::from_millis(millis));
                if loaded {
                    lock(power).arm(when(0, true));
                    wait(power, A_WRITE);
                }
                lock(power).arm(when(0, false));
                wait(power, A_WRITE);
                let report = lock(power).cut(cut)?;
                send(harness, &report)?;
            }
        }
    }
    Ok(())
}

/// Within this a subject that works writes something.
const A_WRITE: Duration = Duration::from_millis(100);

/// Waits for the power to go.
fn wait(power: &Shared, at_most: Duration) {
    let until = Instant::now() + at_most;
    while lock(power).report().is_none() && Instant::now() < until {
        std::thread::sleep(SHORT);
    }
}

pub(super) fn send<T: Serialize>(mut harness: &UnixStream, what: &T) -> Result<()> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    Ok(harness.write_all(line.as_bytes())?)
}

impl Settings {
    /// A disk that does what it says.
    pub fn honest(seed: u64, hold: u64) -> Settings {
        Settings {
            seed,
            hold,
            flushes: Flushes::Honest,
        }
    }
}
