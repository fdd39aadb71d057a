//! The stages, and what one reports.

use super::Tier;
use super::counts::Counts;
use std::ops::AddAssign;
use std::time::Duration;

/// A part of the run, with its own time and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// The system packages that tests need
    Packages,
    /// cargo fmt --check
    Fmt,
    /// cargo xtask check
    Check,
    /// Clippy on everything, warnings denied
    Clippy,
    /// The documentation, warnings denied
    Docs,
    /// The packages of the published crates; deep they are built as a registry's users do
    Publish,
    /// Compiles the tests
    Build,
    /// Compiles the examples as users do (deep)
    Examples,
    /// All tests and doctests but the exhaustive ones, and that they leave nothing behind
    Tests,
    /// Every bit, length, pair of crashes and failing call of small logs
    Exhaustive,
    /// Random runs of a log on a simulated disk: 300 and the listed ones; deep 10,000
    Simulation,
    /// The conformance suite under Wine; deep clippy on the Windows code and all its tests
    Windows,
    /// Clippy on the macOS code; deep its tests linked
    Macos,
    /// Linux on aarch64, checked; deep linked, and some of it run under QEMU
    Aarch64,
    /// Known bugs that each suite has to find (deep)
    Planted,
    /// Fuzzes each target for a short while (deep; every run replays what fuzzing found)
    Fuzz,
    /// The benchmarks for developers, a workspace of their own: lints and tests (deep)
    Benches,
    /// The log under shuttle and loom, and that they catch known bugs: six of 64 by turns; deep all
    Interleavings,
    /// Unit tests of the format and of the log's pure parts, interpreted by Miri (deep)
    Miri,
    /// Real power cuts on real filesystems, and process faults
    Powercut,
}

impl Stage {
    pub const ALL: [Stage; 20] = [
        Stage::Packages,
        Stage::Fmt,
        Stage::Check,
        Stage::Clippy,
        Stage::Docs,
        Stage::Publish,
        Stage::Build,
        Stage::Examples,
        Stage::Tests,
        Stage::Exhaustive,
        Stage::Simulation,
        Stage::Windows,
        Stage::Macos,
        Stage::Aarch64,
        Stage::Planted,
        Stage::Fuzz,
        Stage::Benches,
        Stage::Interleavings,
        Stage::Miri,
        Stage::Powercut,
    ];

    pub fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Whether this tier has it.
    pub fn is_in(self, tier: Tier) -> bool {
        let only_deep = [
            Stage::Examples,
            Stage::Macos,
            Stage::Aarch64,
            Stage::Planted,
            Stage::Fuzz,
            Stage::Benches,
            Stage::Miri,
        ];
        tier.is_deep() || !only_deep.contains(&self)
    }

    /// Takes what only a Linux has: packages of Debian's, or the kernel itself.
    pub fn needs_linux(self) -> bool {
        matches!(
            self,
            Stage::Packages
                | Stage::Windows
                | Stage::Macos
                | Stage::Aarch64
                | Stage::Benches
                | Stage::Powercut
        )
    }
}

/// Result of a stage.
#[derive(Debug, Default)]
pub struct StageOutcome {
    pub counts: Counts,
    /// What the reader should see.
    pub lines: Vec<String>,
    /// How many of the skipped are switched off, on any machine.
    pub ignored: u64,
}

impl StageOutcome {
    /// A stage that counts as one test.
    pub fn of(counts: Counts, lines: Vec<String>) -> StageOutcome {
        StageOutcome {
            counts,
            lines,
            ignored: 0,
        }
    }

    pub fn skipped(why: impl Into<String>) -> StageOutcome {
        StageOutcome::of(Counts::SKIPPED, vec![format!("skipped: {}", why.into())])
    }
}

impl AddAssign for StageOutcome {
    fn add_assign(&mut self, more: StageOutcome) {
        self.counts += more.counts;
        self.lines.extend(more.lines);
        self.ignored += more.ignored;
    }
}

/// A stage's outcome with its time.
#[derive(Debug)]
pub struct StageReport {
    pub stage: Stage,
    /// None if it was not run, because another had failed.
    pub took: Option<Duration>,
    /// Of that, what cargo took to compile.
    pub compiling: Duration,
    pub counts: Counts,
}
