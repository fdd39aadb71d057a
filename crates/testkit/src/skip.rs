//! What a test says that lacks something here.

use std::fmt;
use std::io::Write;

/// Says that the test, or a part of it, is skipped, and why: `skip!("no direct I/O in {dir}")`.
///
/// For what only running shows, such as a filesystem that knows no direct I/O; a test that a machine
/// with all packages and root cannot run is `#[ignore]`d, with the reason.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {
        $crate::skip::say(::std::format_args!($($why)*))
    };
}

/// What [`skip!`] calls. The line goes to the standard error itself, past the test runner, which
/// keeps to itself what a passing test prints: whoever runs the tests sees what did not run.
pub fn say(why: fmt::Arguments<'_>) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // In one piece, so that no other test's line gets into it. A closed pipe is nobody's failure.
    let line = format!("skipped: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
