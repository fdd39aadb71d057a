//! The files of the VFS below, as this crate uses them.

use std::ffi::c_int;

/// Result code of SQLite that is not `SQLITE_OK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub c_int);

/// `SQLITE_CANTOPEN`.
pub const CANNOT_OPEN: Code = Code(14);
/// `SQLITE_IOERR_FSYNC`.
pub const SYNC_FAILED: Code = Code(1034);

/// Largest write that the unix VFS accepts with certainty, bytes: it cuts longer lengths to 17 bits.
const LONGEST_WRITE: usize = 64 << 10;

/// An open file of the VFS below.
pub trait StockFile {
    /// Reads the whole buffer.
    ///
    /// # Errors
    /// `SQLITE_IOERR_SHORT_READ` at the end of the file. The rest of the buffer is zeroes then.
    fn read(&mut self, buf: &mut [u8], at: u64) -> Result<(), Code>;
    /// Writes all bytes; at most 64 KiB.
    fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), Code>;
    /// Sets the length.
    fn truncate(&mut self, len: u64) -> Result<(), Code>;
    /// Makes durable what was written.
    fn sync(&mut self, flags: c_int) -> Result<(), Code>;
    /// Returns the length in bytes.
    fn size(&mut self) -> Result<u64, Code>;

    /// Writes any number of bytes.
    fn write_all(&mut self, bytes: &[u8], at: u64) -> Result<(), Code> {
        let mut at = at;
        for piece in bytes.chunks(LONGEST_WRITE) {
            self.write(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}
