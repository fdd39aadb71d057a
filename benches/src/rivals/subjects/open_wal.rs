//! open-wal: a log for one writer.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::turn::take;
use crate::rivals::versions::locked;
use anyhow::Result;
use open_wal::{Lsn, Wal, WalConfig};
use std::path::Path;
use std::sync::Mutex;

/// open-wal with its defaults.
pub struct OpenWal;

impl Rival for OpenWal {
    fn name(&self) -> &'static str {
        "open-wal"
    }

    fn version(&self) -> String {
        locked("open-wal").to_owned()
    }

    fn settings(&self) -> String {
        "defaults: segments of 128 MiB, allocated ahead; append() and commit() (fdatasync) for \
         each record"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::OneByOne
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for OpenWal {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        let (wal, _) = Wal::open(dir, WalConfig::default())?;
        Ok(Box::new(Open(Mutex::new(wal))))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        let (wal, _) = Wal::open(dir, WalConfig::default())?;
        let mut reader = wal.reader_from(Lsn(0))?;
        while let Some(record) = reader.next() {
            found.see(record?.1);
        }
        Ok(true)
    }
}

struct Open(Mutex<Wal>);

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let mut wal = take(&self.0)?;
        wal.append(record)?;
        wal.commit()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
