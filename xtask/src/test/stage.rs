//! The stages, and what one reports.

use super::counts::Counts;
use super::{
    Setting, aarch64, fuzzing, host, interleavings, lives, macos, packages, powercut, suites,
    windows,
};
use crate::check;
use anyhow::Result;
use std::ops::AddAssign;
use std::time::Duration;

/// A part of the run, with its own time and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Packages,
    Fmt,
    Check,
    Clippy,
    Docs,
    Build,
    Examples,
    Tests,
    Lives,
    Windows,
    Macos,
    Aarch64,
    Planted,
    Fuzz,
    Interleavings,
    Powercut,
}

impl Stage {
    pub const ALL: [Stage; 16] = [
        Stage::Packages,
        Stage::Fmt,
        Stage::Check,
        Stage::Clippy,
        Stage::Docs,
        Stage::Build,
        Stage::Examples,
        Stage::Tests,
        Stage::Lives,
        Stage::Windows,
        Stage::Macos,
        Stage::Aarch64,
        Stage::Planted,
        Stage::Fuzz,
        Stage::Interleavings,
        Stage::Powercut,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Packages => "packages",
            Stage::Fmt => "fmt",
            Stage::Check => "check",
            Stage::Clippy => "clippy",
            Stage::Docs => "docs",
            Stage::Build => "build",
            Stage::Examples => "examples",
            Stage::Tests => "tests",
            Stage::Lives => "lives",
            Stage::Windows => "windows",
            Stage::Macos => "macos",
            Stage::Aarch64 => "aarch64",
            Stage::Planted => "planted",
            Stage::Fuzz => "fuzz",
            Stage::Interleavings => "interleavings",
            Stage::Powercut => "powercut",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Stage::Packages => "the system packages that tests need",
            Stage::Fmt => "cargo fmt --check",
            Stage::Check => "cargo xtask check",
            Stage::Clippy => "clippy on everything, warnings denied",
            Stage::Docs => "the documentation, warnings denied",
            Stage::Build => "compiles the tests",
            Stage::Examples => "compiles the examples as users do",
            Stage::Tests => "all tests and doctests, and that they leave nothing behind",
            Stage::Lives => "10,000 random lives of a log on a simulated disk",
            Stage::Windows => "clippy on the Windows code, and its tests under Wine",
            Stage::Macos => "clippy on the macOS code, and its tests linked",
            Stage::Aarch64 => "Linux on aarch64: linked, and some of it run under QEMU",
            Stage::Planted => "known bugs, each of which its suite has to find",
            Stage::Fuzz => "replays what fuzzing found, and fuzzes each target for a short while",
            Stage::Interleavings => {
                "the log under shuttle and loom, and that they catch known bugs"
            }
            Stage::Powercut => "real power cuts on real filesystems, and that they show losses",
        }
    }

    /// Takes what only a Linux has: packages of Debian's, or the kernel itself.
    fn needs_linux(self) -> bool {
        matches!(
            self,
            Stage::Packages | Stage::Windows | Stage::Macos | Stage::Aarch64 | Stage::Powercut
        )
    }

    /// Runs it. An error is a failure too: the stage could not do its work.
    pub fn run(self, setting: &Setting) -> Result<Outcome> {
        if self.needs_linux() && !cfg!(target_os = "linux") {
            return Ok(Outcome::skipped("needs Linux"));
        }
        match self {
            Stage::Packages => packages::run(setting),
            Stage::Check => {
                let found = check::all(&setting.workspace)?;
                let counts = match found.as_slice() {
                    [] => Counts::PASSED,
                    _ => Counts::FAILED,
                };
                let lines = found.iter().map(ToString::to_string).collect();
                Ok(Outcome::of(counts, lines))
            }
            Stage::Fmt | Stage::Clippy | Stage::Docs | Stage::Build | Stage::Examples => {
                host::run(self, setting)
            }
            Stage::Tests => suites::run(setting),
            Stage::Lives => lives::run(setting),
            Stage::Windows => windows::run(setting),
            Stage::Macos => macos::run(setting),
            Stage::Aarch64 => aarch64::run(setting),
            Stage::Planted => lives::planted(setting),
            Stage::Fuzz => fuzzing::run(setting),
            Stage::Interleavings => interleavings::run(setting),
            Stage::Powercut => powercut::run(setting),
        }
    }
}

/// What came of a stage.
#[derive(Debug, Default)]
pub struct Outcome {
    pub counts: Counts,
    /// What the reader should see.
    pub lines: Vec<String>,
    /// How many of the skipped may be skipped even on a CI machine.
    pub excused: u64,
}

impl Outcome {
    /// A stage that counts as one test.
    pub fn of(counts: Counts, lines: Vec<String>) -> Outcome {
        Outcome {
            counts,
            lines,
            excused: 0,
        }
    }

    pub fn skipped(why: impl Into<String>) -> Outcome {
        Outcome::of(Counts::SKIPPED, vec![format!("skipped: {}", why.into())])
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, more: Outcome) {
        self.counts += more.counts;
        self.lines.extend(more.lines);
        self.excused += more.excused;
    }
}

/// A stage's outcome with its time.
#[derive(Debug)]
pub struct Report {
    pub stage: Stage,
    /// None if it was not run, because another had failed.
    pub took: Option<Duration>,
    pub counts: Counts,
}
