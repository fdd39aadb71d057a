//! Writeback that any machine may do at any time.
//!
//! Within the fraction of a second that a session takes, the kernel writes nothing back on its own, so files would
//! never reach the disk in another order than that of their syncs. A neighbour that syncs its file commits
//! the filesystem's journal, and memory pressure writes parts of files.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that causes writeback until it is dropped.
pub(crate) struct Noise {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Noise {
    /// Starts on the filesystem mounted at `mounted`, with the program's files in `data`.
    pub(crate) fn start(mounted: &Path, data: &Path, seed: u64) -> Noise {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = is_over.clone();
        let (mounted, data) = (mounted.to_owned(), data.to_owned());
        let thread = std::thread::spawn(move || {
            let mut rng = fastrand::Rng::with_seed(seed);
            while !flag.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(rng.u64(500..8000)));
                // The disk may be gone: then every call fails, and the thread is about to be ended.
                let _ = match rng.u8(..3) {
                    0 => neighbour(&mounted),
                    _ => write_back(&data, &mut rng),
                };
            }
        });
        Noise {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes and syncs a file that is not the program's.
fn neighbour(mounted: &Path) -> std::io::Result<()> {
    let file = File::create(mounted.join("neighbour"))?;
    file.write_all_at(b"noise", 0)?;
    file.sync_all()
}

/// Writes back a random part of a random file, without a flush and without metadata.
fn write_back(dir: &Path, rng: &mut fastrand::Rng) -> std::io::Result<()> {
    let mut files = Vec::new();
    collect(dir, &mut files);
    let Some(path) = rng.choice(&files) else {
        return Ok(());
    };
    let file = File::open(path)?;
    let len = file.metadata()?.len().max(1);
    let start = rng.u64(..len);
    let part = rng.u64(1..=len - start);
    logforce_device_os::start_write_back(file.as_fd(), start..start + part);
    Ok(())
}

/// Adds all regular files below `dir`.
pub(crate) fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}
