//! Writer beside a measurement: writes at a given rate and syncs every second, as a database does that
//! compacts or checkpoints while it commits.

use crate::MeasureError;
use crate::run::prepare::{restamp, scramble, write};
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Name of the file in the measured directory.
const NAME: &str = "beside";
/// Largest write, bytes.
const PIECE: u64 = 1 << 20;
/// Interval between writes. Each of them makes up for the time since the last one.
const TICK: Duration = Duration::from_millis(20);
/// Interval between syncs. Without them the system's cache would absorb the writes for half a minute, and
/// the disk would have nothing to do meanwhile.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// A thread that writes until it is stopped. The writes go through the system's cache.
pub struct BackgroundWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    started: Instant,
    rate: u64,
}

/// Work of a [`BackgroundWriter`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Written {
    /// Rate that was asked for, bytes per second.
    pub asked: u64,
    /// Bytes that were written and synced.
    pub bytes: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// Time from the start to the end of the last sync.
    pub time: Duration,
}

impl Written {
    /// Returns the bytes written and synced per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(1e-3)
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    failed: AtomicBool,
    bytes: AtomicU64,
    syncs: AtomicU64,
    /// Microseconds from the start to the end of the last sync.
    until: AtomicU64,
    error: std::sync::Mutex<Option<io::Error>>,
}

impl BackgroundWriter {
    /// Creates a file of at most `size` bytes in `directory`, and begins to write `rate` bytes per second to
    /// it. Once the file is full, it is overwritten from its beginning.
    pub fn start(
        directory: &dyn Directory,
        rate: u64,
        size: u64,
    ) -> Result<BackgroundWriter, MeasureError> {
        let path = directory.path().join(NAME);
        let file = directory
            .open(NAME, OpenFile::CREATE)
            .map_err(MeasureError::io(format!("making {}", path.display())))?;
        let shared = Arc::new(Shared::default());
        let started = Instant::now();
        let job = Job {
            file,
            rate,
            size: size.max(PIECE),
            started,
            shared: Arc::clone(&shared),
        };
        let thread = Builder::new()
            .name("beside".to_owned())
            .spawn(move || job.run())
            .map_err(MeasureError::io("starting a thread"))?;
        Ok(BackgroundWriter {
            shared,
            thread: Some(thread),
            started,
            rate,
        })
    }

    /// Fails if a write or sync has failed.
    pub fn check(&self) -> Result<(), MeasureError> {
        match self.shared.failed.load(Relaxed) {
            true => Err(self.error()),
            false => Ok(()),
        }
    }

    /// Ends the thread after a last sync, and returns what it has written.
    pub fn stop(mut self) -> Result<Written, MeasureError> {
        self.end();
        self.check()?;
        let s = &self.shared;
        Ok(Written {
            asked: self.rate,
            bytes: s.bytes.load(Relaxed),
            syncs: s.syncs.load(Relaxed),
            time: Duration::from_micros(s.until.load(Relaxed)).min(self.started.elapsed()),
        })
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    fn error(&self) -> MeasureError {
        let error = self.shared.error.lock().ok().and_then(|mut e| e.take());
        let error = error.unwrap_or_else(|| io::Error::other("it failed before"));
        MeasureError::io("writing beside the measurement")(error)
    }
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        self.end();
    }
}

struct Job {
    file: Arc<dyn File>,
    rate: u64,
    size: u64,
    started: Instant,
    shared: Arc<Shared>,
}

impl Job {
    fn run(self) {
        if let Err(e) = self.write_and_sync() {
            if let Ok(mut error) = self.shared.error.lock() {
                *error = Some(e);
            }
            self.shared.failed.store(true, Relaxed);
        }
    }

    fn write_and_sync(&self) -> io::Result<()> {
        let mut buf = AlignedBuf::zeroed(PIECE as usize, 4096);
        scramble(&mut buf, 0x000b_e51d);
        let (mut written, mut given_up, mut offset, mut pieces) = (0, 0, 0, 0);
        let mut sync_at = SYNC_EVERY;
        loop {
            let is_last = self.shared.stop.load(Relaxed);
            if is_last || self.started.elapsed() >= sync_at {
                self.file.barrier(Barrier::Data)?;
                let until = self.started.elapsed();
                self.shared.bytes.store(written, Relaxed);
                self.shared.syncs.fetch_add(1, Relaxed);
                let us = u64::try_from(until.as_micros()).unwrap_or(u64::MAX);
                self.shared.until.store(us, Relaxed);
                sync_at = until + SYNC_EVERY;
            }
            if is_last {
                return Ok(());
            }
            let due = (self.rate as f64 * self.started.elapsed().as_secs_f64()) as u64;
            let behind = due.saturating_sub(written + given_up);
            // A disk that is too slow makes up for one second, not for the whole delay.
            given_up += behind.saturating_sub(self.rate);
            let len = behind.min(self.rate).min(PIECE);
            if len == 0 {
                std::thread::sleep(TICK);
                continue;
            }
            if offset + len > self.size {
                offset = 0;
            }
            restamp(&mut buf[..len as usize], pieces);
            buf = write(&*self.file, buf, offset, len as usize, false)?;
            (offset, written, pieces) = (offset + len, written + len, pieces + 1);
            if len < PIECE {
                std::thread::sleep(TICK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemDirectory;

    /// Runs a writer until it has synced, and returns its result.
    fn synced(dir: &MemDirectory, rate: u64, size: u64) -> Result<Written, MeasureError> {
        let writer = BackgroundWriter::start(dir, rate, size)?;
        while writer.shared.syncs.load(Relaxed) == 0 && !writer.shared.failed.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        writer.stop()
    }

    #[test]
    fn what_was_written_is_synced_and_counted() {
        let dir = MemDirectory::new();
        let written = synced(&dir, 8 << 20, 2 << 20).unwrap();
        assert_eq!(written.asked, 8 << 20);
        assert!(written.syncs >= 2 && written.bytes > 0, "{written:?}");
        assert_eq!(written.bytes, dir.shared.bytes.load(Relaxed));
        assert_eq!(written.syncs, dir.shared.flushes.load(Relaxed));
        assert_eq!(dir.unsynced(), 0);
        // The file is overwritten from its beginning, and stays as small as it was asked to be.
        assert!(dir.bytes(NAME).len() <= 2 << 20);
        // A computer may be slower than asked, and is never faster.
        assert!(written.bytes as f64 <= 1.01 * written.asked as f64 * written.time.as_secs_f64());
    }

    #[test]
    fn a_failed_sync_is_an_error() {
        let dir = MemDirectory::new();
        dir.shared.bad_barriers.store(true, Relaxed);
        let told = synced(&dir, 1 << 20, 1 << 20).unwrap_err().to_string();
        assert!(
            told.contains("writing beside the measurement: planted barrier error"),
            "{told}"
        );
    }
}
