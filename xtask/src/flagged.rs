//! Builds by flags of their own: known bugs compiled in, a checker of interleavings behind the locks.
//!
//! They share one target folder beside the usual one, in which cargo would compile everything again at
//! each change of its flags. What the compiler itself runs, macros above all, is built without the
//! flags and so once for all of them.

use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result};
use std::process::Command;

/// The flag with which the known bugs are compiled in.
pub const KNOWN_BUGS: &str = "--cfg planted";

/// Below the target folder.
const FOLDER: &str = "flagged";

/// Cargo with these flags for the compiler.
pub fn cargo_with(flags: &str, workspace: &Workspace) -> Result<Command> {
    let mut command = Command::new(cargo());
    command
        .current_dir(&workspace.root)
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // Only if a target is named are macros and build scripts built without the flags.
        .env("CARGO_BUILD_TARGET", host()?)
        .env("CARGO_TARGET_DIR", workspace.target.join(FOLDER));
    Ok(command)
}

/// The machine that this compiler builds for.
pub fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = Command::new(rustc)
        .arg("-vV")
        .output()
        .context("rustc -vV")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let host = text.lines().find_map(|l| l.strip_prefix("host: "));
    host.map(str::to_owned)
        .context("rustc -vV does not say its host")
}
