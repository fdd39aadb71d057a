//! Records of the measured phase. Each contains its identity, from which all its bytes follow.

use crate::RunId;

const MAGIC: [u8; 8] = *b"LFCUTREC";
/// Length of the header in bytes: magic, run, round, stream, sequence.
const HEADER: usize = 8 + 16 + 4 + 2 + 8;

/// Identity of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name {
    pub run: RunId,
    pub round: u32,
    /// Stream of the record.
    pub stream: u16,
    /// Number of the record in its stream, from 1.
    pub sequence: u64,
}

/// Returns the next number of the generator. Also spreads the bits of a seed.
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Name {
    fn seed(&self) -> u64 {
        let run = (self.run.0 as u64) ^ ((self.run.0 >> 64) as u64);
        mix(run ^ mix((u64::from(self.round) << 16) | u64::from(self.stream)) ^ self.sequence)
    }

    /// Returns the whole record: mostly some hundred bytes, sometimes up to 24 KiB.
    pub fn record(&self) -> Vec<u8> {
        let seed = self.seed();
        let payload = match seed % 64 {
            0 => 8192 + (seed >> 8) % 16384,
            _ => (seed >> 8) % 1200,
        };
        let mut data = Vec::with_capacity(HEADER + payload as usize + 12);
        data.extend(MAGIC);
        data.extend(self.run.0.to_le_bytes());
        data.extend(self.round.to_le_bytes());
        data.extend(self.stream.to_le_bytes());
        data.extend(self.sequence.to_le_bytes());
        let mut x = seed;
        while data.len() < HEADER + payload as usize {
            x = mix(x);
            data.extend(x.to_le_bytes());
        }
        let sum = crc32c::crc32c(&data);
        data.extend(sum.to_le_bytes());
        data
    }

    /// Returns the identity of the record with these bytes, or `None` if no such record was made.
    pub fn of(data: &[u8]) -> Option<Name> {
        let (magic, rest) = data.split_first_chunk::<8>()?;
        let (run, rest) = rest.split_first_chunk::<16>()?;
        let (round, rest) = rest.split_first_chunk::<4>()?;
        let (stream, rest) = rest.split_first_chunk::<2>()?;
        let (sequence, _) = rest.split_first_chunk::<8>()?;
        let name = Name {
            run: RunId(u128::from_le_bytes(*run)),
            round: u32::from_le_bytes(*round),
            stream: u16::from_le_bytes(*stream),
            sequence: u64::from_le_bytes(*sequence),
        };
        (*magic == MAGIC && name.record() == data).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_known_again_and_no_other_bytes_are() {
        let mut lengths = std::collections::BTreeSet::new();
        for sequence in 1..500 {
            let name = Name {
                run: RunId(7 << 90 | 3),
                round: 2,
                stream: 5,
                sequence,
            };
            let data = name.record();
            assert_eq!(Name::of(&data), Some(name));
            lengths.insert(data.len());
            let mut broken = data.clone();
            let at = mix(sequence) as usize % data.len();
            broken[at] ^= 1;
            assert_eq!(Name::of(&broken), None);
            assert_eq!(Name::of(&data[..data.len() - 1]), None);
        }
        assert!(lengths.len() > 50 && lengths.iter().any(|l| *l > 8192));
    }
}
