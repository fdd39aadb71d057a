//! Test files that are run.

use super::known::matches;
use anyhow::{Context, Result};
use std::fmt;
use std::path::Path;

/// A test file, run with the settings of one of SQLite's suites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub suite: &'static str,
    pub file: String,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.suite, self.file)
    }
}

/// Suite without special settings.
const PLAIN: &str = "full";

/// Suites with other settings, and the plain files that each of them runs.
const SETTINGS: [(&str, &[&str]); 7] = [
    ("persistent_journal", ROLLBACK),
    ("truncate_journal", ROLLBACK),
    (
        "exclusive",
        &["rollback.test", "select1.test", "ioerr.test"],
    ),
    ("exclusive-truncate", ROLLBACK),
    ("autovacuum_crash", &["crash.test"]),
    ("wal", &["savepoint*.test", "trans.test", "avtrans.test"]),
    ("mmap", MAPPED),
];

const ROLLBACK: &[&str] = &[
    "delete.test",
    "delete2.test",
    "insert.test",
    "rollback.test",
    "trans.test",
    "update.test",
    "vacuum.test",
    "ioerr.test",
];

const MAPPED: &[&str] = &[
    "crash3.test",
    "pager1.test",
    "trans.test",
    "vacuum.test",
    "wal.test",
    "wal2.test",
    "wal3.test",
    "wal5.test",
    "walcrash.test",
    "walmode.test",
];

/// Files that only run other files.
const COLLECTIONS: [&str; 14] = [
    "all.test",
    "async.test",
    "extraquick.test",
    "fts3.test",
    "full.test",
    "mallocAll.test",
    "memleak.test",
    "permutations.test",
    "quick.test",
    "rbu.test",
    "rtree.test",
    "session.test",
    "soak.test",
    "veryquick.test",
];

/// Files that are left out for other reasons, by pattern.
const LEFT_OUT: [&str; 15] = [
    // Full-text search, sorting, fuzzing of SQL and allocation failures of the parser: minutes, and no
    // other file operations than other files have.
    "altermalloc*.test",
    "bigsort.test",
    "e_fts3.test",
    "fts*.test",
    "fuzz*.test",
    "malloc*.test",
    "sort*.test",
    "speed*.test",
    "vtab_err.test",
    // Crashes of a process that is started a thousand times: minutes.
    "walcrash3.test",
    // Rollbacks of savepoints: the suite `wal` runs a part of it.
    "savepoint6.test",
    // Their results depend on the time.
    "notify2.test",
    "thread003.test",
    // Initialisation of SQLite before an extension is loaded.
    "init.test",
    // Waits until another process deletes its journal, which the extension keeps.
    "lock4.test",
];

/// Returns all test files, or those that match the pattern.
pub fn jobs(source: &Path, pattern: &str) -> Result<Vec<Job>> {
    let dir = source.join("test");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(select(names, pattern))
}

fn select(mut names: Vec<String>, pattern: &str) -> Vec<Job> {
    let left_out = |name: &str| {
        COLLECTIONS
            .iter()
            .chain(&LEFT_OUT)
            .any(|p| matches(p, name))
    };
    names.retain(|name| name.ends_with(".test") && !left_out(name));
    names.sort();
    let job = |suite, file: &String| Job {
        suite,
        file: file.clone(),
    };
    let mut jobs: Vec<Job> = names.iter().map(|name| job(PLAIN, name)).collect();
    for (suite, files) in SETTINGS {
        let is_in = |name: &&String| files.iter().any(|p| matches(p, name));
        jobs.extend(names.iter().filter(is_in).map(|name| job(suite, name)));
    }
    jobs.retain(|job| matches(pattern, &job.to_string()));
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_selected() {
        let names = [
            "wal2.test",
            "wal.test",
            "tester.tcl",
            "all.test",
            "fuzz.test",
        ];
        let selected = |pattern: &str| -> Vec<String> {
            let jobs = select(names.map(str::to_owned).to_vec(), pattern);
            jobs.iter().map(Job::to_string).collect()
        };
        let all = [
            "full/wal.test",
            "full/wal2.test",
            "mmap/wal.test",
            "mmap/wal2.test",
        ];
        assert_eq!(selected("*"), all);
        assert_eq!(selected("full/wal.test"), all[..1]);
        assert!(selected("pager").is_empty());
    }
}
