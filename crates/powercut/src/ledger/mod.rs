//! The promises that the subject got, in memory that a power cut does not reach.
//!
//! The subject, the disk and the suite share a ledger by its path. Each thread of the subject has a part of it for its
//! entries, and a counter of them: an entry is there before its counter counts it. The disk samples all counters
//! *before* it freezes. So an entry below a sampled counter was written before the cut, and what it acknowledges must
//! survive.
//!
//! The subject does not acknowledge by the served file of `logforce_crashtest`: its nine threads would wait for the
//! harness in each commit.

mod entry;

pub use entry::{Entry, Kind};

use anyhow::{Context, Result};
use logforce_crashtest::counters::{self, COUNTERS, Counters};
use logforce_crashtest::testbed::Image;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Largest number of threads that may write.
pub const MAX_THREADS: usize = COUNTERS;

/// Largest number of entries of a thread. They use memory only when they are written.
pub const ENTRIES: u64 = 1 << 17;

const COUNTERS_LEN: u64 = 4096;

fn place(thread: usize, number: u64) -> u64 {
    COUNTERS_LEN + (thread as u64 * ENTRIES + number) * entry::LEN as u64
}

/// Ledger of a subject, as the suite sees it.
#[derive(Debug)]
pub struct SubjectLedger {
    image: Image,
}

impl SubjectLedger {
    /// Creates an empty ledger.
    ///
    /// # Errors
    /// If the system refuses memory files.
    pub fn new() -> io::Result<SubjectLedger> {
        let image = Image::new(place(MAX_THREADS, 0))?;
        Ok(SubjectLedger { image })
    }

    /// Returns the path by which the subject and the disk find it.
    pub fn path(&self) -> PathBuf {
        self.image.path()
    }

    /// Returns its memory.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns another owner of the same ledger.
    ///
    /// # Errors
    /// System errors.
    pub fn try_clone(&self) -> io::Result<SubjectLedger> {
        let image = self.image.try_clone()?;
        Ok(SubjectLedger { image })
    }

    /// Returns its memory, to be inherited.
    pub fn file(&self) -> &File {
        self.image.file()
    }

    /// Returns the present number of entries of each thread.
    ///
    /// # Errors
    /// System errors.
    pub fn counters(&self) -> io::Result<Counters> {
        counters::sample(self.image.file())
    }

    /// Returns the first entries of each thread, as many as `upto` counts.
    ///
    /// # Errors
    /// System errors, and if an entry cannot be decoded.
    pub fn entries(&self, upto: &Counters) -> Result<Vec<Vec<Entry>>> {
        (0..MAX_THREADS)
            .map(|thread| {
                let count = upto[thread].min(ENTRIES) as usize;
                let mut bytes = vec![0; count * entry::LEN];
                self.image
                    .file()
                    .read_exact_at(&mut bytes, place(thread, 0))?;
                bytes
                    .chunks(entry::LEN)
                    .map(|b| Entry::decode(b).context("an entry of the ledger cannot be decoded"))
                    .collect()
            })
            .collect()
    }
}

/// Part of a ledger in which a thread of the subject writes.
#[derive(Debug)]
pub struct LedgerWriter {
    file: File,
    thread: usize,
    count: u64,
}

impl LedgerWriter {
    /// Opens the part of thread number `thread` in an empty ledger.
    ///
    /// # Errors
    /// System errors.
    pub fn open(ledger: &Path, thread: usize) -> io::Result<LedgerWriter> {
        assert!(thread < MAX_THREADS);
        let file = OpenOptions::new().read(true).write(true).open(ledger)?;
        Ok(LedgerWriter {
            file,
            thread,
            count: 0,
        })
    }

    /// Returns true if no entry fits any more.
    pub fn is_full(&self) -> bool {
        self.count >= ENTRIES
    }

    /// Returns true if a thread should stop.
    pub fn is_nearly_full(&self) -> bool {
        self.count + 64 >= ENTRIES
    }

    /// Writes an entry, then counts it.
    ///
    /// # Panics
    /// If the memory cannot be written: nothing that follows would mean anything.
    pub fn put(&mut self, entry: Entry) {
        assert!(!self.is_full(), "the ledger is full");
        self.file
            .write_all_at(&entry.encode(), place(self.thread, self.count))
            .expect("the ledger can be written");
        self.count += 1;
        counters::set(&self.file, self.thread, self.count).expect("the ledger can be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_there_as_far_as_the_counters_say() {
        let ledger = SubjectLedger::new().unwrap();
        let mut writer = LedgerWriter::open(&ledger.path(), 3).unwrap();
        let entry = |n| Entry {
            kind: Kind::Acked,
            sequence: n,
            start: n * 10,
            end: n * 10 + 5,
            guarantee: 3,
        };
        for n in 0..5 {
            writer.put(entry(n));
        }
        let mut counters = ledger.counters().unwrap();
        assert_eq!(counters[3], 5);
        assert_eq!(counters.iter().sum::<u64>(), 5);
        counters[3] = 2;
        let read = ledger.entries(&counters).unwrap();
        assert_eq!(read[3], [entry(0), entry(1)]);
    }
}
