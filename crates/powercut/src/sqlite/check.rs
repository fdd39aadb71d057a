//! Comparison of a database after a power cut or a kill with what was promised. Stock SQLite opens it.

use super::found::{Found, read};
use super::promises::Judgement;
use super::{Mode, Promises};
use crate::check::{CheckOutcome, is_corruption};
use logforce_crashtest::subject::Outcome;
use std::path::Path;
use std::time::Duration;

/// Result of a check.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// Result that every subject has.
    pub outcome: CheckOutcome,
    /// Age of the oldest lost commit when the last acknowledged one began to commit; zero if none was lost.
    pub oldest_lost: Duration,
}

impl Outcome for Checked {
    fn filesystem_lost(why: String) -> Checked {
        Checked {
            outcome: CheckOutcome::filesystem_lost(why),
            ..Checked::default()
        }
    }

    fn is_whole(&self) -> bool {
        self.outcome.is_whole()
    }
}

/// Opens the database in `dir` by stock SQLite, and compares it. Returns also what it found; `None` if it
/// cannot be read.
pub fn check(dir: &Path, mode: Mode, promises: &Promises) -> (Checked, Option<Found>) {
    let found = match read(dir, mode) {
        Ok(found) => found,
        Err(_) if is_damaged(dir) => {
            let why = "a file of the database cannot be read".to_owned();
            return (Checked::filesystem_lost(why), None);
        }
        Err(e) => {
            let mut checked = compared(&Found::default(), promises);
            let broken = format!("the database cannot be read: {e}");
            checked.outcome.broken = vec![broken];
            return (checked, None);
        }
    };
    (compared(&found, promises), Some(found))
}

/// Compares a database with the promises.
pub fn compared(found: &Found, promises: &Promises) -> Checked {
    let Judgement {
        acknowledged,
        lost,
        oldest_lost,
        broken,
    } = promises.judge(found);
    let outcome = CheckOutcome {
        acknowledged,
        lost,
        present: found.total,
        broken: [broken, found.broken.clone()].concat(),
        ..CheckOutcome::default()
    };
    Checked {
        outcome,
        oldest_lost,
    }
}

/// Returns true if the filesystem reports a damaged file.
fn is_damaged(dir: &Path) -> bool {
    let is_corrupt = |e: std::io::Error| is_corruption(&e);
    match std::fs::read_dir(dir) {
        Err(e) => is_corrupt(e),
        Ok(files) => files.into_iter().any(|file| {
            let read = file.and_then(|f| std::fs::read(f.path()));
            read.is_err_and(is_corrupt)
        }),
    }
}
