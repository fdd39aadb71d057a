//! Programs that tests start.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::Duration;

/// Starts a program, again where it is not the program's fault that it did not begin:
///
/// - Under Wine a new process now and then (once in two thousand) ends before it has begun, and
///   its parent gets an internal error.
/// - A program that was just written cannot be run while another process has it open for writing:
///   one that another thread is just starting has, for a moment, all that was open here.
pub trait Start {
    /// As [`Command::spawn`].
    ///
    /// # Errors
    /// As that.
    fn start(&mut self) -> io::Result<Child>;

    /// As [`Command::output`].
    ///
    /// # Errors
    /// As that.
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

/// Makes `command`, which runs a test's own program, run its test `name` alone, with the variable set. A
/// helper that calls this for a test is `#[track_caller]` itself.
///
/// # Panics
/// If shared code of tests calls it: a name that fits no test would run none, and that counts as success.
#[track_caller]
pub fn same_test(command: &mut Command, name: &str, variable: &str, value: impl AsRef<OsStr>) {
    command
        .args([
            "--exact",
            &whole_name(name),
            "--nocapture",
            "--test-threads=1",
        ])
        .env(variable, value);
}

/// Returns a test's full name, by which its program runs it again alone. In a file of `tests/all` the module
/// is part of it.
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
