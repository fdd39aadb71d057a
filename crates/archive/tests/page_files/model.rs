//! A model of a page file: its state after each commit.

use logforce::Lsn;
use logforce::pages::inspect::{self, Visit};
use logforce::pages::{Error, PageFile, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

/// Pages of which each committer has its own.
pub const SHARE: u64 = 300;

/// Change by one commit.
#[derive(Clone)]
pub enum Change {
    Write(u64, Vec<u8>),
    Discard(u64),
}

/// Pages that are not zeroes.
pub type State = BTreeMap<u64, Vec<u8>>;

/// Changes by the number of their commit, and the positions in the log that are known.
#[derive(Default)]
pub struct Model {
    pub changes: Mutex<BTreeMap<u64, Vec<Change>>>,
    pub ends: Mutex<BTreeMap<u64, Lsn>>,
}

/// Makes a commit of the committer with this number.
pub fn commit(file: &PageFile, committer: u64, random: &mut fastrand::Rng) -> (u64, Vec<Change>) {
    loop {
        let mut txn = file.begin().unwrap();
        let mut changes = Vec::new();
        let mut pages = BTreeSet::new();
        for _ in 0..random.u64(1..6) {
            let page = committer * SHARE + random.u64(..SHARE);
            // A page is written once in a transaction.
            if !pages.insert(page) {
                continue;
            }
            match random.u8(..10) {
                0 if page < txn.page_count() => {
                    txn.discard(page).unwrap();
                    changes.push(Change::Discard(page));
                }
                1..5 if page < txn.page_count() => {
                    let at = random.usize(..512);
                    txn.page_mut(page).unwrap()[at] ^= 0x55;
                    let bytes = read(&txn, page);
                    changes.push(Change::Write(page, bytes));
                }
                _ => {
                    let bytes = random.u64(..).to_le_bytes().repeat(512 / 8);
                    txn.write(page, &bytes).unwrap();
                    changes.push(Change::Write(page, bytes));
                }
            }
        }
        if changes.is_empty() {
            continue;
        }
        match txn.commit() {
            Ok(done) => return (done.commit, changes),
            Err(Error::Conflict { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

fn read(txn: &Transaction, page: u64) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    txn.read(page, &mut bytes).unwrap();
    bytes
}

impl Model {
    pub fn note(&self, (commit, changes): (u64, Vec<Change>)) {
        self.changes.lock().unwrap().insert(commit, changes);
    }

    /// Notes the ends of the commits that are in the log of the page file now.
    pub fn note_ends(&self, path: &Path) {
        let sequence = || {
            inspect::open(path)
                .unwrap()
                .summary()
                .unwrap()
                .header
                .sequence
        };
        let before = sequence();
        let mut ends = Vec::new();
        let walked = inspect::open(path).unwrap().walk(&mut |visit| {
            if let Visit::Redo(redo) = visit {
                ends.push((redo.commit, redo.end));
            }
            true
        });
        walked.unwrap();
        // The numbers count from the header's.
        if sequence() == before {
            self.ends.lock().unwrap().extend(ends);
        }
    }

    /// Returns the state after a commit.
    pub fn state(&self, commit: u64) -> State {
        let mut state = State::new();
        for change in self
            .changes
            .lock()
            .unwrap()
            .range(..=commit)
            .flat_map(|(_, c)| c)
        {
            match change {
                Change::Write(page, bytes) => drop(state.insert(*page, bytes.clone())),
                Change::Discard(page) => drop(state.remove(page)),
            }
        }
        state.retain(|_, bytes| bytes.iter().any(|b| *b != 0));
        state
    }
}

/// Returns the pages of a page file, and the number of its last commit.
pub fn pages(file: &PageFile) -> (u64, State) {
    let snapshot = file.snapshot().unwrap();
    let mut state = State::new();
    let mut bytes = vec![0; 512];
    for page in 0..snapshot.page_count() {
        snapshot.read(page, &mut bytes).unwrap();
        if bytes.iter().any(|b| *b != 0) {
            state.insert(page, bytes.clone());
        }
    }
    (snapshot.commit(), state)
}
