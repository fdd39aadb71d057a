//! Writes that are kept in memory until their order or their visibility needs them in the file.

use crate::stock::{Code, StockFile};

/// Size above which gathered bytes are written, bytes. It bounds the memory of a large transaction.
const LIMIT: usize = 256 << 10;

/// One contiguous run of bytes that is not in the file yet. SQLite writes a page in two or three calls; the
/// file gets one for a whole transaction.
#[derive(Debug, Default)]
pub struct Gather {
    start: u64,
    bytes: Vec<u8>,
}

impl Gather {
    /// Returns true if everything is in the file.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the offset behind the run.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Adds a write. A write that does not continue the run begins another one, after the first is written:
    /// the file gets all bytes in the order of the calls.
    ///
    /// # Errors
    /// The errors of [`Gather::flush`]; the write was not added then.
    pub fn push(&mut self, file: &mut dyn StockFile, bytes: &[u8], at: u64) -> Result<(), Code> {
        if !self.is_empty() && (at != self.end() || self.bytes.len() + bytes.len() > LIMIT) {
            self.flush(file)?;
        }
        if self.is_empty() {
            self.start = at;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the run to the file.
    ///
    /// # Errors
    /// The errors of the file. The run is kept: SQLite reads it to roll back.
    pub fn flush(&mut self, file: &mut dyn StockFile) -> Result<(), Code> {
        if !self.is_empty() {
            file.write_all(&self.bytes, self.start)?;
            self.discard();
        }
        Ok(())
    }

    /// Forgets the run.
    pub fn discard(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(LIMIT);
    }

    /// Reads from the run where it covers the range, else from the file.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn read(&mut self, file: &mut dyn StockFile, buf: &mut [u8], at: u64) -> Result<(), Code> {
        let end = at + buf.len() as u64;
        if self.is_empty() || end <= self.start || self.end() <= at {
            return file.read(buf, at);
        }
        if self.start <= at && end <= self.end() {
            let from = (at - self.start) as usize;
            buf.copy_from_slice(&self.bytes[from..from + buf.len()]);
            return Ok(());
        }
        self.flush(file)?;
        file.read(buf, at)
    }

    /// Returns the length of the file with the run in it.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn size(&self, file: &mut dyn StockFile) -> Result<u64, Code> {
        let size = file.size()?;
        Ok(match self.is_empty() {
            true => size,
            false => size.max(self.end()),
        })
    }
}
