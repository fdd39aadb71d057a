//! The metadata that the log keeps for its owner.

use crate::error::{Error, Result};
use crate::log::Log;
use logforce_format::MAX_META_LEN;

impl Log {
    /// The metadata: what [`Log::set_meta`] last made durable, or what opening found. `None` if it
    /// was never set; metadata of no bytes is `Some` of an empty vector. From memory, in a log that
    /// failed as well.
    pub fn meta(&self) -> Option<Vec<u8>> {
        self.engine().files.control.meta_bytes()
    }

    /// Replaces the metadata, up to 4000 bytes that the log keeps for its owner: a consensus
    /// implementer's term and vote, an engine's checkpoint. Atomic, and forced when this returns,
    /// by barriers whatever the log's method is: a crash leaves the value before or this one, and
    /// never the one before once this call, or an opening that showed this one, has returned.
    ///
    /// It is independent of the records: they are neither forced by this nor cut with it. Calls
    /// from several threads are done one after the other.
    ///
    /// [`Error::TooLarge`] beyond 4000 bytes. After any other failure but one of kind
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace) or [`ErrorKind::Io`](crate::ErrorKind::Io)
    /// the log is poisoned, and which value is there will be known after reopening.
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
