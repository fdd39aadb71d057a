//! The hold: a file beside the log, by which a replica in another process keeps the writer from dropping what
//! it has not copied. Pins exist in the writer's memory only.
//!
//! The file is 4096 bytes: a magic number, the version, the log, the position, the limit and the choice, the
//! replica, and a checksum. It is replaced as a whole. While a file is there that is not a hold of this log, truncations
//! fail: dropping what a replica still needs cannot be undone.

use crate::error::{Error, Result};
use crate::names;
use crate::storage::transfer::write;
use logforce_device::{AlignedBuf, Barrier, Directory, OpenFile, ReadSource};
use logforce_format::{LogId, Lsn};
use std::io;

const LEN: usize = 4096;
const MAGIC: &[u8; 6] = b"LFHOLD";
const VERSION: u16 = 1;

/// Position from which the log is kept for a replica, and the limit of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// The log is kept from here on.
    pub at: Lsn,
    /// Maximum number of bytes that are kept below the front that the log's owner has requested.
    pub limit: u64,
    /// Choice at the limit.
    pub at_limit: AtHoldLimit,
    /// Identity of the replica; zeroes if it has none yet. A log has one hold: a second replica that takes it
    /// makes the first one lose a part of the log.
    pub replica: [u8; 16],
}

/// Choice at the limit of a [`Hold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AtHoldLimit {
    /// The log goes on without the replica, which then lacks a part of it and must begin anew.
    DropReplica,
    /// The log keeps everything, and refuses appends that need another segment
    /// ([`Error::ReplicaBehind`]), until the replica has caught up.
    RefuseAppends,
}

impl Hold {
    /// Returns a hold at `at` with a limit in bytes.
    pub fn new(at: Lsn, limit: u64, at_limit: AtHoldLimit) -> Hold {
        Hold {
            at,
            limit,
            at_limit,
            replica: [0; 16],
        }
    }

    /// Sets the identity of the replica.
    pub fn of(self, replica: [u8; 16]) -> Hold {
        Hold { replica, ..self }
    }

    /// Returns true if more is kept than the limit allows, when the owner has requested the front `wanted`.
    pub(crate) fn is_exceeded(&self, wanted: Lsn) -> bool {
        wanted.since(self.at) > self.limit
    }

    /// Returns true if three quarters of the limit are used.
    pub(crate) fn is_alarming(&self, wanted: Lsn) -> bool {
        wanted.since(self.at) > self.limit / 4 * 3
    }

    /// Returns the highest possible front when the owner has requested the front `wanted`.
    pub(crate) fn bound(&self, wanted: Lsn) -> Lsn {
        match self.at_limit {
            AtHoldLimit::DropReplica if self.is_exceeded(wanted) => wanted,
            _ => wanted.min(self.at),
        }
    }

    fn encode(&self, log_id: LogId) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[..6].copy_from_slice(MAGIC);
        b[6..8].copy_from_slice(&VERSION.to_le_bytes());
        b[12] = u8::from(self.at_limit == AtHoldLimit::RefuseAppends);
        b[16..32].copy_from_slice(&log_id.0);
        b[32..40].copy_from_slice(&self.at.0.to_le_bytes());
        b[40..48].copy_from_slice(&self.limit.to_le_bytes());
        b[48..64].copy_from_slice(&self.replica);
        let crc = crc32(&b);
        b[8..12].copy_from_slice(&crc.to_le_bytes());
        b
    }

    fn decode(b: &[u8], log_id: LogId) -> Option<Hold> {
        let b: &[u8; LEN] = b.try_into().ok()?;
        let mut zeroed = *b;
        zeroed[8..12].fill(0);
        let number = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap_or_default());
        let is_whole = b.starts_with(MAGIC)
            && b[6..8] == VERSION.to_le_bytes()
            && b[8..12] == crc32(&zeroed).to_le_bytes()
            && b[16..32] == log_id.0;
        is_whole.then(|| Hold {
            at: Lsn(number(32)),
            limit: number(40),
            at_limit: match b[12] {
                0 => AtHoldLimit::DropReplica,
                _ => AtHoldLimit::RefuseAppends,
            },
            replica: b[48..64].try_into().unwrap_or_default(),
        })
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    logforce_format::payload_crc(0, bytes)
}

/// Writes the hold of a log, durably.
pub(crate) fn store(dir: &dyn Directory, log_id: LogId, hold: &Hold) -> Result<()> {
    let path = dir.path().join(names::HOLD_NEW);
    let _ = dir.remove(names::HOLD_NEW);
    let file = dir
        .open(names::HOLD_NEW, OpenFile::CREATE)
        .map_err(Error::io("create", &path))?;
    let mut buf = AlignedBuf::zeroed(LEN, LEN);
    buf.copy_from_slice(&hold.encode(log_id));
    write(&*file, 0, buf).map_err(Error::io("write", &path))?;
    // Before the rename: otherwise a crash could leave an empty file under the name that counts.
    file.barrier(Barrier::Full)
        .map_err(Error::io("sync", &path))?;
    dir.rename(names::HOLD_NEW, names::HOLD)
        .map_err(Error::io("rename", &path))?;
    dir.sync().map_err(Error::io("sync directory", dir.path()))
}

/// Reads the hold of a log; `None` if there is none.
///
/// # Errors
/// If there is a file that cannot be read or is not a hold of this log.
pub(crate) fn load(dir: &dyn Directory, log_id: LogId) -> Result<Option<Hold>> {
    let path = dir.path().join(names::HOLD);
    let file = match dir.open(names::HOLD, OpenFile::READ) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io("open", &path))?,
    };
    let mut b = [0; LEN];
    let n = file
        .read_at(0, &mut b, ReadSource::Cache)
        .map_err(Error::io("read", &path))?;
    match Hold::decode(&b[..n], log_id) {
        Some(hold) => Ok(Some(hold)),
        None => Err(Error::Io {
            doing: "use",
            path,
            source: std::sync::Arc::new(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is not a hold of this log, and may come from a newer version: remove it if no replica copies this log",
            )),
        }),
    }
}
