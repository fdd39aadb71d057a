//! Linux on aarch64: the command is linked, and what QEMU can run without a machine is run: unit
//! tests, and the command.

use super::debian::{self, Needed};
use super::stage::StageOutcome;
use super::{Setting, host};
use anyhow::{Context, Result};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// Runs programs of that processor: its calls become this kernel's, with the libraries there.
const QEMU: [&str; 3] = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];

/// What has to be there besides the toolchain.
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
        // What else there is asks for no system and no processor, and is checked for this one.
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

/// Cargo for that processor.
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

/// Crates whose unit tests are run. Those of `calibrate` and `measure` take minutes when emulated,
/// and ask nothing of the processor that the others do not.
const UNIT_TESTED: [&str; 4] = [
    "logforce-format",
    "logforce-device",
    "logforce-device-os",
    "logforce-core",
];

/// Besides unit tests those of the bytes and of the contract. The others make real calls in processes
/// of their own, and what they find lies in the kernel.
const TESTS: [(&str, &[&str], &[&str]); 2] = [
    ("units", &["--lib"], &[]),
    (
        "contract",
        &["--test", "all"],
        &["golden::", "conformance::"],
    ),
];

/// Left out: on filesystems of their own the kernel is tested; and the test of a kernel without
/// `RWF_DSYNC` wants one that has it, which QEMU 7.2 does not pass on.
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

/// An example makes a log, and the command reads it and measures a little.
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

/// A short run: its figures mean nothing under emulation.
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
