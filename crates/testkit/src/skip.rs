//! The message of a test that skips itself, because the machine lacks something.

use std::fmt;
use std::io::Write;

/// Prints that the test, or a part of it, is skipped, and why: `skip!("no direct I/O in {dir}")`.
///
/// For conditions that only show at run time, such as a filesystem without direct I/O. A CI machine
/// has everything that the tests need: there, what is skipped has failed.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {
        $crate::skip::say(::std::format_args!($($why)*))
    };
}

/// What [`skip!`] calls. The line goes to the standard error itself, past the test runner, which hides
/// the output of passing tests: so the reader sees what did not run.
pub fn say(why: fmt::Arguments<'_>) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // In one piece, so that no other test's line gets into it. A closed pipe fails no test.
    let line = format!("skipped: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
