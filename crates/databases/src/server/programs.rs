//! Search for the programs of servers: in the path, and in the directories of packages.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

/// Directories that hold programs.
pub struct Programs(Vec<PathBuf>);

impl Programs {
    /// Returns the directories of the path, then `more`. A `*` stands for any version, the highest
    /// first.
    pub fn in_path_and(more: &[&str]) -> Programs {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
        for pattern in more {
            match pattern.split_once('*') {
                Some((before, after)) => dirs.extend(versions(before, after)),
                None => dirs.push(pattern.into()),
            }
        }
        Programs(dirs)
    }
}

/// Returns the directories `before` + a version + `after`, the highest version first.
fn versions(before: &str, after: &str) -> Vec<PathBuf> {
    let (dir, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<(Reverse<u64>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix(prefix)?;
            let number: String = version.chars().take_while(char::is_ascii_digit).collect();
            let path = format!("{dir}/{name}{after}");
            Some((Reverse(number.parse().unwrap_or(0)), path.into()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns the first directory that has all of `names`.
pub fn beside_each_other(programs: &Programs, names: &[&str]) -> Option<PathBuf> {
    let has_all = |dir: &&PathBuf| names.iter().all(|n| dir.join(n).is_file());
    programs.0.iter().find(has_all).cloned()
}

impl Programs {
    /// Returns the first file of that name.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let paths = self.0.iter().map(|dir: &PathBuf| dir.join(name));
        paths.into_iter().find(|path: &PathBuf| Path::is_file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        for version in ["9", "15", "13", "x"] {
            let bin = dir.path().join(format!("pg-{version}/bin"));
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::write(bin.join("initdb"), "").unwrap();
        }
        std::fs::write(dir.path().join("pg-13/bin/postgres"), "").unwrap();
        std::fs::write(dir.path().join("pg-9/bin/postgres"), "").unwrap();
        let pattern = format!("{}/pg-*/bin", dir.path().display());
        let programs = Programs(versions(pattern.split_once('*').unwrap().0, "/bin"));
        let initdb = programs.find("initdb").unwrap();
        assert!(initdb.ends_with("pg-15/bin/initdb"), "{initdb:?}");
        let both = beside_each_other(&programs, &["initdb", "postgres"]).unwrap();
        assert!(both.ends_with("pg-13/bin"), "{both:?}");
        assert_eq!(beside_each_other(&programs, &["nosuch"]), None);
    }
}
