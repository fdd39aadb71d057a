//! The Windows code, type-checked on a Debian.
//!
//! rustup's toolchain has no library for that target unless it downloads it; Debian's packages
//! bring the compiler, the sources of its library, and the linker. They stand beside rustup's and
//! share nothing with it, the target folder included.

use super::stage::{Outcome, Stage};
use super::{Setting, host};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

const TARGET: &str = "x86_64-pc-windows-gnu";

/// The crates that have to compile there.
const CRATES: [&str; 4] = [
    "logforce-format",
    "logforce-device",
    "logforce-device-os",
    "logforce-core",
];

/// What has to be there, and the package that brings it.
const NEEDED: [(&str, &str); 4] = [
    ("/usr/bin/rustc", "rustc-web"),
    ("/usr/bin/cargo", "cargo-web"),
    (
        "/usr/lib/rustlib/src/rust/library/std/Cargo.toml",
        "rust-web-src",
    ),
    (
        "/usr/bin/x86_64-w64-mingw32-gcc",
        "gcc-mingw-w64-x86-64-posix",
    ),
];

/// Variables that would bring rustup's toolchain in.
const NOT_FOR_DEBIAN: [&str; 9] = [
    "RUSTUP_TOOLCHAIN",
    "CARGO",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "LD_LIBRARY_PATH",
    "CARGO_TARGET_DIR",
];

/// Type-checks the crates and their tests.
pub fn run(setting: &Setting) -> Result<Outcome> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(path, _)| !Path::new(path).exists())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        return Ok(Outcome::skipped(format!(
            "the Windows check needs {}",
            missing.join(" ")
        )));
    }
    let mut command = Command::new("/usr/bin/cargo");
    command
        .args(["check", "-Zbuild-std", "--target", TARGET])
        .args(CRATES.iter().flat_map(|c| ["-p", c]))
        .args(["--tests", "--locked", "--target-dir"])
        .arg(setting.workspace.target.join("windows"))
        .current_dir(&setting.workspace.root);
    for variable in NOT_FOR_DEBIAN {
        command.env_remove(variable);
    }
    command
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTDOC", "/usr/bin/rustdoc")
        // The flag that builds the library is for nightly compilers only.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TERM_COLOR", "never");
    host::one_command(setting, Stage::Windows, &mut command)
}
