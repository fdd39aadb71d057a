//! The floor: the cheapest durable write, without a log.

use crate::records::Tally;
use crate::rival::{Opened, Rival, Shape, Writers};
use crate::turn::take;
use anyhow::{Context, Result};
use logforce_device::AlignedBuf;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

/// Unit of a direct write.
const UNIT: usize = 4096;
/// Bytes of the file; at its end the loop begins anew.
const FILE: u64 = 64 << 20;
const CHUNK: usize = 1 << 20;

/// One `O_DIRECT|O_DSYNC` write per record.
pub struct Raw;

impl Rival for Raw {
    fn name(&self) -> &'static str {
        super::RAW
    }

    fn version(&self) -> String {
        String::new()
    }

    fn settings(&self) -> String {
        "no log: each record padded to 4096 bytes, one O_DIRECT|O_DSYNC pwrite over a zero-filled \
         file of 64 MiB; nothing to read back"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Single
    }

    fn open(&self, dir: &Path, shape: Shape) -> Result<Box<dyn Opened>> {
        let path = dir.join("raw");
        let file = File::create(&path)?;
        let zeroes = vec![0; CHUNK];
        for offset in (0..FILE).step_by(CHUNK) {
            file.write_all_at(&zeroes, offset)?;
        }
        file.sync_all()?;
        // By libc: the constant of rustix for O_DSYNC is O_SYNC, which forces the time of the
        // last change as well, a journal's commit now and then.
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_DSYNC)
            .open(&path)
            .context("the filesystem offers no direct I/O")?;
        let padded = shape.record.next_multiple_of(UNIT);
        Ok(Box::new(Open {
            file,
            at: Mutex::new((AlignedBuf::zeroed(padded, UNIT), 0)),
        }))
    }

    fn read_back(&self, _: &Path, _: Shape, _: &mut Tally) -> Result<bool> {
        Ok(false)
    }
}

struct Open {
    file: File,
    /// What is written, and where next. One thread only, so nobody waits for it.
    at: Mutex<(AlignedBuf, u64)>,
}

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let mut at = take(&self.at)?;
        let (buf, offset) = &mut *at;
        buf[..record.len()].copy_from_slice(record);
        self.file.write_all_at(buf, *offset)?;
        *offset += buf.len() as u64;
        if *offset + buf.len() as u64 > FILE {
            *offset = 0;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
