//! Little-endian fields at fixed offsets. Offsets are constants of the format and lie within their fixed-size
//! arrays, so nothing here can fail.

/// Returns true if all bytes are zero. Reads every byte, which is faster than stopping at the first non-zero
/// one.
pub(crate) fn are_zero(b: &[u8]) -> bool {
    b.iter().fold(0, |all, x| all | x) == 0
}

pub(crate) fn get_u16(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

pub(crate) fn get_u32(b: &[u8], at: usize) -> u32 {
    let mut x = [0; 4];
    x.copy_from_slice(&b[at..at + 4]);
    u32::from_le_bytes(x)
}

pub(crate) fn get_u64(b: &[u8], at: usize) -> u64 {
    let mut x = [0; 8];
    x.copy_from_slice(&b[at..at + 8]);
    u64::from_le_bytes(x)
}

pub(crate) fn get_id(b: &[u8], at: usize) -> crate::LogId {
    let mut x = [0; 16];
    x.copy_from_slice(&b[at..at + 16]);
    crate::LogId(x)
}

pub(crate) fn get_epoch(b: &[u8], at: usize) -> crate::Epoch {
    crate::Epoch {
        counter: get_u64(b, at),
        nonce: get_u64(b, at + 8),
    }
}

pub(crate) fn put(b: &mut [u8], at: usize, field: &[u8]) {
    b[at..at + field.len()].copy_from_slice(field);
}

pub(crate) fn put_epoch(b: &mut [u8], at: usize, e: crate::Epoch) {
    put(b, at, &e.counter.to_le_bytes());
    put(b, at + 8, &e.nonce.to_le_bytes());
}

/// Returns the CRC-32C of `b`, as if the four bytes at `hole` were zero.
pub(crate) fn crc_with_hole(b: &[u8], hole: usize) -> u32 {
    let crc = crc32c::crc32c(&b[..hole]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &b[hole + 4..])
}
