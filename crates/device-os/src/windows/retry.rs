//! Retries for files that another process has open for a moment. A scanner, an indexer or a backup opens
//! files as soon as they are written, and may share neither their names nor their bytes meanwhile.

use super::error::kind;
use std::io;
use std::time::Duration;

/// Time for which calls on a file that is not shared are retried. Such programs take milliseconds, and other
/// threads may be waiting for the log's own thread.
const BUSY: Duration = Duration::from_millis(250);
/// Time for which calls with denied access are retried. A file that is being removed denies access until the
/// handle that removes it is closed (`FILE_DISPOSITION_POSIX_SEMANTICS`), and is missing then. Without
/// retries a reader beside a truncating writer would get an error about missing rights.
const DENIED: Duration = Duration::from_millis(10);

/// Retries while the file is not shared, or access is denied.
pub fn while_busy_or_denied<T>(call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    again(call, DENIED)
}

/// Retries while the file is not shared. For calls with an alternative if access is denied.
pub fn while_busy<T>(call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    again(call, Duration::ZERO)
}

fn again<T>(mut call: impl FnMut() -> io::Result<T>, denied: Duration) -> io::Result<T> {
    let (mut waited, mut pause) = (Duration::ZERO, Duration::from_millis(1));
    loop {
        let error = match call() {
            Ok(done) => return Ok(done),
            Err(e) => e,
        };
        let timeout = match kind(&error) {
            io::ErrorKind::ResourceBusy => BUSY,
            io::ErrorKind::PermissionDenied => denied,
            _ => Duration::ZERO,
        };
        if waited >= timeout {
            return Err(error);
        }
        std::thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(Duration::from_millis(25));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{NotFound, PermissionDenied, ResourceBusy};

    const SHARING_VIOLATION: i32 = 32;

    /// Returns the final answer and the number of calls, if the first answers are `first`.
    fn asked(
        how: fn(&mut dyn FnMut() -> io::Result<()>) -> io::Result<()>,
        times: u32,
        first: fn() -> io::Error,
        then: fn() -> io::Result<()>,
    ) -> (Option<io::ErrorKind>, u32) {
        let mut asked = 0;
        let answer = how(&mut || {
            asked += 1;
            if asked <= times { Err(first()) } else { then() }
        });
        (answer.err().map(|e| kind(&e)), asked)
    }

    fn both(call: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        while_busy_or_denied(call)
    }

    fn busy(call: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        while_busy(call)
    }

    #[test]
    fn who_meets_somebody_else_asks_again_and_not_for_ever() {
        let denied: fn() -> io::Error = || PermissionDenied.into();
        let unshared: fn() -> io::Error = || io::Error::from_raw_os_error(SHARING_VIOLATION);
        let gone: fn() -> io::Result<()> = || Err(NotFound.into());
        let done: fn() -> io::Result<()> = || Ok(());
        assert_eq!(asked(both, 0, denied, gone), (Some(NotFound), 1));
        assert_eq!(asked(both, 3, denied, gone), (Some(NotFound), 4));
        assert_eq!(asked(both, 9, unshared, done), (None, 10));
        assert_eq!(asked(busy, 9, unshared, done), (None, 10));
        let (kind, times) = asked(both, u32::MAX, denied, done);
        assert!(kind == Some(PermissionDenied) && (3..=10).contains(&times));
        let (kind, times) = asked(busy, u32::MAX, unshared, done);
        assert!(kind == Some(ResourceBusy) && (10..=30).contains(&times));
        // This caller has an alternative.
        assert_eq!(asked(busy, 1, denied, done), (Some(PermissionDenied), 1));
    }
}
