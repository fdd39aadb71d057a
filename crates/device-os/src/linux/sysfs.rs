//! How the system's own files (`/proc`, `/sys`, `/dev`) are asked.
//!
//! What is not found is not there. Every other error is passed on: to take it for "not there" would
//! let a process that has run out of descriptors or memory believe in a better disk than it has.

use super::error::{at, uninterrupted_io};
use logforce_device::planted;
use rustix::fs::{Dir, Mode, OFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the system's own files are; elsewhere in tests.
#[derive(Debug, Clone)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
    pub dev: PathBuf,
    /// The command of zfs, wherever it may be.
    pub zfs: Vec<PathBuf>,
}

impl Default for Roots {
    fn default() -> Self {
        Roots {
            proc: "/proc".into(),
            sys: "/sys".into(),
            dev: "/dev".into(),
            zfs: [
                "/sbin/zfs",
                "/usr/sbin/zfs",
                "/usr/bin/zfs",
                "/run/current-system/sw/bin/zfs",
            ]
            .map(PathBuf::from)
            .to_vec(),
        }
    }
}

/// The answer, or `None` where what was asked for is not there.
pub fn found<T>(answer: io::Result<T>, doing: &str, path: &Path) -> io::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(e) if e.kind() == io::ErrorKind::NotFound || planted!("error-is-not-found") => Ok(None),
        Err(e) => Err(at(e, doing, path)),
    }
}

/// All bytes of a file.
pub fn bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    found(uninterrupted_io(|| fs::read(path)), "read", path)
}

/// A file of one line; `None` if it is missing or empty.
pub fn line(path: &Path) -> io::Result<Option<String>> {
    let text = bytes(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// The names in a directory, sorted; `None` if it is missing.
pub fn names(dir: &Path) -> io::Result<Option<Vec<String>>> {
    let list = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        // Not the standard library's: that panics where closing a directory fails.
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(rustix::fs::open(dir, how, Mode::empty())?)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    };
    found(uninterrupted_io(list), "list", dir)
}

/// Whether there is something of that name.
pub fn exists(path: &Path) -> io::Result<bool> {
    found(
        uninterrupted_io(|| fs::symlink_metadata(path)),
        "look at",
        path,
    )
    .map(|m| m.is_some())
}

/// Where a path leads, without links.
pub fn real(path: &Path) -> io::Result<Option<PathBuf>> {
    found(uninterrupted_io(|| fs::canonicalize(path)), "find", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_found_is_not_there() {
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::Other] {
            let answer = found(Err::<(), _>(kind.into()), "read", Path::new("/proc/x"));
            assert_eq!(answer.map_err(|e| e.kind()), Err(kind));
        }
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, " a line\n").unwrap();
        assert_eq!(line(&file).unwrap().as_deref(), Some("a line"));
        assert_eq!(names(temp.path()).unwrap().unwrap(), ["file"]);
        let nowhere = temp.path().join("nowhere");
        assert_eq!(line(&nowhere).unwrap(), None);
        assert_eq!(names(&nowhere).unwrap(), None);
        assert_eq!(real(&nowhere).unwrap(), None);
        assert!(!exists(&nowhere).unwrap());
        let below = file.join("below");
        for answer in [
            line(&below).unwrap_err(),
            names(&file).unwrap_err(),
            real(&below).unwrap_err(),
            exists(&below).unwrap_err(),
            line(temp.path()).unwrap_err(),
        ] {
            assert!(
                answer.to_string().contains("file") || answer.kind() == io::ErrorKind::IsADirectory
            );
        }
    }
}
