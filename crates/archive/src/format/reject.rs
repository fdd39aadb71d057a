//! Reasons for which an object is rejected.

use crate::key::Key;
use logforce::LogId;

/// Object that cannot be used, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("object {key} of the archive: {reject}")]
pub struct ObjectError {
    /// Name of the object.
    pub key: Key,
    /// Reason.
    pub reject: Reject,
}

/// Reason why the bytes of an object are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// The object does not begin with the magic bytes.
    #[error(
        "does not begin as an object of an archive does; some other program wrote it: \
         give the archive a prefix for itself"
    )]
    Magic,
    /// The object has another length than its header states.
    #[error("has {len} bytes where its header states {expected}: damaged")]
    Length {
        /// Bytes of the object.
        len: u64,
        /// Bytes that the header states, or the shortest possible object.
        expected: u64,
    },
    /// The checksum of the header is wrong.
    #[error("the checksum of the header is wrong: damaged")]
    HeaderChecksum,
    /// A newer program wrote the object.
    #[error(
        "has format version {0}, and this program reads version 1: use the newer Logforce that wrote it"
    )]
    Version(u16),
    /// The header has a kind, flags or reserved bytes that this version does not have.
    #[error("the header has an unknown kind, unknown flags or reserved bytes in use")]
    Reserved,
    /// Positions or lengths contradict each other.
    #[error("positions or lengths contradict each other")]
    Contradiction,
    /// The object belongs to another log.
    #[error(
        "belongs to log {found}, and this archive to log {expected}: two archives were written to one \
         URL; give each log a URL for itself"
    )]
    OtherLog {
        /// Log of the object.
        found: LogId,
        /// Log of the archive.
        expected: LogId,
    },
    /// The header is that of an object with another name.
    #[error("has the header of an object with another name: objects were swapped or copied")]
    Misplaced,
    /// The object holds no part of the log, where one was expected.
    #[error("is a seal, where a chunk of the log was expected")]
    NoLog,
    /// The object is not there, and another one states that it is.
    #[error("is missing: another program deleted it")]
    Missing,
    /// The checksum of the stored payload is wrong.
    #[error("the checksum of the payload is wrong: damaged")]
    PayloadChecksum,
    /// The payload does not decompress to the length that the header states.
    #[error("the payload does not decompress to the stated length: damaged")]
    Compression,
    /// The payload does not have the layout of its kind.
    #[error("the payload does not have the layout of its kind: damaged")]
    Payload,
    /// The object is larger than this version permits.
    #[error("{what} has {len} bytes, maximum {max}")]
    TooLarge {
        /// Part that is too large.
        what: &'static str,
        /// Its length.
        len: u64,
        /// Largest length.
        max: u64,
    },
    /// The archive is encrypted, and there is no key.
    #[error("the archive is encrypted: set the key with which it was created")]
    NoKey,
    /// The key is another one than that of the archive.
    #[error("the key is not the one with which this archive was created: set that key")]
    WrongKey,
    /// The archive is not encrypted, and a key was set.
    #[error(
        "the archive was created without encryption, and a key is set: remove the key, or create an \
         encrypted archive at another URL"
    )]
    PlainArchive,
    /// The object is not encrypted in an encrypted archive.
    #[error("is not encrypted, and this archive is: it was not written by an owner of the key")]
    NotEncrypted,
    /// The system gives no random numbers.
    #[error("cannot be encrypted: the operating system gave no random numbers")]
    NoRandom,
    /// The compressor got no memory.
    #[error("cannot be compressed: the system gave no memory to zstd; free some and try again")]
    NoMemory,
    /// The authentication tag is wrong.
    #[error("was changed by a program that does not have the key")]
    Forged,
}

impl Reject {
    /// Returns the error of the object `key`.
    pub fn of(self, key: &Key) -> ObjectError {
        ObjectError {
            key: key.clone(),
            reject: self,
        }
    }
}
