//! Parsing of the answer of macOS about attributes of a volume (`getattrlist(2)`). This module makes no
//! system calls.

/// Length of the answer about a volume's UUID alone, in bytes: its own length as 32 bits, and the UUID.
pub const UUID_ANSWER: usize = 4 + 16;

/// Returns the UUID of such an answer, in the usual groups, in lower case as on Linux. Returns `None` if the
/// volume has no UUID, or if the answer is of another length.
pub fn uuid(answer: &[u8; UUID_ANSWER]) -> Option<String> {
    let (len, uuid) = answer.split_first_chunk()?;
    if u32::from_ne_bytes(*len) as usize != UUID_ANSWER || uuid.iter().all(|b| *b == 0) {
        return None;
    }
    let mut text = String::new();
    for (n, byte) in uuid.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(len: u32, uuid: [u8; 16]) -> [u8; UUID_ANSWER] {
        let mut answer = [0; UUID_ANSWER];
        answer[..4].copy_from_slice(&len.to_ne_bytes());
        answer[4..].copy_from_slice(&uuid);
        answer
    }

    #[test]
    fn a_uuid_is_told_in_the_usual_groups() {
        let bytes = [
            0x0f, 0x1e, 0x2d, 0x3c, 0x4b, 0x5a, 0x69, 0x78, 0x87, 0x96, 0xa5, 0xb4, 0xc3, 0xd2,
            0xe1, 0xf0,
        ];
        let found = uuid(&answer(20, bytes));
        assert_eq!(
            found.as_deref(),
            Some("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")
        );
        for len in [0, 4, 19, 21, u32::MAX] {
            assert_eq!(uuid(&answer(len, bytes)), None, "{len}");
        }
        assert_eq!(uuid(&answer(20, [0; 16])), None, "a volume without one");
    }
}
