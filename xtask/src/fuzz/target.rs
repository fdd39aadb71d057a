//! One target: replay of the kept inputs, fuzzing, and parsing of libFuzzer's output.

use super::{Build, Places};
use crate::test::Budget;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest input, bytes.
const LONGEST: u32 = 4096;
/// Time limit for one input, seconds; an input that takes longer counts as a hang.
const TIMEOUT: u32 = 10;
/// Memory limit of a process, MiB; more is a failure. The targets also bound each input.
const MEMORY: u32 = 1024;

/// A fuzz target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub name: &'static str,
}

/// All targets; a test compares them with those of `crates/sim/src/fuzz`. The last one is a test of the archive's
/// format.
pub const TARGETS: [Target; 5] = [
    Target { name: "decoders" },
    Target {
        name: "arbitrary_files",
    },
    Target {
        name: "mutated_log",
    },
    Target { name: "import" },
    Target {
        name: "archive_objects",
    },
];

/// Result of a target.
#[derive(Debug)]
pub struct TargetOutcome {
    pub well: bool,
    pub lines: Vec<String>,
}

/// Statistics that libFuzzer prints at the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub executions: u64,
    pub per_second: u64,
    /// Number of code edges reached.
    pub coverage: u64,
    /// Number of features: edges with their hit counts, and comparisons.
    pub features: u64,
    pub peak_mib: u64,
}

impl Stats {
    pub fn read(text: &str) -> Stats {
        let stat = |name: &str| {
            let line = text.lines().rfind(|l| l.starts_with(name));
            let word = line.and_then(|l| l.split_whitespace().last());
            word.and_then(|w| w.parse().ok()).unwrap_or(0)
        };
        let progress = text
            .lines()
            .rfind(|l| l.starts_with('#') && l.contains("cov: "));
        let words: Vec<&str> = progress.unwrap_or("").split_whitespace().collect();
        let after = |name: &str| {
            let at = words.iter().position(|w| *w == name)?;
            words.get(at + 1)?.parse().ok()
        };
        Stats {
            executions: stat("stat::number_of_executed_units:"),
            per_second: stat("stat::average_exec_per_sec:"),
            coverage: after("cov:").unwrap_or(0),
            features: after("ft:").unwrap_or(0),
            peak_mib: stat("stat::peak_rss_mb:"),
        }
    }
}

fn inputs(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}

fn copy_all(from: &Path, to: &Path) -> Result<u64> {
    let mut count = 0;
    for path in inputs(from)? {
        let name = path.file_name().context("an input without a name")?;
        std::fs::copy(&path, to.join(name)).with_context(|| path.display().to_string())?;
        count += 1;
    }
    Ok(count)
}

impl Target {
    /// Returns the target's program with the arguments of all runs.
    pub fn program(self, places: &Places, build: &Build) -> Command {
        let mut artifacts = places.found("artifacts", self).into_os_string();
        artifacts.push("/");
        let mut prefix = std::ffi::OsString::from("-artifact_prefix=");
        prefix.push(&artifacts);
        let mut command = Command::new(build.program(self.name));
        command
            .arg(prefix)
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .arg(format!("-timeout={TIMEOUT}"))
            .arg(format!("-max_len={LONGEST}"))
            .args(["-len_control=10", "-print_final_stats=1"])
            .current_dir(&places.target)
            .env_remove("LOGFORCE_PLANTED");
        command
    }

    /// Creates the folders of a run. The working corpus is a copy, so that nothing is left in the source
    /// tree.
    fn folders(self, places: &Places) -> Result<PathBuf> {
        std::fs::create_dir_all(places.found("artifacts", self))?;
        let corpus = places.found("corpus", self);
        std::fs::create_dir_all(&corpus)?;
        if copy_all(&places.kept("corpus", self), &corpus)? == 0 {
            bail!("there is no corpus for {}", self.name);
        }
        copy_all(&places.kept("regressions", self), &corpus)?;
        Ok(corpus)
    }

    /// Replays the kept inputs, then fuzzes on from there.
    pub fn test(
        self,
        places: &Places,
        build: &Build,
        time: Duration,
        budget: &Budget,
    ) -> Result<TargetOutcome> {
        let corpus = self.folders(places)?;
        let before = inputs(&places.found("artifacts", self))?;
        // libFuzzer runs every file of the corpus first.
        let mut command = self.program(places, build);
        command
            .arg(format!("-max_total_time={}", time.as_secs().max(1)))
            .arg(&corpus);
        let log = places.target.join(format!("{}.log", self.name));
        let ended = budget.run(&mut command, &log)?;
        let text = ended.text();
        let stats = Stats::read(&text);
        let mut found = TargetOutcome {
            well: ended.ok,
            lines: vec![self.line(&stats)],
        };
        if ended.ok {
            if stats.executions == 0 || stats.coverage == 0 {
                bail!("{} ran nothing: {}", self.name, log.display());
            }
            return Ok(found);
        }
        found.lines.push(ended.how);
        let telling = text.lines().skip_while(|l| !l.contains("panicked at"));
        found.lines.extend(telling.take(4).map(str::to_owned));
        let errors = text.lines().filter(|l| l.contains("ERROR: libFuzzer"));
        found.lines.extend(errors.map(str::to_owned));
        for input in inputs(&places.found("artifacts", self))? {
            if !before.contains(&input) {
                found.lines.push(format!(
                    "to reproduce: LOGFORCE_FUZZ_SAY=1 {} {}",
                    build.program(self.name).display(),
                    input.display()
                ));
            }
        }
        Ok(found)
    }

    /// Returns a one-line summary of a run.
    pub fn line(self, stats: &Stats) -> String {
        format!(
            "{}: {} executions, {}/s, {} edges, {} features, at most {} MiB",
            self.name,
            stats.executions,
            stats.per_second,
            stats.coverage,
            stats.features,
            stats.peak_mib
        )
    }

    /// Replaces the corpus in the repository by the smallest part of the working corpus with the same
    /// coverage.
    pub fn minimise(self, places: &Places, build: &Build, budget: &Budget) -> Result<String> {
        let small = places.found("minimised", self);
        if small.exists() {
            std::fs::remove_dir_all(&small)?;
        }
        std::fs::create_dir_all(&small)?;
        let mut command = self.program(places, build);
        command
            // Keeps the fewest inputs that reach every edge. With hit counts as well, libFuzzer's own
            // measure, the repository would have five times as many files.
            .args(["-merge=1", "-set_cover_merge=1", "-use_counters=0"])
            .arg(&small)
            .arg(places.found("corpus", self));
        let log = places.target.join(format!("{}-merge.log", self.name));
        let ended = budget.run(&mut command, &log)?;
        if !ended.ok {
            bail!("{}; see {}", ended.how, log.display());
        }
        let kept = places.kept("corpus", self);
        if kept.exists() {
            std::fs::remove_dir_all(&kept)?;
        }
        std::fs::create_dir_all(&kept)?;
        let count = copy_all(&small, &kept)?;
        Ok(format!("{}: {count} inputs kept", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_prints_is_read() {
        let text = "#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 38Mb\n\
                    #84\tDONE   cov: 4887 ft: 12202 corp: 244/2355b lim: 14 exec/s: 525\n\
                    stat::number_of_executed_units: 8410\n\
                    stat::average_exec_per_sec:     525\n\
                    stat::peak_rss_mb:              43\n";
        let expected = Stats {
            executions: 8410,
            per_second: 525,
            coverage: 4887,
            features: 12202,
            peak_mib: 43,
        };
        assert_eq!(Stats::read(text), expected);
        assert_eq!(Stats::read("nothing"), Stats::default());
    }

    #[test]
    fn the_targets_are_those_that_there_are() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(root.join("crates/sim/src/fuzz/mod.rs"));
        let text = text.expect("the targets' source");
        let listed = text.split("name: \"").skip(1);
        let listed: Vec<&str> = listed.filter_map(|rest| rest.split('"').next()).collect();
        let all = TARGETS.map(|t| t.name);
        assert_eq!(
            all.strip_prefix(&listed[..]),
            Some(&["archive_objects"][..])
        );
        for target in TARGETS {
            let source = format!("fuzz/fuzz_targets/{}.rs", target.name);
            assert!(root.join(source).is_file(), "{}", target.name);
        }
    }
}
