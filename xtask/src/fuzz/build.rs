//! Build of the targets, with cargo-fuzz's flags for `--sanitizer none`.

use super::Places;
use crate::flagged::host;
use crate::test::Budget;
use crate::workspace::cargo;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Compiler flags that make LLVM count edges and report comparisons to libFuzzer.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Cdebug-assertions",
    // With more units, instrumented code is not inlined across crates.
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Built targets.
#[derive(Debug)]
pub struct Build {
    dir: PathBuf,
}

impl Build {
    /// Builds all targets. With `planted`, known bugs are compiled in and can be switched on.
    pub fn make(places: &Places, planted: bool, budget: &Budget) -> Result<Build> {
        let host = host()?;
        let name = if planted { "planted" } else { "build" };
        let target_dir = places.target.join(name);
        std::fs::create_dir_all(&target_dir)?;
        let mut flags = FLAGS.join("\x1f");
        if planted {
            flags += "\x1f--cfg=planted";
        }
        let mut command = Command::new(cargo());
        command
            .args(["build", "--release", "--locked", "--bins"])
            // Only with a target are build scripts and macros built without the flags.
            .args(["--target", &host])
            .arg("--manifest-path")
            .arg(places.root.join("fuzz").join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target_dir)
            .current_dir(&places.root)
            .env("CARGO_ENCODED_RUSTFLAGS", flags)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TERM_COLOR", "never")
            .env_remove("RUSTFLAGS");
        let log = places.target.join(format!("{name}.log"));
        let ended = budget.run(&mut command, &log)?;
        if !ended.ok {
            let text = ended.text();
            bail!("{}\n{}{text}", ended.how, advice(&text));
        }
        Ok(Build {
            dir: target_dir.join(host).join("release"),
        })
    }

    /// Returns the path of a built target.
    pub fn program(&self, target: &str) -> PathBuf {
        self.dir
            .join(format!("{target}{}", std::env::consts::EXE_SUFFIX))
    }
}

/// Returns the usual remedy for a failed build with this output.
fn advice(text: &str) -> &'static str {
    if text.contains("--locked") {
        "(the lock file of fuzz/ is separate and not up to date with the dependencies: run \
             `cargo metadata --manifest-path fuzz/Cargo.toml`)\n"
    } else if text.contains("c++") {
        "(libFuzzer needs a C++ compiler: Debian's package g++)\n"
    } else {
        ""
    }
}
