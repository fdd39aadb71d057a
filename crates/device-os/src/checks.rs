//! Checks of arguments that are made before the system call.
//!
//! For a misaligned direct transfer the kernels report only "invalid argument". Wine and some drivers report
//! nothing and write. So the values are checked here, and the error names them.

use logforce_device::{AlignedBuf, Completion, DirectAlignment, Write};
use std::io::{self, ErrorKind::InvalidInput};
use std::path::Path;

/// Checks that a range ends within the largest file. Offsets are signed, and some of the values beyond mean
/// "here" and "at the end".
pub fn end(offset: u64, len: usize) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(io::Error::new(
            InvalidInput,
            format!("{len} bytes at {offset} end beyond the largest possible file"),
        )),
    }
}

/// Refuses a direct transfer that is not aligned as `needed` says. `how` is the system's name for such I/O.
pub fn alignment(how: &str, needed: DirectAlignment, offset: u64, bytes: &[u8]) -> io::Result<()> {
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
            "{how} I/O here needs offset and length to be multiples of {unit} and memory of {memory}: \
             offset {offset}, length {}, memory {address:#x}",
            bytes.len()
        ),
    ))
}

/// Returns the bytes of a write to the file `path`, or an error if the write is not permitted.
pub fn bytes<'w>(write: &'w Write, writable: bool, path: &Path) -> io::Result<&'w [u8]> {
    if !writable {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "cannot write to {}: it was opened for reading",
                path.display()
            ),
        ));
    }
    let (range, buf) = (&write.range, &write.buf);
    let bytes = buf.get(range.clone()).ok_or_else(|| {
        io::Error::new(
            InvalidInput,
            format!("bytes {range:?} are not in a buffer of {}", buf.len()),
        )
    })?;
    end(write.offset, bytes.len())?;
    Ok(bytes)
}

/// Makes the completion of a ticket that does not belong to a write to the file `path`.
pub fn foreign(path: &Path) -> Completion {
    Completion {
        buf: AlignedBuf::zeroed(0, 1),
        result: Err(io::Error::new(
            InvalidInput,
            format!("this ticket is not for a write to {}", path.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misaligned_transfers_are_refused_with_the_numbers() {
        let needed = DirectAlignment {
            memory: 512,
            offset: 4096,
        };
        let check = |offset, bytes| alignment("direct", needed, offset, bytes);
        let buf = AlignedBuf::zeroed(16384, 4096);
        check(4096, &buf[512..8704]).unwrap();
        check(0, &buf[1..1]).unwrap();
        for (offset, bytes) in [(1, &buf[..4096]), (0, &buf[..4095]), (0, &buf[8..4104])] {
            let e = check(offset, bytes).unwrap_err();
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
