//! What the subject was promised, written where a cut of the disk cannot reach it.
//!
//! A ledger lies in memory that the subject, the disk and the suite share by path. Each thread of
//! the subject has a part of it for its entries, and a counter of how many there are: an entry is
//! there before its counter says so. The disk samples all counters *before* it freezes, so an entry
//! below a sampled counter was written before the cut: what it acknowledges must survive.

mod entry;

pub use entry::{Entry, Kind};

use anyhow::{Context, Result};
use logforce_crashtest::counters::{self, COUNTERS, Counters};
use logforce_crashtest::testbed::Image;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Threads of a subject that may write.
pub const MAX_THREADS: usize = COUNTERS;

/// Entries that a thread may write. It is memory only as far as it is used.
pub const ENTRIES: u64 = 1 << 17;

const COUNTERS_LEN: u64 = 4096;

fn place(thread: usize, number: u64) -> u64 {
    COUNTERS_LEN + (thread as u64 * ENTRIES + number) * entry::LEN as u64
}

/// The suite's side of the subject's ledger.
#[derive(Debug)]
pub struct SubjectLedger {
    image: Image,
}

impl SubjectLedger {
    /// An empty one.
    ///
    /// # Errors
    /// Where the system refuses memory files.
    pub fn new() -> io::Result<SubjectLedger> {
        let image = Image::new(place(MAX_THREADS, 0))?;
        Ok(SubjectLedger { image })
    }

    /// By which the subject and the disk find it.
    pub fn path(&self) -> PathBuf {
        self.image.path()
    }

    /// Its memory.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The same one, for another owner.
    ///
    /// # Errors
    /// Of the system.
    pub fn try_clone(&self) -> io::Result<SubjectLedger> {
        let image = self.image.try_clone()?;
        Ok(SubjectLedger { image })
    }

    /// Its memory, to be inherited.
    pub fn file(&self) -> &File {
        self.image.file()
    }

    /// How many entries there are now.
    ///
    /// # Errors
    /// Of the system.
    pub fn counters(&self) -> io::Result<Counters> {
        counters::sample(self.image.file())
    }

    /// The first so many entries of each thread.
    ///
    /// # Errors
    /// Of the system, or if an entry is none.
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
                    .map(|b| Entry::decode(b).context("an entry of the ledger is none"))
                    .collect()
            })
            .collect()
    }
}

/// The subject's side: what one of its threads writes.
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
    /// Of the system.
    pub fn open(ledger: &Path, thread: usize) -> io::Result<LedgerWriter> {
        assert!(thread < MAX_THREADS);
        let file = OpenOptions::new().read(true).write(true).open(ledger)?;
        Ok(LedgerWriter {
            file,
            thread,
            count: 0,
        })
    }

    /// Whether it holds no more entries: the subject ends then.
    pub fn is_full(&self) -> bool {
        self.count >= ENTRIES
    }

    /// Whether a thread should stop writing into it.
    pub fn is_nearly_full(&self) -> bool {
        self.count + 64 >= ENTRIES
    }

    /// Writes an entry, then says that it is there.
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
