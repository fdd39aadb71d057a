//! Check that the path by which a directory was opened still leads to it.

use super::error::uninterrupted;
use logforce_device::{FileIdentity, Whereabouts};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories below which a path belongs to an open file of a process, and disappears when that is closed.
const OF_DESCRIPTORS: [&str; 2] = ["/proc", "/dev/fd"];

// The number of the volume is signed on macOS.
#[allow(clippy::unnecessary_cast)]
pub fn identity_of(stat: &Stat) -> FileIdentity {
    FileIdentity {
        volume: stat.st_dev as u64,
        file: stat.st_ino,
    }
}

/// Path of a directory at the time of its opening.
pub struct PathIdentity {
    /// Absolute path; `None` if it is unknown or cannot be followed twice.
    absolute: Option<PathBuf>,
    /// Root at that time. If a process changes its root, all its paths lead elsewhere.
    root: Option<FileIdentity>,
    /// True if the directory counts its names. Not every filesystem does.
    counts_names: bool,
}

impl PathIdentity {
    /// Records the path of the directory with this `stat`.
    pub fn new(path: &Path, stat: &Stat) -> Self {
        // The working directory may change, and a relative path then leads elsewhere.
        let absolute = std::path::absolute(path).ok().filter(|absolute| {
            !OF_DESCRIPTORS.iter().any(|dir| absolute.starts_with(dir))
                // Another thread may have changed the working directory since, or the path may be longer than
                // the system accepts.
                && look(absolute).is_ok_and(|found| found == identity_of(stat))
        });
        PathIdentity {
            absolute,
            root: look(Path::new("/")).ok(),
            counts_names: stat.st_nlink > 0,
        }
    }

    /// Returns the absolute path, if it can be followed twice.
    pub fn absolute(&self) -> Option<&Path> {
        self.absolute.as_deref()
    }

    /// Returns the target that the path has now, for the directory `identity`, which `open` returns.
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
            // Missing rights, descriptors or memory say nothing about the directory.
            Some(Err(e)) => Err(e),
            None => Ok(Whereabouts::Here),
        };
        if matches!(answer, Ok(Whereabouts::Gone | Whereabouts::Replaced))
            && self.root.is_some()
            && look(Path::new("/")).ok() == self.root
        {
            return answer;
        }
        // The path tells nothing. Only a directory without any name is certainly gone.
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
