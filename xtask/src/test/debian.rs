//! Debian's Rust toolchain, for the stages that compile for other systems.
//!
//! rustup's toolchain has no standard library for other systems unless it downloads one. Debian's
//! packages have the compiler and the sources of its library. They are installed beside rustup's
//! toolchain and share nothing with it, not even the target folder.

use super::Setting;
use super::counts::Counts;
use super::stage::StageOutcome;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's crates with code for several systems, the simulation with its dependencies, and this
/// program.
const CRATES: [&str; 14] = [
    "logforce-format",
    "logforce-device",
    "logforce-device-os",
    "logforce-commit",
    "logforce-core",
    "logforce-pages",
    "logforce-calibrate",
    "logforce",
    "logforce-measure",
    "logforce-witness",
    "logforce-cli",
    "logforce-sim",
    "logforce-testkit",
    "xtask",
];

/// Crates that must compile for other systems without a warning. Their tests are left out: the tests'
/// dependencies take longer to compile than all crates of the project, and their code mostly makes no
/// system calls.
pub const LINTED: &[&str] = &CRATES;

/// Crate whose code differs on each system; it is checked with its tests.
pub const BACKENDS: &[&str] = &["logforce-device-os"];

/// Crates whose test programs are built. The simulation and its disk are not among them: their only
/// system calls are for threads, and they take several times as long as everything else. Neither is
/// xtask: its tests run other programs of this system.
pub const TESTED: &[&str] = CRATES.split_at(11).0;

/// The same crates and the simulation. They are built together, because another list of crates can
/// change the features of shared dependencies, which would then be compiled again.
pub const SIMULATED: &[&str] = CRATES.split_at(12).0;

/// Path of a program or file, and the package that contains it.
pub type Needed = (&'static str, &'static str);

const NEEDED: [Needed; 4] = [
    ("/usr/bin/rustc", "rustc-web"),
    ("/usr/bin/cargo", "cargo-web"),
    ("/usr/bin/cargo-clippy", "rust-web-clippy"),
    (
        "/usr/lib/rustlib/src/rust/library/std/Cargo.toml",
        "rust-web-src",
    ),
];

/// Packages that form one compiler. They must have the same version, or the library does not compile.
const ONE_VERSION: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-clippy", "rust-web-src"];

/// Environment variables that would select rustup's toolchain.
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

/// Profile without optimisation and debug information, for programs that hardly run. See `Cargo.toml`.
pub const NOT_OPTIMISED: [&str; 2] = ["--profile", "cross"];

/// Returns the outcome of a stage that cannot run, because the toolchain or something else is missing.
pub fn refused(code: &str, besides: &[Needed]) -> Option<StageOutcome> {
    let missing = missing(NEEDED.iter().chain(besides), |path| path.exists());
    if !missing.is_empty() {
        let names = missing.join(" ");
        return Some(StageOutcome::skipped(format!(
            "the {code} code needs {names}"
        )));
    }
    versions_differ().map(|differ| StageOutcome::of(Counts::FAILED, vec![differ]))
}

/// Returns the packages of the files that are not there.
pub fn missing<'n>(
    needed: impl Iterator<Item = &'n Needed>,
    there: impl Fn(&Path) -> bool,
) -> Vec<&'static str> {
    needed
        .filter(|(path, _)| !there(Path::new(path)))
        .map(|(_, package)| *package)
        .collect()
}

/// Returns a command with Debian's cargo, in the workspace.
pub fn cargo(setting: &Setting) -> Result<Command> {
    command(setting, Path::new("/usr/bin/cargo"))
}

/// Returns a command with clippy and denied warnings, for `crates`; `which` selects their parts.
pub fn clippy(setting: &Setting, target: &str, crates: &[&str], which: &[&str]) -> Result<Command> {
    let mut clippy = command(setting, Path::new("/usr/bin/cargo-clippy"))?;
    clippy.arg("clippy");
    for_target(setting, &mut clippy, target, crates);
    // With the same profile as programs, so that macros and build scripts are compiled once for both.
    clippy.args(NOT_OPTIMISED).args(which);
    clippy.args(["--keep-going", "--", "-D", "warnings"]);
    // On targets without native thread-locals, clippy does not see that the value is already constant.
    clippy.args(["-A", "clippy::missing-const-for-thread-local"]);
    Ok(clippy)
}

/// Returns a command that uses Debian's compiler, in the workspace.
pub fn command(setting: &Setting, program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    command.current_dir(&setting.workspace.root);
    for variable in NOT_FOR_DEBIAN {
        command.env_remove(variable);
    }
    command
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTDOC", "/usr/bin/rustdoc")
        // Clippy starts the cargo in this variable.
        .env("CARGO", "/usr/bin/cargo")
        // The flag that builds the library needs a nightly compiler, or this variable.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        // Not in `/tmp`: a killed program leaves files behind.
        .env("TMPDIR", temporary(setting)?);
    Ok(command)
}

/// Returns the directory for the stages' own temporary files.
pub fn temporary(setting: &Setting) -> Result<PathBuf> {
    let temp = setting.workspace.target.join("debian-tmp");
    std::fs::create_dir_all(&temp).with_context(|| temp.display().to_string())?;
    Ok(temp)
}

/// Makes the command compile these crates and the library for that target. The library is built without
/// the code that prints function names, which is a fifth of it.
pub fn for_target(setting: &Setting, command: &mut Command, target: &str, crates: &[&str]) {
    // For a change, only the Windows tests are compiled.
    let library = match setting.tier.is_deep() || target.contains("windows") {
        true => "-Zbuild-std=std,test",
        false => "-Zbuild-std=std",
    };
    command
        .args([library, "-Zbuild-std-features=panic-unwind"])
        .args(["--target", target])
        .args(crates.iter().flat_map(|c| ["-p", c]))
        .args(["--locked", "--target-dir"])
        .arg(setting.workspace.target.join("debian"));
}

/// Returns an error if compiler and sources differ in their version, or if the versions are unknown.
fn versions_differ() -> Option<String> {
    let out = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${Version}\n"])
        .args(ONE_VERSION)
        .output();
    match out {
        Ok(out) => not_one(&String::from_utf8_lossy(&out.stdout)),
        Err(e) => Some(format!(
            "the versions of Debian's toolchain: dpkg-query: {e}"
        )),
    }
}

fn not_one(listed: &str) -> Option<String> {
    let mut versions: Vec<&str> = listed.lines().filter_map(|l| l.split(' ').nth(1)).collect();
    let all = versions.len() == ONE_VERSION.len() && versions.iter().all(|v| !v.is_empty());
    versions.dedup();
    (versions.len() != 1 || !all).then(|| {
        let list = listed.lines().collect::<Vec<_>>().join(", ");
        let all = ONE_VERSION.join(", ");
        format!("{all} must be installed in one version; installed: {list}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared() {
        let listed = |versions: [&str; 4]| -> String {
            let lines = ONE_VERSION.iter().zip(versions);
            lines.map(|(p, v)| format!("{p} {v}\n")).collect()
        };
        assert_eq!(not_one(&listed(["1.96.0"; 4])), None);
        let differ = not_one(&listed(["1.96.0", "1.96.0", "1.96.0", "1.97.0"])).unwrap();
        assert!(differ.contains("rust-web-src 1.97.0"), "{differ}");
        for missing in ["", "rustc-web 1.96.0\n", &listed(["1.96.0", "", "", ""])] {
            assert!(not_one(missing).is_some(), "{missing}");
        }
    }

    #[test]
    fn what_is_missing_is_named_by_its_package() {
        let besides = [("/usr/bin/linker", "a-linker")];
        let named = missing(NEEDED.iter().chain(&besides), |path| {
            !path.ends_with("linker") && !path.ends_with("cargo-clippy")
        });
        assert_eq!(named, ["rust-web-clippy", "a-linker"]);
    }

    #[test]
    fn the_simulation_is_linted_and_not_tested() {
        assert!(LINTED.contains(&"logforce-sim") && !TESTED.contains(&"logforce-sim"));
        assert!(LINTED.contains(&"xtask") && !TESTED.contains(&"xtask"));
        assert_eq!(TESTED.last(), Some(&"logforce-cli"));
        assert_eq!(SIMULATED.last(), Some(&"logforce-sim"));
    }
}
