//! The page file as the subject: threads move amounts between pages, and stamp pages of their own.
//!
//! Every commit changes two accounts, whose sum over all stays 0, and writes its number into both stamp
//! pages of its thread. So a commit that is there in part shows: in the sum, in two stamps that differ,
//! or in a page that is not whole.

mod check;
mod kill;
mod live;
mod replay;
mod subject;

pub use check::{Promises, check};
pub use kill::kills;
pub use live::cuts;
pub use replay::states;
pub use subject::run;

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

/// What a subject is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The page file's directory.
    pub dir: PathBuf,
    /// Where it writes what it was promised: an empty ledger.
    pub ledger: PathBuf,
    /// It commits by copy-on-write, or through a log.
    pub copy_on_write: bool,
    /// Of everything random.
    pub seed: u64,
    /// What is wrong with the system below it.
    pub fault: Fault,
}

/// The commit modes, with their names.
pub const MODES: [(&str, CommitMode); 2] = [
    ("logged", CommitMode::Logged),
    ("copy-on-write", CommitMode::CopyOnWrite),
];

/// The stamp pages of a thread: not beside each other, so that no write holds both.
fn stamp_pages(thread: usize) -> [u64; 2] {
    [100 + thread as u64, 300 + thread as u64]
}

/// A page that holds a value, in every 8 bytes.
fn page_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(PAGE / 8)
}

/// The value of a page; `None` if it is not whole.
fn value_of(page: &[u8]) -> Option<u64> {
    let value = u64::from_le_bytes(page.get(..8)?.try_into().ok()?);
    page.chunks(8)
        .all(|c| c == value.to_le_bytes())
        .then_some(value)
}

/// What was counted of one kind of fault.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Counts {
    /// Cuts, states or kills that met acknowledged commits, and something that could be lost.
    pub counted: u64,
    /// Those that did not.
    pub empty: u64,
    /// A tear inside of its own blocks destroyed the filesystem.
    pub filesystem_lost: u64,
    /// Commits that had to be there.
    pub acknowledged: u64,
    /// What broke.
    pub broken: Vec<String>,
}

impl Counts {
    fn take(&mut self, found: check::PageCheckOutcome, could_lose: bool, grain: u64) {
        if let Some(why) = found.filesystem_lost {
            match grain < 4096 {
                true => self.filesystem_lost += 1,
                false => self.broken.push(format!("the filesystem is lost: {why}")),
            }
            return;
        }
        self.acknowledged += found.acknowledged;
        match could_lose && found.acknowledged > 0 {
            true => self.counted += 1,
            false => self.empty += 1,
        }
        self.broken.extend(found.broken);
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: Counts) {
        self.counted += other.counted;
        self.empty += other.empty;
        self.filesystem_lost += other.filesystem_lost;
        self.acknowledged += other.acknowledged;
        self.broken.extend(other.broken);
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
