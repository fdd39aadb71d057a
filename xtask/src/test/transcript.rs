//! Parser of `cargo test`'s output: the tests of each program, skipped tests, and failures.

use super::counts::Counts;
use std::collections::BTreeSet;

/// Number of the last lines of a transcript that are shown if nothing better is known.
const LAST: usize = 80;

/// One test program, or the doctests of one crate.
#[derive(Debug, Default)]
struct Suite {
    name: String,
    /// Counts; `None` if the program did not print its result.
    counts: Option<Counts>,
    /// Tests that skipped themselves and printed the reason.
    skipped: BTreeSet<String>,
    /// Lines that they printed, and the reasons of ignored tests.
    skips: Vec<String>,
    lines: Vec<String>,
}

/// Transcript of all suites.
#[derive(Debug, Default)]
pub struct Transcript {
    suites: Vec<Suite>,
    /// Lines that cargo printed before the first suite.
    other: Vec<String>,
    /// Number of suites that cargo reported as failed.
    failed_targets: Option<u64>,
}

/// Result of one suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteResult {
    /// Name of the program, and its source.
    pub name: String,
    pub counts: Counts,
}

/// Parses a transcript.
pub fn read(text: &str) -> Transcript {
    let mut transcript = Transcript::default();
    for line in text.lines() {
        if let Some(name) = suite_name(line) {
            transcript.suites.push(Suite {
                name,
                ..Suite::default()
            });
            continue;
        }
        if let Some(n) = failed_targets(line) {
            transcript.failed_targets = Some(n);
        }
        match transcript.suites.last_mut() {
            Some(suite) => suite.line(line),
            None => transcript.other.push(line.to_owned()),
        }
    }
    transcript
}

/// Returns the name of the suite that starts with this line of cargo.
fn suite_name(line: &str) -> Option<String> {
    let line = line.strip_prefix("   ")?.trim_start();
    if let Some(rest) = line.strip_prefix("Running ") {
        // `unittests src/lib.rs (target/debug/deps/name-0123456789abcdef)`
        let (source, program) = rest.split_once(" (")?;
        let program = program.trim_end_matches(')').rsplit(['/', '\\']).next()?;
        let program = program.rsplit_once('-').map_or(program, |(name, _)| name);
        return Some(format!("{program} ({source})"));
    }
    line.strip_prefix("Doc-tests ")
        .map(|krate| format!("{krate} (doctests)"))
}

/// Returns the test that skips itself with this line, by `logforce_testkit::skip!`. If one test runs at
/// a time, the text follows the runner's own on the same line.
fn skipped(line: &str) -> Option<&str> {
    let said = match line.split_once(" ... skipped: ") {
        Some((_, said)) => said,
        None => line.strip_prefix("skipped: ")?,
    };
    Some(said.split_once(": ")?.0)
}

/// Parses cargo's last line: `error: 2 targets failed:`.
fn failed_targets(line: &str) -> Option<u64> {
    let (number, rest) = line.strip_prefix("error: ")?.split_once(" target")?;
    rest.ends_with("failed:").then_some(())?;
    number.parse().ok()
}

impl Suite {
    fn line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
        if let Some(result) = line.strip_prefix("test result: ") {
            // The last result counts: a test that runs this program again may print the other one's
            // output.
            self.counts = counts(result).or(self.counts);
        } else if let Some(test) = skipped(line) {
            self.skipped.insert(test.to_owned());
            self.skips.push(line.to_owned());
        } else if line.starts_with("test ") && line.contains(" ... ignored") {
            self.skips.push(line.to_owned());
        }
    }

    /// Returns the counts of this suite; `all_well` is true if cargo reported that everything passed.
    fn counted(&self, all_well: bool) -> Counts {
        let skips = self.skipped.len() as u64;
        match self.counts {
            Some(c) => Counts::of(
                c.passed.saturating_sub(skips),
                c.failed,
                c.skipped + skips.min(c.passed),
            ),
            // A test program without the usual harness prints nothing when it passes.
            None if all_well => Counts::PASSED,
            None => Counts::FAILED,
        }
    }

    /// Returns the lines that show the failure.
    fn failure(&self) -> &[String] {
        match self.lines.iter().position(|l| l == "failures:") {
            Some(from) => &self.lines[from..],
            None => last(&self.lines),
        }
    }
}

/// Parses `ok. 3 passed; 0 failed; 1 ignored; 0 measured; …`.
fn counts(result: &str) -> Option<Counts> {
    let number = |what: &str| -> Option<u64> {
        let (before, _) = result.split_once(what)?;
        before.trim_end().rsplit(' ').next()?.parse().ok()
    };
    Some(Counts::of(
        number("passed")?,
        number("failed;")?,
        number("ignored")?,
    ))
}

impl Transcript {
    /// Returns the sum; `all_well` is true if cargo reported that everything passed.
    pub fn counts(&self, all_well: bool) -> Counts {
        let mut sum = Counts::default();
        for suite in &self.suites {
            sum += suite.counted(all_well);
        }
        sum += Counts::of(0, self.missed(all_well), 0);
        sum
    }

    /// Returns the number of tests that the runner left out because of an attribute, which switches a
    /// test off on every machine.
    pub fn ignored(&self) -> u64 {
        let counts = self.suites.iter().filter_map(|s| s.counts);
        counts.map(|c| c.skipped).sum()
    }

    /// Returns the suites, in their order; `all_well` is true if cargo reported that everything passed.
    pub fn results(&self, all_well: bool) -> Vec<SuiteResult> {
        let result = |s: &Suite| SuiteResult {
            name: s.name.clone(),
            counts: s.counted(all_well),
        };
        self.suites.iter().map(result).collect()
    }

    /// Returns the number of failures that cargo reported and that are not in the suites. It is 0 as
    /// long as this parser understands cargo's output.
    fn missed(&self, all_well: bool) -> u64 {
        if all_well {
            return 0;
        }
        let failed = |s: &&Suite| s.counted(all_well).failed > 0;
        let found = self.suites.iter().filter(failed).count() as u64;
        self.failed_targets.unwrap_or(1).saturating_sub(found)
    }

    /// Returns the lines for the reader: skipped tests, and everything about failures.
    pub fn lines(&self, all_well: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for suite in &self.suites {
            let said = suite.skips.iter();
            lines.extend(said.map(|said| format!("{}: {said}", suite.name)));
        }
        for suite in &self.suites {
            if suite.counted(all_well).failed > 0 {
                lines.push(format!("FAILED in {}:", suite.name));
                lines.extend_from_slice(suite.failure());
            }
        }
        if self.missed(all_well) > 0 {
            lines.push(
                "more tests failed than are listed above; last lines of the transcript:".to_owned(),
            );
            let end = self.suites.last().map_or(&self.other, |s| &s.lines);
            lines.extend_from_slice(last(end));
        }
        lines
    }
}

fn last(lines: &[String]) -> &[String] {
    &lines[lines.len().saturating_sub(LAST)..]
}

/// Returns a transcript without cargo's progress lines.
pub fn without_progress(text: &str) -> Vec<String> {
    const PROGRESS: [&str; 10] = [
        "Adding",
        "Blocking",
        "Checking",
        "Compiling",
        "Documenting",
        "Downloaded",
        "Downloading",
        "Finished",
        "Locking",
        "Updating",
    ];
    let is_progress = |line: &&str| {
        let first = line.trim_start().split(' ').next().unwrap_or_default();
        line.starts_with("  ") && PROGRESS.contains(&first)
    };
    text.lines()
        .filter(|l| !is_progress(l))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
   Compiling logforce v0.1.0 (/w/crates/logforce)
    Finished `test` profile [optimized] target(s) in 1.00s
     Running unittests src/lib.rs (target/debug/deps/logforce-0123456789abcdef)

running 4 tests
skipped: a: xfs: mkfs.xfs: not found
skipped: a: btrfs: not root, so nothing can be mounted
test a ... ok
test b ... ok
test c ... ok
test d ... ignored, takes a capability

test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/power.rs (target/debug/deps/power-0123456789abcdef)

running 2 tests
test e ... FAILED
test f ... skipped: f: no loop devices
ok

failures:

---- e stdout ----

thread 'e' (7) panicked at crates/logforce/tests/power.rs:3:5:
it is lost

failures:
    e

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: test failed, to rerun pass `-p logforce --test power`
   Doc-tests logforce

running 1 test
test crates/logforce/src/lib.rs - (line 5) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s

error: 1 target failed:
    `-p logforce --test power`
";

    #[test]
    fn results_are_summed_and_skips_are_counted_by_test() {
        let read = read(TEXT);
        assert_eq!(read.counts(false), Counts::of(3, 1, 3));
        let lines = read.lines(false).join("\n");
        assert_eq!(lines.matches("skipped: ").count(), 3, "{lines}");
        for part in [
            "logforce (unittests src/lib.rs): skipped: a: xfs: mkfs.xfs",
            "logforce (unittests src/lib.rs): test d ... ignored, takes a capability",
            "skipped: f: no loop",
            "FAILED in power (tests/power.rs):",
            "it is lost",
        ] {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        assert!(!lines.contains("test b"), "{lines}");
        assert_eq!(read.ignored(), 1);
    }

    #[test]
    fn suites_are_distinguished_on_every_system() {
        let text = "     Running tests\\lock.rs (target\\debug\\deps\\lock-0123456789abcdef.exe)\n\
                    test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured\n";
        let all = [TEXT, text].map(|t| read(t).results(false)).concat();
        let shown: Vec<String> = all
            .iter()
            .map(|s| format!("{}: {}", s.name, s.counts))
            .collect();
        let expected = [
            "logforce (unittests src/lib.rs): 2 passed, 0 failed, 2 skipped",
            "power (tests/power.rs): 0 passed, 1 failed, 1 skipped",
            "logforce (doctests): 1 passed, 0 failed, 0 skipped",
            "lock (tests\\lock.rs): 2 passed, 0 failed, 1 skipped",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_program_that_ends_without_a_result_has_failed() {
        let text = "     Running tests/a.rs (target/debug/deps/a-01)\n\nrunning 1 test\n\
                    the last words\nerror: test failed, to rerun pass `--test a`\n\
                    \n     Running tests/b.rs (target/debug/deps/b-01)\n\
                    test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
        let read = read(text);
        assert_eq!(read.counts(false), Counts::of(2, 1, 0));
        assert!(read.lines(false).join("\n").contains("the last words"));
        // A test program with its own `main` that printed nothing, while cargo reported success.
        assert_eq!(read.counts(true), Counts::of(3, 0, 0));
        assert_eq!(read.lines(true), Vec::<String>::new());
    }

    #[test]
    fn a_failure_that_only_cargo_tells_of_is_one() {
        let text = "     Running tests/a.rs (target/debug/deps/a-01)\n\
                    test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n\
                    error: 2 targets failed:\n    `--test a`\n    `--test b`\n";
        let read = read(text);
        assert_eq!(read.counts(false), Counts::of(2, 2, 0));
        assert!(read.lines(false).join("\n").contains("`--test b`"));
    }

    #[test]
    fn what_does_not_compile_has_failed() {
        let read = read("   Compiling a v0.1.0\nerror[E0308]: mismatched types\n");
        assert_eq!(read.counts(false), Counts::FAILED);
        assert!(read.lines(false).join("\n").contains("E0308"));
    }

    #[test]
    fn progress_is_left_out() {
        let text = "   Compiling a v0.1.0\nwarning: x\n    Finished in 1 s\n  Compiling\n";
        assert_eq!(without_progress(text), ["warning: x"]);
    }
}
