//! What is refused before Windows is asked.
//!
//! Windows answers a misaligned unbuffered write with "invalid parameter" and says no more; Wine
//! answers nothing and writes. So the numbers are checked here, and named.

use logforce_device::DirectAlignment;
use std::io::{self, ErrorKind::InvalidInput};

/// Refuses what is no plain file name: it would lead out of the directory, be cut at the NUL, name
/// a stream of another file (the colon), or be a pattern.
pub fn name(name: &str) -> io::Result<()> {
    let strange = |c: char| c < ' ' || r#"/\:*?"<>|"#.contains(c);
    // Without the prefix `\\?\` other programs cannot open a name that ends so.
    let ends_badly = name.ends_with(['.', ' ']);
    if name.is_empty() || ends_badly || name.contains(strange) {
        return Err(io::Error::new(
            InvalidInput,
            format!("{name:?} is not a plain file name"),
        ));
    }
    Ok(())
}

/// Offsets are signed, and two of the values that are left mean "at the end" and "here".
pub fn end(offset: u64, len: usize) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(io::Error::new(
            InvalidInput,
            format!("{len} bytes at {offset} end beyond the largest file"),
        )),
    }
}

/// Refuses an unbuffered transfer that is not aligned as `needed` says.
pub fn alignment(needed: DirectAlignment, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let address = bytes.as_ptr() as usize;
    let (unit, memory) = (needed.offset as usize, needed.memory as usize);
    // An empty buffer has no memory, and its address means nothing.
    if offset.is_multiple_of(unit as u64)
        && bytes.len().is_multiple_of(unit)
        && (bytes.is_empty() || address.is_multiple_of(memory))
    {
        return Ok(());
    }
    Err(io::Error::new(
        InvalidInput,
        format!(
            "unbuffered I/O here needs offset and length to be multiples of {unit} and memory of {memory}: \
             offset {offset}, length {}, memory {address:#x}",
            bytes.len()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::AlignedBuf;

    #[test]
    fn only_plain_names() {
        for bad in [
            "", ".", "..", "a/b", "/a", "a\\b", "a\0b", "a:b", "a.", "a ", "a*", "\n",
        ] {
            assert_eq!(name(bad).unwrap_err().kind(), InvalidInput, "{bad:?}");
        }
        for good in ["a", ".hidden", "a b", "ä", "日本", "con", "a.tmp"] {
            name(good).unwrap();
        }
    }

    #[test]
    fn misaligned_transfers_are_refused_with_the_numbers() {
        let needed = DirectAlignment {
            memory: 512,
            offset: 4096,
        };
        let buf = AlignedBuf::zeroed(16384, 4096);
        alignment(needed, 4096, &buf[512..8704]).unwrap();
        alignment(needed, 0, &buf[1..1]).unwrap();
        for (offset, bytes) in [(1, &buf[..4096]), (0, &buf[..4095]), (0, &buf[8..4104])] {
            let e = alignment(needed, offset, bytes).unwrap_err();
            assert_eq!(e.kind(), InvalidInput);
            let said = e.to_string();
            assert!(said.contains("4096") && said.contains("512"), "{said}");
        }
    }

    #[test]
    fn files_end_somewhere() {
        end(0, 0).unwrap();
        end(i64::MAX as u64 - 1, 1).unwrap();
        for offset in [i64::MAX as u64, u64::MAX - 1, u64::MAX] {
            assert_eq!(end(offset, 1).unwrap_err().kind(), InvalidInput);
        }
    }
}
