//! Access to the system's own files (`/proc`, `/sys`, `/dev`).
//!
//! Only "not found" means that a file is missing; every other error is passed on. Otherwise a process without
//! descriptors or memory would assume a better disk than it has.

use super::commands::{Commands, Real};
use super::error::{at, uninterrupted_io};
use logforce_device::planted;
use rustix::fs::{Dir, Mode, OFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Locations of the system's own files; tests use others.
#[derive(Debug, Clone)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
    pub dev: PathBuf,
    /// Directory with the stored answers of devices.
    pub run: PathBuf,
    /// Paths at which the command of zfs may be.
    pub zfs: Vec<PathBuf>,
    /// Commands to devices.
    pub commands: Arc<dyn Commands>,
}

impl Default for Roots {
    fn default() -> Self {
        Roots {
            proc: "/proc".into(),
            sys: "/sys".into(),
            dev: "/dev".into(),
            run: "/run/logforce/devices".into(),
            commands: Arc::new(Real),
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

/// Returns the answer, or `None` if the file is missing.
pub fn found<T>(answer: io::Result<T>, doing: &str, path: &Path) -> io::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(e) if e.kind() == io::ErrorKind::NotFound || planted!("error-is-not-found") => Ok(None),
        Err(e) => Err(at(e, doing, path)),
    }
}

/// Returns all bytes of a file.
pub fn bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    found(uninterrupted_io(|| fs::read(path)), "read", path)
}

/// Returns the text of a file of one line; `None` if it is missing or empty.
pub fn line(path: &Path) -> io::Result<Option<String>> {
    let text = bytes(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// Returns the names in a directory, sorted; `None` if it is missing.
pub fn names(dir: &Path) -> io::Result<Option<Vec<String>>> {
    let list = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        // The standard library's reader would panic if closing the directory fails.
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

/// Returns true if the path exists.
pub fn exists(path: &Path) -> io::Result<bool> {
    found(
        uninterrupted_io(|| fs::symlink_metadata(path)),
        "look at",
        path,
    )
    .map(|m| m.is_some())
}

/// Returns the path with links resolved.
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
