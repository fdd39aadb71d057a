//! The library as users get it.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::versions::locked;
use anyhow::Result;
use logforce::{Log, Options};
use std::path::{Path, PathBuf};

/// Logforce with default options.
pub struct Logforce;

fn path(dir: &Path) -> PathBuf {
    dir.join("log")
}

impl Rival for Logforce {
    fn name(&self) -> &'static str {
        super::LOGFORCE
    }

    fn version(&self) -> String {
        locked("logforce").to_owned()
    }

    fn settings(&self) -> String {
        "default options: survives a loss of power, direct+dsync where direct I/O is offered, \
         segments of 64 MiB, filled with zeroes while it runs"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Group
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Logforce {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        Ok(Box::new(Open(logforce::create_new(
            path(dir),
            Options::new(),
        )?)))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        let log = logforce::open_existing(path(dir), Options::new())?;
        for record in log.read_from(log.front_lsn())? {
            found.see(&record?.data);
        }
        log.close()?;
        Ok(true)
    }
}

struct Open(Log);

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        self.0.commit(record)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}
