//! Objects that can be synced: files, directories, all of a filesystem.

use crate::writeback::collect;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Something that can be synced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "name")]
pub enum Object {
    /// Nothing: the program as it is.
    Nothing,
    /// The files with this name below the program's directory. `#` stands for any number.
    File(String),
    /// A directory below the program's; `.` is that itself.
    Directory(String),
    /// Every file with dirty pages, before each rename.
    FilesBeforeRenames,
    /// The whole filesystem.
    Everything,
    /// These files and directories. Only in a model.
    Several(Vec<Object>),
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Object::Nothing => write!(f, "nothing (as it is)"),
            Object::File(name) => write!(f, "fsync of {name}"),
            Object::Directory(name) if name == "." => write!(f, "fsync of the directory"),
            Object::Directory(name) => write!(f, "fsync of the directory {name}"),
            Object::FilesBeforeRenames => write!(f, "fsync of each file before its rename"),
            Object::Everything => write!(f, "syncfs"),
            Object::Several(objects) => {
                let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
                write!(f, "{}", names.join(" and "))
            }
        }
    }
}

/// Returns the name of a file below `dir`, with `#` for its numbers.
pub(super) fn name(path: &Path, dir: &Path) -> String {
    numberless(&path.strip_prefix(dir).unwrap_or(path).to_string_lossy())
}

/// Returns a name with `#` for each number, by which the segments of a log are one object.
pub(crate) fn numberless(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

/// Adds `dir` and all directories below it.
pub(super) fn directories(dir: &Path, found: &mut Vec<PathBuf>) {
    found.push(dir.to_owned());
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            directories(&entry.path(), found);
        }
    }
}

/// Syncs an object below `dir`. A file that vanishes meanwhile needs no sync.
pub(super) fn sync(object: &Object, dir: &Path) {
    let all = |paths: Vec<PathBuf>, wanted: &str| {
        for path in paths {
            let name = name(&path, dir);
            if (name == wanted || (name.is_empty() && wanted == "."))
                && let Ok(file) = File::open(&path)
            {
                let _ = file.sync_all();
            }
        }
    };
    let mut paths = Vec::new();
    match object {
        Object::Nothing | Object::FilesBeforeRenames | Object::Several(_) => {}
        Object::File(name) => {
            collect(dir, &mut paths);
            all(paths, name);
        }
        Object::Directory(name) => {
            directories(dir, &mut paths);
            all(paths, name);
        }
        Object::Everything => {
            if let Ok(dir) = File::open(dir) {
                let _ = rustix::fs::syncfs(&dir);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_one_name() {
        let name = |path: &str| name(Path::new(path), Path::new("/d"));
        assert_eq!(name("/d/wal-00012.log"), "wal-#.log");
        assert_eq!(name("/d/a/3/b"), "a/#/b");
        assert_eq!(name("/d"), "");
    }
}
