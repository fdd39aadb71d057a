//! Large writes without a log: an upper bound for the rate.

use super::Bulk;
use crate::rivals::records::BULK_RECORD;
use crate::rivals::records::Records;
use crate::rivals::subjects::RAW;
use anyhow::Result;
use logforce_device::{AlignedBuf, Barrier, FileState, System};
use logforce_device_os::OsSystem;
use logforce_measure::prepare::{PreparedFile, write};
use logforce_measure::{Interrupt, MeasureError};
use logforce_terminal::progress::Silent;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Size of a write and of a read, bytes.
const PIECE: usize = 1 << 20;
/// Unit of a direct write.
const UNIT: usize = 4096;

/// Overwrites blocks that were written before.
pub const OVERWRITTEN: Raw = Raw {
    state: FileState::Zeroed,
    name: "raw overwrites",
};
/// Writes into blocks that are only allocated.
pub const FALLOCATED: Raw = Raw {
    state: FileState::Fallocated,
    name: "raw fallocated",
};

/// Subject: writes of 1 MiB into one file.
pub struct Raw {
    state: FileState,
    name: &'static str,
}

impl Bulk for Raw {
    fn rival(&self) -> &'static str {
        RAW
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn settings(&self) -> String {
        format!(
            "direct writes of 1 MiB into a {} file and one fdatasync, no log; read back through \
             the cache, 1 MiB at a time",
            self.state
        )
    }

    fn append(&self, dir: &Path, records: &mut Records, count: u64) -> Result<Duration> {
        let total = count * BULK_RECORD as u64;
        let mut file = PreparedFile::new(
            OsSystem::new().directory(dir)?,
            self.state,
            total.next_multiple_of(PIECE as u64),
            UNIT,
            Interrupt::new(),
            Rc::new(Silent),
        );
        file.renew()?;
        let handle = match file.open(true) {
            Err(MeasureError::NotOffered(_)) => file.open(false)?,
            other => other?,
        };
        let mut buf = AlignedBuf::zeroed(PIECE, UNIT);
        for record in buf.chunks_exact_mut(BULK_RECORD) {
            record.copy_from_slice(records.following().1);
        }
        let (began, mut offset) = (Instant::now(), 0);
        while offset < total {
            // Only the numbers change. Copying whole records would be part of a log's work.
            records.renumber(&mut buf, offset / BULK_RECORD as u64);
            let left = (total - offset).next_multiple_of(UNIT as u64);
            let len = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            buf = write(&*handle, buf, offset, len, false)?;
            offset += len as u64;
        }
        handle.barrier(Barrier::Data)?;
        Ok(began.elapsed())
    }

    fn read(&self, dir: &Path, count: u64, see: &mut dyn FnMut(&[u8])) -> Result<()> {
        let file = File::open(dir.join(format!("journal-{}", self.state)))?;
        let mut file = file.take(count * BULK_RECORD as u64);
        let mut piece = vec![0; PIECE];
        loop {
            let mut filled = 0;
            while filled < PIECE {
                match file.read(&mut piece[filled..]) {
                    Ok(0) => break,
                    Ok(n) => filled += n,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(e.into()),
                }
            }
            if filled == 0 {
                return Ok(());
            }
            piece[..filled].chunks(BULK_RECORD).for_each(&mut *see);
        }
    }
}
