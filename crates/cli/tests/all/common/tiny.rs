//! Very short runs of `logforce bench journal`.

use crate::runs::command;
use logforce_testkit::process::Start;
use std::path::Path;
use std::process::Output;

/// Flags of a very short run.
pub const TINY: [&str; 4] = ["--size", "1MiB", "--seconds", "0.3"];

/// Runs the command with `TINY`.
pub fn tiny(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, &[arguments, &TINY].concat()).to_end().unwrap()
}
