//! The header of a checkpoint file, as docs/format.md describes it.

use crate::Lsn;

/// Length of the header in bytes.
pub const HEADER: usize = 32;

/// Version of the format.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"LOGFCHKP";

/// The header, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Checksum of header and state.
    pub sum: u32,
    /// End of the last record that the state holds.
    pub lsn: Lsn,
    /// Length of the state in bytes.
    pub len: u64,
}

/// Reason for refusing bytes as a header.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// Format version of a newer program.
    Version(u32),
    /// Any other reason.
    Other(&'static str),
}

impl Header {
    /// Makes the header of a new checkpoint.
    pub fn new(lsn: Lsn, state: &[u8]) -> Header {
        let mut header = Header {
            sum: 0,
            lsn,
            len: state.len() as u64,
        };
        header.sum = crc32c::crc32c_append(checksum(&header), state);
        header
    }

    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.sum.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Decodes a header. Does not verify the checksum, which covers the state as well.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Header, Refused> {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        if bytes[..8] != MAGIC {
            return Err(Refused::Other(
                "it does not begin with a checkpoint's magic number",
            ));
        }
        match word(2) {
            VERSION => Ok(Header {
                sum: word(3),
                lsn: Lsn(long(4)),
                len: long(6),
            }),
            0 => Err(Refused::Other("it has format version 0")),
            version => Err(Refused::Version(version)),
        }
    }
}

/// Returns the checksum (CRC-32C) of the header without the checksum field. The caller appends the state to
/// it.
pub fn checksum(header: &Header) -> u32 {
    let bytes = header.encode();
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}
