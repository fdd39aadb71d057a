//! Stages and their results.

use super::Setting;
use super::counts::Counts;
use std::ops::AddAssign;
use std::time::Duration;

/// A part of the run, with its own time and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// Installs the system packages that tests need
    Packages,
    /// cargo fmt --check
    Fmt,
    /// cargo xtask check
    Check,
    /// Runs clippy on everything, warnings denied
    Clippy,
    /// Builds the documentation, warnings denied
    Docs,
    /// Packs the published crates; deep it also builds the packages as a registry's users do
    Publish,
    /// Compiles the tests
    Build,
    /// Loads the SQLite extension into the shell, C, Python and Rust; deep into Node
    Sqlite,
    /// Compiles the examples as users do (deep)
    Examples,
    /// Makes a release, and checks that its command is small, static and runs where nothing else is (deep)
    Dist,
    /// Runs all tests and doctests except the exhaustive ones, and checks that they leave nothing behind
    Tests,
    /// Tests every bit, length, pair of crashes and failing call of small logs: a change a quarter of them, in turn; deep all
    Exhaustive,
    /// Runs random tests of a log on a simulated disk: 300 and the listed ones; deep 10,000
    Simulation,
    /// Runs the conformance suite under Wine, in turn with `interleavings`; deep clippy on the Windows code and
    /// all its tests
    Windows,
    /// Runs clippy on the macOS code; deep also links its tests
    Macos,
    /// Checks Linux on aarch64; deep links it, and runs some of it under QEMU
    Aarch64,
    /// Checks that each suite finds its known bugs (deep)
    Planted,
    /// Fuzzes each target for a short while (deep; every run replays what fuzzing found)
    Fuzz,
    /// Lints and tests the benchmarks for developers, a separate workspace (deep)
    Benches,
    /// Cuts the power below SQLite, LMDB, redb, raft-engine and sled, in settings that survive and that lose (deep)
    Engines,
    /// Runs the log under shuttle and loom, and checks that they find known bugs: in turn with `windows`, six
    /// of them by turns; deep all
    Interleavings,
    /// Runs the unit tests of the format and of the log's core under Miri (deep)
    Miri,
    /// Runs real power cuts on real filesystems, and process faults
    Powercut,
    /// Searches the larger bounds of the archive's model (deep)
    ArchiveModel,
    /// Runs 300 rounds of chaos of the archive on the test server (deep)
    ArchiveChaos,
    /// Runs 100 rounds of chaos on each real S3 server that Go can build: versitygw and minio (deep)
    ArchiveServers,
    /// Kills the log store for openraft 3,000 times, and nodes of a cluster 40 times (deep)
    OpenraftKills,
    /// Runs SQLite's own test suite through the extension, and compares it with stock SQLite (deep)
    SqliteSuite,
}

impl Stage {
    pub const ALL: [Stage; 28] = [
        Stage::Packages,
        Stage::Fmt,
        Stage::Check,
        Stage::Clippy,
        Stage::Docs,
        Stage::Publish,
        Stage::Build,
        Stage::Sqlite,
        Stage::Examples,
        Stage::Dist,
        Stage::Tests,
        Stage::Exhaustive,
        Stage::Simulation,
        Stage::Windows,
        Stage::Macos,
        Stage::Aarch64,
        Stage::Planted,
        Stage::Fuzz,
        Stage::Benches,
        Stage::Engines,
        Stage::Interleavings,
        Stage::Miri,
        Stage::Powercut,
        Stage::ArchiveModel,
        Stage::ArchiveChaos,
        Stage::ArchiveServers,
        Stage::OpenraftKills,
        Stage::SqliteSuite,
    ];

    pub fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Returns the stage that this commit's turn leaves out of a change. Each commit runs one of two stages that
    /// compile much for what they find.
    pub fn left_out(turn: u64) -> Stage {
        // Not the lowest bits: they choose among the exhaustive tests.
        match (turn / 64).is_multiple_of(2) {
            true => Stage::Interleavings,
            false => Stage::Windows,
        }
    }

    /// Returns true if the stage is a part of this run.
    pub fn is_in(self, setting: &Setting) -> bool {
        let only_deep = [
            Stage::Examples,
            Stage::Dist,
            Stage::Macos,
            Stage::Aarch64,
            Stage::Planted,
            Stage::Fuzz,
            Stage::Benches,
            Stage::Engines,
            Stage::Miri,
            Stage::ArchiveModel,
            Stage::ArchiveChaos,
            Stage::ArchiveServers,
            Stage::OpenraftKills,
            Stage::SqliteSuite,
        ];
        setting.tier.is_deep()
            || self != Stage::left_out(setting.turn) && !only_deep.contains(&self)
    }

    /// Returns true if the stage needs Linux: Debian's packages, or the kernel itself.
    pub fn needs_linux(self) -> bool {
        matches!(
            self,
            Stage::Packages
                | Stage::Sqlite
                | Stage::Dist
                | Stage::Windows
                | Stage::Macos
                | Stage::Aarch64
                | Stage::Benches
                | Stage::Engines
                | Stage::Powercut
                | Stage::ArchiveChaos
                | Stage::ArchiveServers
                | Stage::OpenraftKills
                | Stage::SqliteSuite
        )
    }
}

/// Result of a stage.
#[derive(Debug, Default)]
pub struct StageOutcome {
    pub counts: Counts,
    /// Lines for the reader.
    pub lines: Vec<String>,
    /// Number of the skipped tests that are switched off on every machine.
    pub ignored: u64,
}

impl StageOutcome {
    /// Returns the outcome of a stage that counts as one test.
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
    /// Duration; `None` if it was not run, because another stage had failed.
    pub took: Option<Duration>,
    /// Part of the duration that cargo spent compiling.
    pub compiling: Duration,
    pub counts: Counts,
}
