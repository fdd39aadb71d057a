//! Query to a storage driver for its NVMe controller's description, and the answer, byte by byte:
//! `STORAGE_PROPERTY_QUERY` with `STORAGE_PROTOCOL_SPECIFIC_DATA` behind it, and
//! `STORAGE_PROTOCOL_DATA_DESCRIPTOR`.

use super::storage::number;
use crate::nvme::{CNS_CONTROLLER, LEN};

/// `ProtocolTypeNvme`.
const NVME: u32 = 3;
/// `NVMeDataTypeIdentify`.
const IDENTIFY: u32 = 1;
/// Length of the two four-byte numbers at the start of both structures.
const HEAD: usize = 8;
/// Length of `STORAGE_PROTOCOL_SPECIFIC_DATA` in bytes.
const SPECIFIC: usize = 40;

/// Largest length of query and answer in bytes.
pub const LONGEST: usize = HEAD + SPECIFIC + LEN;

/// Makes the query for the property `id`, followed by the space that the driver requires.
pub fn question(id: u32) -> Vec<u8> {
    let fields = [
        // The property, and "the standard question".
        id,
        0,
        NVME,
        IDENTIFY,
        CNS_CONTROLLER,
        // The namespace; there is none.
        0,
        // Offset of the data, counted from the protocol's type, and its largest length.
        SPECIFIC as u32,
        LEN as u32,
    ];
    let mut bytes = fields.map(u32::to_le_bytes).concat();
    bytes.resize(LONGEST, 0);
    bytes
}

/// Returns the data in the answer. `None` if the answer belongs to another query, or refers to bytes outside
/// itself.
pub fn data(answer: &[u8]) -> Option<&[u8]> {
    if number(answer, HEAD)? != NVME || number(answer, HEAD + 4)? != IDENTIFY {
        return None;
    }
    let (offset, len) = (number(answer, HEAD + 16)?, number(answer, HEAD + 20)?);
    let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
    // A smaller offset would point into the structure itself.
    let start = HEAD.checked_add(offset).filter(|_| offset >= SPECIFIC)?;
    answer.get(start..start.checked_add(len)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(offset: u32, len: u32) -> Vec<u8> {
        let fields = [48, 48, NVME, IDENTIFY, 1, 0, offset, len, 0, 0, 0, 0];
        let mut bytes = fields.map(u32::to_le_bytes).concat();
        bytes.extend((0..LEN).map(|n| n as u8));
        bytes
    }

    #[test]
    fn the_question_says_what_is_asked_for_and_how_much_fits() {
        let bytes = question(49);
        assert_eq!(bytes.len(), 8 + 40 + 4096);
        let first: Vec<u32> = (0..8).map(|n| number(&bytes, 4 * n).unwrap()).collect();
        assert_eq!(first, [49, 0, 3, 1, 1, 0, 40, 4096]);
        assert!(bytes[32..].iter().all(|b| *b == 0));
    }

    #[test]
    fn the_data_is_where_the_answer_says() {
        let whole = answer(40, LEN as u32);
        assert_eq!(data(&whole).unwrap(), &whole[48..]);
        let later = answer(44, 16);
        assert_eq!(data(&later).unwrap(), &later[52..68]);
        assert!(data(&answer(40, 0)).unwrap().is_empty());
    }

    #[test]
    fn an_answer_that_points_elsewhere_is_none() {
        for (offset, len) in [
            (0, 16),
            (39, 16),
            (40, LEN as u32 + 1),
            (41, LEN as u32),
            (u32::MAX, 1),
            (40, u32::MAX),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(data(&answer(offset, len)), None, "{offset} {len}");
        }
        let whole = answer(40, LEN as u32);
        for len in 0..whole.len() {
            assert_eq!(data(&whole[..len]), None, "{len}");
        }
        for at in [HEAD, HEAD + 4] {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert_eq!(data(&other), None, "another protocol, other data");
        }
    }
}
