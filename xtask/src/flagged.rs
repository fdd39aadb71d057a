//! Builds with special compiler flags: with known bugs compiled in, or with a checker of interleavings
//! in place of the locks.
//!
//! These builds share a separate target folder. In the usual one, cargo would recompile everything at
//! each change of the flags. The compiler's own programs, mostly macros, are built without the flags and
//! so only once.

use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result};
use std::process::Command;

/// Compiler flag that compiles the known bugs in.
pub const KNOWN_BUGS: &str = "--cfg planted";

/// Target folder of these builds, below the usual one.
const FOLDER: &str = "flagged";

/// Returns a cargo command with these compiler flags.
pub fn cargo_with(flags: &str, workspace: &Workspace) -> Result<Command> {
    let mut command = Command::new(cargo());
    command
        .current_dir(&workspace.root)
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // Cargo builds macros and build scripts without the flags only if a target is given.
        .env("CARGO_BUILD_TARGET", host()?)
        .env("CARGO_TARGET_DIR", workspace.target.join(FOLDER));
    Ok(command)
}

/// Returns the target that this compiler builds for.
pub fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = Command::new(rustc)
        .arg("-vV")
        .output()
        .context("rustc -vV")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let host = text.lines().find_map(|l| l.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV prints no host")
}
