//! The owner's metadata, beside the control file.

use crate::error::{Error, Result};
use crate::log::Log;
use logforce_format::MAX_META_LEN;

impl Log {
    /// The metadata: what [`Log::set_meta`] last made durable, or what opening found. `None` if it
    /// was never set; empty metadata is `Some` of an empty vector. Returned from memory, also in a
    /// log that has failed.
    pub fn meta(&self) -> Option<Vec<u8>> {
        self.engine().files.control.meta_bytes()
    }

    /// Replaces the metadata, up to 4000 bytes that the log keeps for its owner: the term and vote
    /// of a consensus algorithm, the checkpoint of an engine. Atomic, and forced when this returns,
    /// by barriers whatever the log's method is. A crash leaves the old value or the new one; the
    /// new one, once this call or an opening that has read it has returned.
    ///
    /// It is independent of the records: this forces none of them, and `truncate_back` does not
    /// change it. Calls from several threads run one after the other.
    ///
    /// [`Error::TooLarge`] beyond 4000 bytes. After any other failure but one of kind
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace) or [`ErrorKind::Io`](crate::ErrorKind::Io)
    /// the log is poisoned, and only opening it again shows which value it has.
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
