//! Writer of a new file from its beginning on, in large pieces.

use crate::error::{Error, Result};
use logforce_device::{AlignedBuf, File, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum size of a piece in bytes.
const PIECE: usize = 1 << 20;

pub(super) struct Stream {
    file: Arc<dyn File>,
    path: PathBuf,
    /// `None` while a write is in flight.
    buf: Option<AlignedBuf>,
    alignment: usize,
    /// Offset in the file of the first byte in the buffer.
    offset: u64,
    len: usize,
}

impl Stream {
    pub(super) fn new(file: Arc<dyn File>, path: PathBuf, alignment: usize) -> Stream {
        Stream {
            file,
            path,
            buf: None,
            alignment,
            offset: 0,
            len: 0,
        }
    }

    /// Writes at `offset`, which must not be below the end of earlier writes. Bytes in between are zeroes.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.offset + self.len as u64 != offset || self.len + bytes.len() > PIECE {
            self.flush()?;
            self.offset = offset;
        }
        let alignment = self.alignment;
        let buf = self
            .buf
            .get_or_insert_with(|| AlignedBuf::zeroed(PIECE, alignment));
        buf[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Hands the buffered bytes to the system. They are durable after a barrier.
    pub(super) fn flush(&mut self) -> Result<()> {
        let len = std::mem::take(&mut self.len);
        let Some(buf) = self.buf.take().filter(|_| len > 0) else {
            return Ok(());
        };
        let ticket = self.file.submit(Write {
            offset: self.offset,
            range: 0..len,
            buf,
            through: false,
        });
        let done = self.file.complete(ticket);
        self.offset += len as u64;
        self.buf = Some(done.buf);
        done.result.map_err(Error::io("write", &self.path))
    }
}
