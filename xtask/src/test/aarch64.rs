//! Linux on aarch64: the command is linked, and QEMU's user mode runs unit tests and the command.

use super::debian::{self, Needed};
use super::stage::StageOutcome;
use super::{Setting, host};
use anyhow::{Context, Result};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// QEMU with its arguments: it translates the programs' system calls to this kernel's, and uses the
/// libraries there.
const QEMU: [&str; 3] = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];

/// Files needed in addition to the toolchain.
const NEEDED: [Needed; 3] = [
    ("/usr/bin/aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    (
        "/usr/aarch64-linux-gnu/lib/libc.so.6",
        "libc6-dev-arm64-cross",
    ),
    ("/usr/bin/qemu-aarch64", "qemu-user"),
];

pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let deep = setting.tier.is_deep();
    if let Some(refused) = debian::refused("aarch64", if deep { &NEEDED } else { &[] }) {
        return Ok(refused);
    }
    if !deep {
        // The other crates depend on neither the system nor the processor, and are checked on this
        // machine.
        let mut check = cargo(setting, "check", debian::BACKENDS)?;
        return host::step(setting, "aarch64", &mut check);
    }
    let mut build = cargo(setting, "build", debian::TESTED)?;
    build.args(["--lib", "--bins", "--example", "quickstart"]);
    let mut all = host::step(setting, "aarch64", &mut build)?;
    for step in [unit_tests, command] {
        if all.counts.failed > 0 {
            break;
        }
        all += step(setting)?;
    }
    Ok(all)
}

/// Returns a cargo command for that processor.
fn cargo(setting: &Setting, what: &str, crates: &[&str]) -> Result<Command> {
    let mut cargo = debian::cargo(setting)?;
    cargo
        .arg(what)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            QEMU.join(" "),
        );
    debian::for_target(setting, &mut cargo, TARGET, crates);
    cargo.args(debian::NOT_OPTIMISED);
    Ok(cargo)
}

/// Crates whose unit tests are run. The tests of `calibrate` and `measure` take minutes under emulation,
/// and depend on the processor no more than the others.
const UNIT_TESTED: [&str; 5] = [
    "logforce-format",
    "logforce-device",
    "logforce-device-os",
    "logforce-commit",
    "logforce-core",
];

/// Tests that are run: unit tests, and those of the bytes and of the contract. The others make real
/// system calls in separate processes and mostly test the kernel.
const TESTS: [(&str, &[&str], &[&str]); 2] = [
    ("units", &["--lib"], &[]),
    (
        "contract",
        &["--test", "all"],
        &["golden::", "conformance::"],
    ),
];

/// Excluded tests. Those with separate filesystems test the kernel. The test of a kernel without
/// `RWF_DSYNC` needs a kernel with that flag, which QEMU 7.2 does not pass on.
const NOT_HERE: [&str; 4] = [
    "--skip",
    "on_each_filesystem",
    "--skip",
    "without_the_flag_a_durable_descriptor_does_it",
];

fn unit_tests(setting: &Setting) -> Result<StageOutcome> {
    let mut all = StageOutcome::default();
    for (name, which, filter) in TESTS {
        let mut tests = cargo(setting, "test", &UNIT_TESTED)?;
        tests.args(which).args(["--no-fail-fast", "--"]);
        tests.args(filter).args(NOT_HERE);
        all += host::tests(setting, &format!("aarch64-{name}"), &mut tests)?;
    }
    Ok(all)
}

/// Runs an example that creates a log, and the command, which reads it and measures briefly.
fn command(setting: &Setting) -> Result<StageOutcome> {
    let programs = setting
        .workspace
        .target
        .join("debian")
        .join(TARGET)
        .join("cross");
    let temp = debian::temporary(setting)?.join("aarch64");
    if temp.exists() {
        std::fs::remove_dir_all(&temp).with_context(|| temp.display().to_string())?;
    }
    std::fs::create_dir_all(&temp).with_context(|| temp.display().to_string())?;
    let mut outcome = StageOutcome::default();
    for (name, program, words) in [
        ("example", "examples/quickstart", &[][..]),
        ("verify", "logforce", &["verify", "sales.log"]),
        ("bench", "logforce", &BENCH),
    ] {
        let mut command = Command::new(QEMU[0]);
        command
            .args(&QEMU[1..])
            .arg(programs.join(program))
            .args(words)
            .current_dir(&temp);
        outcome += host::step(setting, &format!("aarch64-{name}"), &mut command)?;
    }
    std::fs::remove_dir_all(&temp).with_context(|| temp.display().to_string())?;
    Ok(outcome)
}

/// Arguments of a short run: its numbers mean nothing under emulation.
const BENCH: [&str; 8] = [
    "bench",
    "journal",
    "--size",
    "64MiB",
    "--seconds",
    "1",
    "--file-state",
    "growing",
];
