//! Corrected checksums after a change of bytes. Only an attacker or a bug writes such bytes.

use logforce_format::{BATCH_HEADER_LEN, payload_crc};

/// Offset of the checksum in every structure. It is computed as if these bytes were zero.
const HOLE: usize = 8;

/// Puts the correct checksum into the structure that these bytes are, and returns it.
pub(super) fn seal(bytes: &mut [u8]) -> u32 {
    let crc = payload_crc(0, &bytes[..HOLE]);
    let crc = payload_crc(crc, &[0; 4]);
    let crc = payload_crc(crc, &bytes[HOLE + 4..]);
    bytes[HOLE..HOLE + 4].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Puts the correct checksums into a batch whose header begins these bytes: that of the payload, as far as
/// it exists, and that of the header, which it returns.
pub(super) fn seal_batch(bytes: &mut [u8]) -> u32 {
    let (header, rest) = bytes.split_at_mut(BATCH_HEADER_LEN);
    let mut len = [0; 4];
    len.copy_from_slice(&header[84..88]);
    let len = u32::from_le_bytes(len) as usize;
    let crc = payload_crc(0, &rest[..len.min(rest.len())]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    seal(header)
}
