//! Whether the path by which a directory was opened still leads to it.

use super::error::uninterrupted;
use logforce_device::{FileIdentity, Whereabouts};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Below these a path is one of a process' open files, and goes when they are closed.
const OF_DESCRIPTORS: [&str; 2] = ["/proc", "/dev/fd"];

// The number of the volume is signed on macOS.
#[allow(clippy::unnecessary_cast)]
pub fn identity_of(stat: &Stat) -> FileIdentity {
    FileIdentity {
        volume: stat.st_dev as u64,
        file: stat.st_ino,
    }
}

/// The way to a directory as it was when that was opened.
pub struct PathIdentity {
    /// From the root; `None` where it cannot be told, or cannot be gone twice.
    absolute: Option<PathBuf>,
    /// The root of then: a process that changes its root has all its paths lead elsewhere.
    root: Option<FileIdentity>,
    /// The directory counts its names. Not every filesystem does.
    counts_names: bool,
}

impl PathIdentity {
    /// To the directory of this `stat`, by this path.
    pub fn new(path: &Path, stat: &Stat) -> Self {
        // The working directory may change, and what is relative to it lead elsewhere.
        let absolute = std::path::absolute(path).ok().filter(|absolute| {
            !OF_DESCRIPTORS.iter().any(|dir| absolute.starts_with(dir))
                // Another thread may have changed the working directory since, or the path is longer
                // than the system takes.
                && look(absolute).is_ok_and(|found| found == identity_of(stat))
        });
        PathIdentity {
            absolute,
            root: look(Path::new("/")).ok(),
            counts_names: stat.st_nlink > 0,
        }
    }

    /// From the root, if it can be gone twice.
    pub fn absolute(&self) -> Option<&Path> {
        self.absolute.as_deref()
    }

    /// Where it leads now, for the directory `identity` that `open` gives.
    pub fn leads(
        &self,
        open: impl FnOnce() -> rustix::io::Result<Arc<OwnedFd>>,
        identity: FileIdentity,
    ) -> rustix::io::Result<Whereabouts> {
        let found = self.absolute.as_deref().map(look);
        let answer = match found {
            Some(Ok(found)) if found == identity => return Ok(Whereabouts::Here),
            Some(Ok(_)) => Ok(Whereabouts::Replaced),
            Some(Err(Errno::NOENT | Errno::NOTDIR)) => Ok(Whereabouts::Gone),
            // Rights, descriptors, memory: nothing about the directory.
            Some(Err(e)) => Err(e),
            None => Ok(Whereabouts::Here),
        };
        if matches!(answer, Ok(Whereabouts::Gone | Whereabouts::Replaced))
            && self.root.is_some()
            && look(Path::new("/")).ok() == self.root
        {
            return answer;
        }
        // The path says nothing: only a directory without any name is certainly gone.
        let dir = open()?;
        let now = uninterrupted(|| rustix::fs::fstat(&*dir))?;
        match answer {
            _ if self.counts_names && now.st_nlink == 0 => Ok(Whereabouts::Gone),
            Err(e) => Err(e),
            Ok(_) => Ok(Whereabouts::Here),
        }
    }
}

fn look(path: &Path) -> rustix::io::Result<FileIdentity> {
    uninterrupted(|| rustix::fs::stat(path)).map(|stat| identity_of(&stat))
}
