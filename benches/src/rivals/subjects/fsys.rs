//! fsys: its journal.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::versions::locked;
use anyhow::Result;
use fsys::{JournalHandle, JournalOptions, JournalReader};
use std::path::{Path, PathBuf};

/// fsys with a buffered journal that does not wait for a group.
pub struct Fsys;

fn path(dir: &Path) -> PathBuf {
    dir.join("journal")
}

impl Rival for Fsys {
    fn name(&self) -> &'static str {
        "fsys"
    }

    fn version(&self) -> String {
        locked("fsys").to_owned()
    }

    fn settings(&self) -> String {
        "journal, append() and sync_through() (fdatasync); no waiting for a group (its default \
         is 500 µs, which one thread always waits out)"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Group
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Fsys {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        let options = JournalOptions::new().group_commit_window(None);
        let journal = fsys::builder().build()?.journal_with(path(dir), options)?;
        Ok(Box::new(Open(journal)))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        for record in JournalReader::open(&path(dir))?.iter() {
            found.see(&record?.payload);
        }
        Ok(true)
    }
}

struct Open(JournalHandle);

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let end = self.0.append(record)?;
        self.0.sync_through(end)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}
