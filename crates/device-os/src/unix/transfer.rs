//! Continuation of short transfers: the contract has only whole ones.

use rustix::io::Errno;
use std::io;

/// Writes `len` bytes by calls that may write less. `call(done)` writes from `done` on and returns the number
/// of bytes that it wrote.
///
/// Offset and length of each call must be multiples of `unit` (1 for writes through the system's cache). A
/// short direct write that ends elsewhere cannot be continued, and is an error. Treating it as complete would
/// acknowledge bytes that are not there.
pub fn write_all(
    len: usize,
    unit: usize,
    mut call: impl FnMut(usize) -> Result<usize, Errno>,
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        match call(done) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::WriteZero,
                    format!("the system wrote {done} of {len} bytes and then nothing"),
                ));
            }
            Ok(n) => done += n,
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        if done < len && !done.is_multiple_of(unit) {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!(
                    "the system wrote {done} of {len} bytes, not a multiple of {unit}: a direct write cannot continue there"
                ),
            ));
        }
    }
    Ok(())
}

/// Reads up to `len` bytes by calls that may read less. Stops at the end of the file: where a call reads
/// nothing or, in a direct read, ends off the `unit`.
pub fn read_all(
    len: usize,
    unit: usize,
    mut call: impl FnMut(usize) -> Result<usize, Errno>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < len {
        match call(done) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        if !done.is_multiple_of(unit) {
            break;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripted(answers: &[Result<usize, Errno>]) -> impl FnMut(usize) -> Result<usize, Errno> {
        let mut answers = answers.iter().copied();
        move |_| answers.next().expect("no further call was expected")
    }

    #[test]
    fn short_and_interrupted_writes_are_continued() {
        let mut at = Vec::new();
        let mut answers = scripted(&[Ok(512), Err(Errno::INTR), Ok(1024), Ok(2560)]);
        write_all(4096, 512, |done| {
            at.push(done);
            answers(done)
        })
        .unwrap();
        assert_eq!(at, [0, 512, 512, 1536]);
    }

    #[test]
    fn a_short_direct_write_that_ends_unaligned_is_an_error() {
        let e = write_all(4096, 512, scripted(&[Ok(700)])).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::WriteZero);
        assert!(
            e.to_string().contains("700") && e.to_string().contains("512"),
            "{e}"
        );
    }

    #[test]
    fn writing_nothing_is_an_error_and_errors_pass() {
        assert_eq!(
            write_all(10, 1, scripted(&[Ok(3), Ok(0)]))
                .unwrap_err()
                .kind(),
            io::ErrorKind::WriteZero
        );
        let e = write_all(10, 1, scripted(&[Ok(3), Err(Errno::IO)])).unwrap_err();
        assert_eq!(e.raw_os_error(), Some(Errno::IO.raw_os_error()));
        write_all(0, 1, scripted(&[])).unwrap();
    }

    #[test]
    fn reads_end_at_the_end_of_the_file() {
        assert_eq!(
            read_all(10, 1, scripted(&[Ok(3), Err(Errno::INTR), Ok(7)])).unwrap(),
            10
        );
        assert_eq!(read_all(10, 1, scripted(&[Ok(3), Ok(0)])).unwrap(), 3);
        // A direct read that ends unaligned has reached the end: the next one would be refused.
        assert_eq!(
            read_all(8192, 4096, scripted(&[Ok(4096), Ok(100)])).unwrap(),
            4196
        );
        assert!(read_all(10, 1, scripted(&[Err(Errno::IO)])).is_err());
    }
}
