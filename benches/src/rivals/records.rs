//! Records: each is unique, and none can be compressed.

use anyhow::{Result, bail};

/// Size of a bulk record, bytes.
pub const BULK_RECORD: usize = 1 << 10;

/// Bytes at the start of a record that hold its writer and its number.
const STAMP: usize = 12;
/// Size of the shortest record, bytes.
pub const SHORTEST: usize = 16;

/// Generator of one thread's records.
#[derive(Debug, Clone)]
pub struct Records {
    bytes: Vec<u8>,
    next: u64,
}

impl Records {
    /// Returns the generator of thread `writer`, with records of `len` bytes.
    ///
    /// # Errors
    /// If `len` is below [`SHORTEST`].
    pub fn new(writer: usize, len: usize) -> Result<Records> {
        if len < SHORTEST {
            bail!(
                "a record of {len} bytes is too short: at least {SHORTEST} are needed to tell records apart"
            );
        }
        let mut state = 0x9e37_79b9_7f4a_7c15 ^ (writer as u64 + 1);
        let mut bytes = vec![0; len];
        for word in bytes.chunks_mut(8) {
            // xorshift64*: noise that cannot be compressed.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let noise = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
            word.copy_from_slice(&noise[..word.len()]);
        }
        let writer = u32::try_from(writer)?;
        bytes[..4].copy_from_slice(&writer.to_le_bytes());
        Ok(Records { bytes, next: 0 })
    }

    /// Returns the next record, with its number. Only the stamp changes between records, so the
    /// generation costs nothing measurable.
    pub fn following(&mut self) -> (u64, &[u8]) {
        let number = self.next;
        self.next += 1;
        (number, self.at(number))
    }

    /// Turns the records in `piece` into consecutive records of this thread, starting at number `first`.
    pub fn renumber(&self, piece: &mut [u8], first: u64) {
        for (record, number) in piece.chunks_exact_mut(self.bytes.len()).zip(first..) {
            record[4..STAMP].copy_from_slice(&number.to_le_bytes());
        }
    }

    fn at(&mut self, number: u64) -> &[u8] {
        self.bytes[4..STAMP].copy_from_slice(&number.to_le_bytes());
        &self.bytes
    }
}

/// Returns the writer and the number of a record.
pub fn stamp(record: &[u8]) -> Option<(usize, u64)> {
    let writer = u32::from_le_bytes(record.get(..4)?.try_into().ok()?);
    let number = u64::from_le_bytes(record.get(4..STAMP)?.try_into().ok()?);
    Some((usize::try_from(writer).ok()?, number))
}

/// Checker of records that were read back: records which were seen, and whether they match.
#[derive(Debug)]
pub struct FoundRecords {
    writers: Vec<(Records, Vec<bool>)>,
    /// Number of records that were never written, or came back changed.
    pub foreign: u64,
}

impl FoundRecords {
    /// Returns a checker for the records of `threads` threads, `len` bytes each.
    ///
    /// # Errors
    /// As [`Records::new`].
    pub fn new(threads: usize, len: usize) -> Result<FoundRecords> {
        let of = |writer| Ok((Records::new(writer, len)?, Vec::new()));
        Ok(FoundRecords {
            writers: (0..threads).map(of).collect::<Result<_>>()?,
            foreign: 0,
        })
    }

    /// Takes a record that was read back.
    pub fn see(&mut self, record: &[u8]) {
        let of = stamp(record).and_then(|(writer, number)| {
            let number_at = usize::try_from(number).ok()?;
            let (records, seen) = self.writers.get_mut(writer)?;
            (records.at(number) == record).then_some((seen, number_at))
        });
        let Some((seen, at)) = of else {
            self.foreign += 1;
            return;
        };
        if seen.len() <= at {
            seen.resize(at + 1, false);
        }
        seen[at] = true;
    }

    /// Returns the number of acknowledged records that were not seen. `acknowledged[writer]` is the
    /// number of the thread's acknowledged records, which are its first ones.
    pub fn missing(&self, acknowledged: &[u64]) -> u64 {
        acknowledged
            .iter()
            .enumerate()
            .map(|(writer, &count)| {
                let there = self.writers.get(writer).map_or(0, |(_, seen)| {
                    let within = usize::try_from(count).unwrap_or(usize::MAX).min(seen.len());
                    seen[..within].iter().filter(|s| **s).count() as u64
                });
                count - there
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_changed_or_foreign_is_found() {
        let mut found = FoundRecords::new(2, 32).unwrap();
        for writer in 0..2 {
            let mut records = Records::new(writer, 32).unwrap();
            for _ in 0..3 {
                let (number, record) = records.following();
                if (writer, number) != (1, 1) {
                    found.see(record);
                }
            }
        }
        assert_eq!((found.missing(&[3, 1]), found.foreign), (0, 0));
        assert_eq!(found.missing(&[3, 3]), 1);
        assert_eq!(found.missing(&[4, 3]), 2);
        let mut changed = Records::new(1, 32).unwrap().following().1.to_vec();
        changed[31] ^= 1;
        found.see(&changed);
        found.see(b"short");
        found.see(Records::new(2, 32).unwrap().following().1);
        assert_eq!(found.foreign, 3);
        assert!(Records::new(0, SHORTEST - 1).is_err());
    }
}
