//! Process of a disk: its commands and its replies.

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

/// Files and settings of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Empty file over which the disk is mounted.
    pub at: PathBuf,
    /// File with the stable data.
    pub stable: PathBuf,
    /// Copy of `stable`, which serves reads and receives every write at once.
    pub current: PathBuf,
    /// Counters of acknowledgements, which are sampled at the power cut.
    pub counters: PathBuf,
    /// Empty file for a recording of all events.
    pub record: Option<PathBuf>,
    /// Settings of the disk.
    pub settings: Settings,
}

/// Command to the disk, sent as one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Cuts the power now.
    Cut(Cut),
    /// Cuts the power during the first write after `writes` more writes have come or `millis` are over. If no such
    /// write comes within 100 ms after `millis`, cuts the power without one.
    CutAfter {
        /// Number of writes, from now.
        writes: u64,
        /// Milliseconds from now.
        millis: u64,
        /// True to cut the power only during a write that finds unflushed data, until 100 ms after `millis`. Then
        /// any write will do, for another 100 ms. A power cut that finds no unflushed data loses only the write
        /// during which it comes.
        loaded: bool,
        /// The power cut.
        cut: Cut,
    },
    /// Makes operations fail.
    Fail(Fail),
}

/// State of the disk, as its threads share it.
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

/// Serves the disk until its input ends.
///
/// # Errors
/// If a file of the setup cannot be opened, if the disk cannot be mounted, or if a command fails.
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
    // The process ends and closes the connection: a caller that still waits gets an error.
    Ok(())
}

/// Locks the memory that the process has now, and tells the kernel that its I/O frees memory. Ignores errors: without
/// the privilege the disk works as long as memory is plentiful.
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
        // Short, because a write that comes meanwhile may be due earlier.
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

/// Time within which a working subject writes something.
const A_WRITE: Duration = Duration::from_millis(100);

/// Waits until the power is cut, but not longer than `at_most`.
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
    /// Returns settings of a disk that carries out flushes and holds `hold` percent of the writes in flight.
    pub fn honest(seed: u64, hold: u64) -> Settings {
        Settings {
            seed,
            hold,
            flushes: Flushes::Honest,
        }
    }
}
