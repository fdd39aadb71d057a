//! `logforce bench journal` with so little to do that it takes no time.

use crate::runs::command;
use logforce_testkit::process::Start;
use std::path::Path;
use std::process::Output;

/// Flags for that.
pub const TINY: [&str; 4] = ["--size", "1MiB", "--seconds", "0.3"];

/// Runs it with `TINY`.
pub fn tiny(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, &[arguments, &TINY].concat()).to_end().unwrap()
}
