//! Records of the group bench: bytes that a device can neither compress nor deduplicate, with a number in front.

use logforce_measure::prepare::scramble;

/// Number of bytes at the beginning of a record that differ in each record.
const STAMP: usize = 8;

/// Returns a record.
pub fn record(bytes: u64) -> Vec<u8> {
    let mut record = vec![0; usize::try_from(bytes).unwrap_or(0)];
    scramble(&mut record, 0x6e09);
    record
}

/// Writes `number` to the beginning of a record, which makes it different from all others.
pub fn stamp(record: &mut [u8], number: u64) {
    let n = record.len().min(STAMP);
    record[..n].copy_from_slice(&number.to_le_bytes()[..n]);
}

/// Returns the first number of a thread's records. Each further record adds 1.
pub fn first_number(thread: u32) -> u64 {
    u64::from(thread) << 40
}
