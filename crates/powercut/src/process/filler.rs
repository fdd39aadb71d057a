//! A file that takes the space of a filesystem.

use anyhow::{Context, Result};
use rustix::fs::FallocateFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Pieces in which it is taken: the largest, and the smallest.
const PIECES: (u64, u64) = (64 << 20, 4096);

/// The file.
#[derive(Debug)]
pub struct Filler {
    path: PathBuf,
    len: u64,
}

impl Filler {
    /// Leaves about `leave` bytes of the filesystem that `dir` is on.
    ///
    /// # Errors
    /// Of the filesystem, but for being full.
    pub fn new(dir: &Path, leave: u64) -> Result<Filler> {
        let path = dir.join("filler");
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        let mut len = 0;
        let mut piece = PIECES.0;
        // What cannot be taken in large pieces is taken in small ones.
        while piece >= PIECES.1 {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), len, piece) {
                Ok(()) => len += piece,
                Err(_) => piece /= 2,
            }
        }
        let filler = Filler { path, len };
        filler.release(leave)
    }

    /// Frees `bytes`.
    ///
    /// # Errors
    /// Of the filesystem.
    pub fn release(mut self, bytes: u64) -> Result<Filler> {
        self.len = self.len.saturating_sub(bytes);
        let file = File::options().write(true).open(&self.path)?;
        file.set_len(self.len)?;
        // Some filesystems free space only when that is written.
        let _ = rustix::fs::syncfs(&file);
        Ok(self)
    }

    /// Frees everything.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> Result<()> {
        remove(&self.path)
    }
}

/// Removes the filler that a mount of before left in `dir`, if there is one.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_left(dir: &Path) -> Result<()> {
    let path = dir.join("filler");
    if path.exists() { remove(&path) } else { Ok(()) }
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).with_context(|| path.display().to_string())?;
    let dir = File::open(path.parent().context("a parent")?)?;
    let _ = rustix::fs::syncfs(&dir);
    Ok(())
}
