//! The message of a test that skips itself, because the machine lacks something.

use std::fmt;
use std::io::Write;

/// Prints that the test, or a part of it, is skipped, and why: `skip!("no direct I/O in {dir}")`.
///
/// Use it for conditions that only show at run time, such as a filesystem without direct I/O. A CI machine
/// has everything that the tests need, so a skipped test counts as failed there.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {
        $crate::skip::say(::std::format_args!($($why)*))
    };
}

/// Prints the line for [`skip!`]. Writes directly to standard error, because the test runner hides the output
/// of passing tests and the reader must see which tests did not run.
pub fn say(why: fmt::Arguments<'_>) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Writes the line in one call, so that lines of other tests do not mix with it. Ignores errors, so that a
    // closed pipe does not fail the test.
    let line = format!("skipped: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
