//! Starting programs in tests.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::Duration;

/// Starts a program. Tries again after failures to start that are not the program's fault:
///
/// - Under Wine about one new process in two thousand ends before it begins, and its parent gets an internal
///   error.
/// - A program that was just written cannot run while another process has it open for writing. A process that
///   another thread is starting has, for a moment, all files of this process open.
pub trait Start {
    /// Starts the program like [`Command::spawn`].
    ///
    /// # Errors
    /// The errors of [`Command::spawn`].
    fn start(&mut self) -> io::Result<Child>;

    /// Runs the program to its end like [`Command::output`].
    ///
    /// # Errors
    /// The errors of [`Command::output`].
    fn to_end(&mut self) -> io::Result<Output>;
}

impl Start for Command {
    fn start(&mut self) -> io::Result<Child> {
        until_begun(|| self.spawn())
    }

    fn to_end(&mut self) -> io::Result<Output> {
        until_begun(|| self.output())
    }
}

/// Makes `command`, which runs the program of this test, run only the test `name`, with the variable set. A
/// helper that calls this for a test must be `#[track_caller]`.
///
/// # Panics
/// If shared code of tests calls it. The name would then match no test, and running no test counts as
/// success.
#[track_caller]
pub fn same_test(command: &mut Command, name: &str, variable: &str, value: impl AsRef<OsStr>) {
    command
        .args([
            "--exact",
            &whole_name(name),
            "--nocapture",
            "--test-threads=1",
            // Otherwise the second process of an ignored test runs nothing.
            "--include-ignored",
        ])
        .env(variable, value);
}

/// Returns the full name of a test, by which its program can run it alone. In a file of `tests/all` it
/// includes the module.
#[track_caller]
fn whole_name(test: &str) -> String {
    let file = Path::new(std::panic::Location::caller().file());
    let folder = file.parent().and_then(Path::file_name);
    match (file.file_stem().and_then(OsStr::to_str), folder) {
        (_, Some(folder)) if folder == "common" => {
            panic!("{}: #[track_caller] is missing above", file.display())
        }
        (Some(module), Some(folder)) if folder == "all" => format!("{module}::{test}"),
        _ => test.to_owned(),
    }
}

/// `ERROR_INTERNAL_ERROR`.
const INTERNAL_ERROR: i32 = 1359;

fn until_begun<T>(mut begin: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let (mut internal, mut busy) = (0, 0);
    loop {
        match begin() {
            Err(e) if cfg!(windows) && e.raw_os_error() == Some(INTERNAL_ERROR) && internal < 3 => {
                println!("started again: {e}");
                internal += 1;
            }
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy && busy < 500 => {
                sleep(Duration::from_millis(10));
                busy += 1;
            }
            begun => return begun,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busy_is_started_again_and_nothing_else() {
        let mut times = 0;
        let begun = until_begun(|| {
            times += 1;
            match times {
                1..3 => Err(ErrorKind::ExecutableFileBusy.into()),
                _ => Ok(times),
            }
        });
        assert_eq!(begun.unwrap(), 3);
        let missing = until_begun::<()>(|| {
            times += 1;
            Err(ErrorKind::NotFound.into())
        });
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(times, 4);
    }
}
