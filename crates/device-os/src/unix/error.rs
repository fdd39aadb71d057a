use logforce_device::failure;
use logforce_device::planted;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// Returns the same error with the operation and the path.
pub fn at(error: impl Into<io::Error>, doing: &str, path: &Path) -> io::Error {
    let error = error.into();
    failure::at(&error, error.kind(), doing, path)
}

/// Makes the error of a call that creates the file or directory `path`. The system has one number for missing
/// space and missing inodes.
pub fn of_making(error: Errno, path: &Path) -> io::Error {
    let at = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    match rustix::fs::statvfs(at.unwrap_or(Path::new("."))) {
        // A filesystem without a fixed number of inodes reports 0 of 0.
        Ok(found) if error == Errno::NOSPC && found.f_files > 0 && found.f_favail == 0 => {
            failure::no_inodes(found.f_bavail.saturating_mul(found.f_frsize))
        }
        _ => error.into(),
    }
}

/// Repeats a call for as long as a signal interrupts it.
pub fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) if !planted!("signal-is-an-error") => {}
            other => return other,
        }
    }
}

/// Same for calls of the standard library.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub fn uninterrupted_io<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted && !planted!("signal-is-an-error") => {
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::failure::{is_of_medium, os_number};
    use rustix::io::Errno;

    #[test]
    fn kind_and_path_are_kept() {
        let e = at(Errno::NOSPC, "write to", Path::new("/a/b"));
        assert_eq!(e.kind(), io::ErrorKind::StorageFull);
        assert!(e.to_string().contains("/a/b"), "{e}");
        assert_eq!(os_number(&e), Some(Errno::NOSPC.raw_os_error()));
        assert!(is_of_medium(&at(Errno::IO, "read from", Path::new("/a"))));
        assert_eq!(
            at(Errno::DQUOT, "", Path::new("")).kind(),
            io::ErrorKind::QuotaExceeded
        );
    }

    #[test]
    fn a_signal_is_not_an_error() {
        let mut answers = vec![Ok(7), Err(Errno::INTR), Err(Errno::INTR)];
        assert_eq!(uninterrupted(|| answers.pop().unwrap()), Ok(7));
        let mut answers = vec![Ok(7), Err(Errno::INTR.into()), Err(Errno::INTR.into())];
        assert_eq!(uninterrupted_io(|| answers.pop().unwrap()).unwrap(), 7);
    }
}
