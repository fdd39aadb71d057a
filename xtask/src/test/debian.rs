//! Debian's Rust toolchain, for the stages that compile for other systems.
//!
//! rustup's toolchain has no library for those unless it downloads it; Debian's packages bring the
//! compiler and the sources of its library. They stand beside rustup's and share nothing with it,
//! the target folder included.

use super::Setting;
use super::counts::Counts;
use super::stage::StageOutcome;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our crates that know more than one system, the simulation with what it is made of, and this
/// program.
const CRATES: [&str; 13] = [
    "logforce-format",
    "logforce-device",
    "logforce-device-os",
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

/// Those that have to compile there without a warning, without their tests: what those depend on
/// takes longer to compile than all of ours, and most of their code makes no call of the system.
pub const LINTED: &[&str] = &CRATES;

/// The crate whose code is another on each system: with its tests.
pub const BACKENDS: &[&str] = &["logforce-device-os"];

/// Those whose tests are made into programs. Not the simulation and its disk: they make no call of
/// the system but to their threads, and take several times as long as everything else there. Not
/// xtask: its tests run other programs of this system.
pub const TESTED: &[&str] = CRATES.split_at(10).0;

/// The same and the simulation: together, since another list of crates may give those they share
/// other features, and have them compiled again.
pub const SIMULATED: &[&str] = CRATES.split_at(11).0;

/// A program or file, and the package that brings it.
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

/// The packages that are one compiler: of one version, or the library does not compile.
const ONE_VERSION: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-clippy", "rust-web-src"];

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

/// The optimisation and debug information of programs that are hardly run: none. See `Cargo.toml`.
pub const NOT_OPTIMISED: [&str; 2] = ["--profile", "cross"];

/// What keeps a stage from running, if something does: the toolchain, or what it needs besides.
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

fn missing<'n>(
    needed: impl Iterator<Item = &'n Needed>,
    there: impl Fn(&Path) -> bool,
) -> Vec<&'static str> {
    needed
        .filter(|(path, _)| !there(Path::new(path)))
        .map(|(_, package)| *package)
        .collect()
}

/// Debian's cargo, in the workspace.
pub fn cargo(setting: &Setting) -> Result<Command> {
    command(setting, Path::new("/usr/bin/cargo"))
}

/// Clippy with warnings denied, over `crates`; `which` of their parts.
pub fn clippy(setting: &Setting, target: &str, crates: &[&str], which: &[&str]) -> Result<Command> {
    let mut clippy = command(setting, Path::new("/usr/bin/cargo-clippy"))?;
    clippy.arg("clippy");
    for_target(setting, &mut clippy, target, crates);
    // By the same profile as programs: what the compiler itself runs is compiled once for both.
    clippy.args(NOT_OPTIMISED).args(which);
    clippy.args(["--keep-going", "--", "-D", "warnings"]);
    // On targets without native thread-locals it does not see that the value is constant already.
    clippy.args(["-A", "clippy::missing-const-for-thread-local"]);
    Ok(clippy)
}

/// A program that starts Debian's compiler, in the workspace.
pub fn command(setting: &Setting, program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    command.current_dir(&setting.workspace.root);
    for variable in NOT_FOR_DEBIAN {
        command.env_remove(variable);
    }
    command
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTDOC", "/usr/bin/rustdoc")
        // Clippy starts the cargo that this names.
        .env("CARGO", "/usr/bin/cargo")
        // The flag that builds the library is for nightly compilers only.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        // Not in `/tmp`, where a program that is killed leaves something behind.
        .env("TMPDIR", temporary(setting)?);
    Ok(command)
}

/// Where the stages' own temporary files go.
pub fn temporary(setting: &Setting) -> Result<PathBuf> {
    let temp = setting.workspace.target.join("debian-tmp");
    std::fs::create_dir_all(&temp).with_context(|| temp.display().to_string())?;
    Ok(temp)
}

/// Makes the command compile these crates, and the library, for that target: the library without what
/// prints the names of functions, which is a fifth of it.
pub fn for_target(setting: &Setting, command: &mut Command, target: &str, crates: &[&str]) {
    // Of a change, only Windows' tests are compiled.
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

/// An error if compiler and sources are not of one version, or if their versions are unknown.
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
        format!("{all} have to be there, and of one version: there are {list}")
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
