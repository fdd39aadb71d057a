//! The owner's metadata, beside the control file.

use crate::error::{Error, Result};
use crate::log::Log;
use logforce_format::MAX_META_LEN;

impl Log {
    /// Returns the metadata that [`Log::set_meta`] last made durable, or that the opening found. `None` if
    /// it was never set; empty metadata is `Some` of an empty vector. It comes from memory, even in a log
    /// that has failed.
    pub fn meta(&self) -> Option<Vec<u8>> {
        self.engine().files.control.meta_bytes()
    }

    /// Replaces the metadata: up to 4000 bytes that the log keeps for its owner, such as the term and vote
    /// of a consensus algorithm, or the checkpoint of an engine. The change is atomic, and is forced when
    /// this returns, by barriers with any method of the log. A crash leaves the old value or the new one. It
    /// leaves the new one if this call, or an opening that has read it, has returned.
    ///
    /// The metadata is independent of the records: this call forces no records, and `truncate_back` does not
    /// change the metadata. Calls from several threads run one after the other.
    ///
    /// Fails with [`Error::TooLarge`] beyond 4000 bytes. After any other failure, except one of kind
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace) or [`ErrorKind::Io`](crate::ErrorKind::Io), the log
    /// is poisoned, and only opening it again shows which value it has.
    pub fn set_meta(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > MAX_META_LEN {
            return Err(Error::TooLarge {
                len: bytes.len() as u64,
                max: MAX_META_LEN as u64,
            });
        }
        self.engine().set_meta(bytes)
    }
}
