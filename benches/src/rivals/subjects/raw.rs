//! Raw loop: the cheapest durable write, without a log.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::turn::take;
use anyhow::{Context, Result};
use logforce_device::{AlignedBuf, File, FileState, System};
use logforce_device_os::OsSystem;
use logforce_measure::Interrupt;
use logforce_measure::prepare::{PreparedFile, write};
use logforce_terminal::progress::Silent;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Unit of a direct write.
const UNIT: usize = 4096;
/// Size of the file, bytes; at its end the loop restarts at the beginning.
const FILE: u64 = 64 << 20;

/// Rival: one direct, durable write per record.
pub struct Raw;

impl Rival for Raw {
    fn name(&self) -> &'static str {
        super::RAW
    }

    fn version(&self) -> String {
        String::new()
    }

    fn settings(&self) -> String {
        "no log: each record padded to 4096 bytes, one direct pwritev2(RWF_DSYNC) over a \
         zero-filled file of 64 MiB; nothing to read back"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Single
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Raw {
    fn open(&self, dir: &Path, shape: Shape) -> Result<Box<dyn Opened>> {
        let mut file = PreparedFile::new(
            OsSystem::new().directory(dir)?,
            FileState::Zeroed,
            FILE,
            UNIT,
            Interrupt::new(),
            Rc::new(Silent),
        );
        file.ensure(FILE)?;
        let file = file.open(true)?;
        let padded = shape.record.next_multiple_of(UNIT);
        let buf = AlignedBuf::zeroed(padded, UNIT);
        Ok(Box::new(Open {
            file,
            at: Mutex::new((Some(buf), 0)),
        }))
    }

    fn read_back(&self, _: &Path, _: Shape, _: &mut FoundRecords) -> Result<bool> {
        Ok(false)
    }
}

struct Open {
    file: Arc<dyn File>,
    /// Buffer, and the offset of the next write. There is only one thread, so no thread waits for the
    /// lock.
    at: Mutex<(Option<AlignedBuf>, u64)>,
}

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let mut at = take(&self.at)?;
        let (slot, offset) = &mut *at;
        let mut buf = slot.take().context("an earlier write failed")?;
        buf[..record.len()].copy_from_slice(record);
        let len = buf.len();
        *slot = Some(write(&*self.file, buf, *offset, len, true)?);
        *offset += len as u64;
        if *offset + len as u64 > FILE {
            *offset = 0;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
