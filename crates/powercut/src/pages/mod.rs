//! The page file as the subject: threads move amounts between pages, and stamp two pages each.
//!
//! Every commit changes two accounts, whose sum over all stays 0, and writes its number into both stamp pages of its
//! thread. So a partial commit shows: in the sum, in two stamps that differ, or in a page that is not whole.

mod check;
mod cuts;
mod kill;
mod subject;

pub use check::{Promises, check};
pub use cuts::run;
pub use kill::kills;
pub use subject::run as work;

use crate::check::CheckOutcome;
use crate::subject::seam::Fault;
use logforce::pages::CommitMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Threads that commit.
pub const THREADS: usize = 4;
/// Pages that hold amounts.
const ACCOUNTS: u64 = 16;
/// Bytes of a page.
const PAGE: usize = 4096;

/// Job of a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The page file's directory.
    pub dir: PathBuf,
    /// Empty ledger for what it was promised.
    pub ledger: PathBuf,
    /// True to commit by copy-on-write, false to commit through a log.
    pub copy_on_write: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Fault of the system below it.
    pub fault: Fault,
}

/// The commit modes, with their names.
pub const MODES: [(&str, CommitMode); 2] = [
    ("logged", CommitMode::Logged),
    ("copy-on-write", CommitMode::CopyOnWrite),
];

/// Returns the stamp pages of a thread. They are not beside each other, so that no write contains both.
fn stamp_pages(thread: usize) -> [u64; 2] {
    [100 + thread as u64, 300 + thread as u64]
}

/// Returns a page with a value in every 8 bytes.
fn page_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(PAGE / 8)
}

/// Returns the value of a page; `None` if it is not whole.
fn value_of(page: &[u8]) -> Option<u64> {
    let value = u64::from_le_bytes(page.get(..8)?.try_into().ok()?);
    page.chunks(8)
        .all(|c| c == value.to_le_bytes())
        .then_some(value)
}

/// Counts of one kind of fault.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Counts {
    /// Cuts, states or kills that met acknowledged commits, and something that could be lost.
    pub counted: u64,
    /// Cuts, states or kills that did not.
    pub empty: u64,
    /// Cuts that tore a block of the filesystem and so destroyed it.
    pub filesystem_lost: u64,
    /// Commits that had to be there.
    pub acknowledged: u64,
    /// Findings.
    pub broken: Vec<String>,
}

impl Counts {
    pub(crate) fn take(&mut self, outcome: CheckOutcome, could_lose: bool) {
        self.broken.extend(outcome.broken);
        if outcome.filesystem_lost.is_some() {
            self.filesystem_lost += 1;
            return;
        }
        self.acknowledged += outcome.acknowledged;
        match could_lose && outcome.acknowledged > 0 {
            true => self.counted += 1,
            false => self.empty += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_whole_has_no_value() {
        let mut page = page_of(7);
        assert_eq!(value_of(&page), Some(7));
        page[4000] ^= 1;
        assert_eq!(value_of(&page), None);
    }
}
