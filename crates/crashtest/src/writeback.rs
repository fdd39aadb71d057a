//! Threads that write back files of the program: noise that any machine may make, and syncs before renames.
//!
//! The noise exists because a session takes a fraction of a second, in which the kernel writes nothing back on its own:
//! files would never reach the disk in another order than that of their syncs. On a real machine a neighbour that syncs
//! its file commits the journal of the filesystem, and memory pressure writes parts of files.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that writes back files of the program until this is dropped.
pub(crate) struct Writeback {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writeback {
    /// Causes writeback on the filesystem mounted at `mounted`, with the program's files in `data`.
    pub(crate) fn noise(mounted: &Path, data: &Path, seed: u64) -> Writeback {
        let (mounted, data) = (mounted.to_owned(), data.to_owned());
        let mut rng = fastrand::Rng::with_seed(seed);
        Writeback::start(move || {
            std::thread::sleep(Duration::from_micros(rng.u64(500..8000)));
            // The disk may be gone: then every call fails, and the thread is about to be ended.
            let _ = match rng.u8(..3) {
                0 => neighbour(&mounted),
                _ => write_back(&data, &mut rng),
            };
        })
    }

    /// Syncs every file below `data` with dirty pages, again and again. It is done in a fraction of [`RENAMES_WAIT`].
    pub(crate) fn syncing(data: &Path) -> Writeback {
        let data = data.to_owned();
        Writeback::start(move || {
            let mut files = Vec::new();
            collect(&data, &mut files);
            for file in files.into_iter().filter_map(|path| File::open(path).ok()) {
                if logforce_device_os::dirty_pages(file.as_fd(), 0..u64::MAX) != Ok(0) {
                    let _ = file.sync_all();
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        })
    }

    fn start(mut step: impl FnMut() + Send + 'static) -> Writeback {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = is_over.clone();
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                step();
            }
        });
        Writeback {
            is_over,
            thread: Some(thread),
        }
    }
}

/// Words that make `strace` delay every rename of the program behind them by 50 ms.
pub(crate) const RENAMES_WAIT: [&str; 7] = [
    "strace",
    "--follow-forks",
    "--quiet=all",
    "--output=/dev/null",
    "--trace=?rename,?renameat,?renameat2",
    "--inject=?rename,?renameat,?renameat2:delay_enter=50000",
    "--",
];

impl Drop for Writeback {
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
