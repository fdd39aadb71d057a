//! Records that name their writer: what is read after a cut is either one of them, whole, or
//! something that was never appended.

use logforce_testkit::Rng;

const MAGIC: u64 = u64::from_le_bytes(*b"lf-cut-1");
const HEADER: usize = 7 * 8;
const SUM: usize = 4;

/// The shortest record.
pub const SHORTEST: usize = HEADER + SUM;

/// Which record it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The subject's process that wrote it.
    pub session: u64,
    /// Its thread.
    pub thread: u64,
    /// Its number of the thread, without gaps.
    pub sequence: u64,
    /// The first of those that were appended atomically with it.
    pub first: u64,
    /// How many those are.
    pub count: u64,
}

impl Identity {
    /// The record's bytes, `len` of them (at least `SHORTEST`).
    pub fn record(&self, len: usize) -> Vec<u8> {
        let len = len.max(SHORTEST);
        let words = [
            MAGIC,
            self.session,
            self.thread,
            self.sequence,
            self.first,
            self.count,
            len as u64,
        ];
        let mut bytes = Vec::with_capacity(len + 8);
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let mut rng = Rng::new(self.seed());
        while bytes.len() < len - SUM {
            bytes.extend_from_slice(&rng.bits().to_le_bytes());
        }
        bytes.truncate(len - SUM);
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn seed(&self) -> u64 {
        self.session << 40 ^ self.thread << 32 ^ self.sequence
    }

    /// Reads the identity off a record, and checks every byte of it.
    ///
    /// # Errors
    /// In words, if it was not made by [`record`](Self::record).
    pub fn read(bytes: &[u8]) -> Result<Identity, String> {
        let mut words = [0; 7];
        for (i, word) in words.iter_mut().enumerate() {
            let eight = bytes.get(i * 8..i * 8 + 8).and_then(|b| b.try_into().ok());
            *word = u64::from_le_bytes(eight.ok_or("shorter than any record")?);
        }
        let [magic, session, thread, sequence, first, count, len] = words;
        let identity = Identity {
            session,
            thread,
            sequence,
            first,
            count,
        };
        if magic != MAGIC || len != bytes.len() as u64 {
            return Err("no record of the subject".to_owned());
        }
        if identity.record(bytes.len()) != bytes {
            return Err(format!("{identity:?} with other bytes than were appended"));
        }
        Ok(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        let identity = Identity {
            session: 3,
            thread: 2,
            sequence: 9,
            first: 8,
            count: 2,
        };
        for len in [0, SHORTEST, 61, 200, 5000] {
            let record = identity.record(len);
            assert_eq!(record.len(), len.max(SHORTEST));
            assert_eq!(Identity::read(&record), Ok(identity));
            for at in 0..record.len() {
                let mut other = record.clone();
                other[at] ^= 1;
                assert_ne!(Identity::read(&other), Ok(identity), "{at}");
            }
            assert!(Identity::read(&record[1..]).is_err());
        }
    }
}
