//! Counters of acknowledgements, in memory that a program, the disk and the harness share.
//!
//! The disk samples all counters *before* it freezes: what a sampled counter covers was acknowledged before
//! the cut, and must survive it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Number of counters. A program with several threads gives each its own.
pub const COUNTERS: usize = 16;

/// The value of each counter.
pub type Counters = [u64; COUNTERS];

/// Reads all counters from the first bytes of `file`.
///
/// # Errors
/// If the file is shorter than the counters, and those of the read.
pub fn sample(file: &File) -> io::Result<Counters> {
    let mut bytes = [0; COUNTERS * 8];
    file.read_exact_at(&mut bytes, 0)?;
    let mut counters = [0; COUNTERS];
    for (counter, bytes) in counters.iter_mut().zip(bytes.chunks(8)) {
        *counter = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    Ok(counters)
}

/// Sets counter number `which`.
///
/// # Errors
/// I/O errors of the write.
pub fn set(file: &File, which: usize, value: u64) -> io::Result<()> {
    file.write_all_at(&value.to_le_bytes(), which as u64 * 8)
}
