//! Stage `powercut`: real power cuts and process faults.

use super::stage::{Stage, StageOutcome};
use super::{Setting, Tier, child, counts::Counts, host, leaks, transcript};
use anyhow::Result;
use std::process::Command;

/// Start of the line that the program prints if this machine lacks something.
const SKIPPED: &str = "skipped:";

/// Runs all parts. Their counts are in JSON files beside the transcripts.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut build = host::cargo_command(setting);
    build.args(["build", "--bin", "logforce-powercut"]);
    // The program's test of the `logforce` command needs that command in the same directory.
    build.args(["--bin", "logforce"]);
    build.args(host::AS_FOR_TESTS);
    build.args(host::parts(setting.tier));
    let built = host::one_command(setting, Stage::Powercut, &mut build)?;
    if built.counts.failed > 0 {
        return Ok(built);
    }
    let seed = setting.tier.from().max(1).to_string();
    let mut outcome = StageOutcome::default();
    for (name, words) in parts(setting.tier) {
        outcome += part(setting, name, &[words, &["--seed", &seed][..]].concat())?;
        if outcome.counts.passed == 0 {
            break;
        }
    }
    Ok(outcome)
}

/// Returns the parts that are run, by the names of their files. For a change they are limited to what
/// finds their known bugs within a minute.
fn parts(tier: Tier) -> &'static [(&'static str, &'static [&'static str])] {
    match tier {
        Tier::Change => &[
            (
                "powercut",
                &[
                    "suite",
                    "--filesystem",
                    "ext4",
                    "--cycles",
                    "40",
                    "--states",
                    "800",
                ],
            ),
            (
                "page-files",
                &[
                    "pages",
                    "--filesystem",
                    "ext4",
                    "--cycles",
                    "12",
                    "--states",
                    "80",
                    "--kills",
                    "20",
                ],
            ),
            (
                "files",
                &[
                    "files",
                    "--filesystem",
                    "ext4",
                    "--cycles",
                    "12",
                    "--states",
                    "60",
                ],
            ),
            (
                "sqlite-files",
                &[
                    "sqlite",
                    "--filesystem",
                    "ext4",
                    "--cycles",
                    "4",
                    "--states",
                    "20",
                    "--kills",
                    "8",
                ],
            ),
            ("kills", &["process", "--only", "kill", "--kills", "120"]),
            (
                "injected",
                &["process", "--only", "inject", "--calls", "900"],
            ),
        ],
        Tier::Deep { .. } => &[
            ("powercut", &["suite"]),
            ("page-files", &["pages"]),
            ("files", &["files"]),
            ("sqlite-files", &["sqlite", "--stock", "20"]),
            ("process-faults", &["process"]),
        ],
    }
}

/// Runs one command of the program. Its files beside the transcripts are named `name`.
fn part(setting: &Setting, name: &str, words: &[&str]) -> Result<StageOutcome> {
    let mark = leaks::fresh_mark();
    let mut suite = Command::new(host::built(setting, "logforce-powercut"));
    suite
        .current_dir(&setting.workspace.root)
        .args(words)
        .arg("--json")
        .arg(setting.logs.join(format!("{name}.json")))
        .env(leaks::MARK, &mark);
    let log = setting.logs.join(format!("{name}.log"));
    let ended = child::run(&mut suite, &log, setting.clock.limit())?;
    let text = ended.text();
    let mut outcome = StageOutcome::of(Counts::PASSED, shown(&text));
    if !ended.ok {
        outcome.counts = Counts::FAILED;
        if text.trim_start().starts_with(SKIPPED) {
            outcome.counts = Counts::SKIPPED;
        } else {
            outcome.lines.push(ended.how);
        }
    } else {
        outcome.counts += Counts::of(0, 0, parts_skipped(&text));
    }
    let left = leaks::of_powercut(&mark);
    if !left.is_empty() {
        outcome.counts += Counts::FAILED;
        outcome
            .lines
            .extend(left.into_iter().map(|l| format!("left behind: {l}")));
    }
    Ok(outcome)
}

/// Returns the number of parts that could not run here.
fn parts_skipped(text: &str) -> u64 {
    let skips = text.lines().filter(|l| l.trim_start().starts_with(SKIPPED));
    skips.count() as u64
}

/// Returns the output without the self-checks that passed.
fn shown(text: &str) -> Vec<String> {
    let mut lines = transcript::without_progress(text);
    let expected = |l: &String| {
        let l = l.trim_start();
        l.starts_with("caught ")
            || l.starts_with("caught: ")
            || l.starts_with("kept all ")
            || l.contains(" caught: ")
    };
    lines.retain(|l| !expected(l));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_could_not_run_are_counted_and_shown() {
        let text = "inject: milliseconds of the part 3\n  skipped: needs strace\n";
        assert_eq!(parts_skipped(text), 1);
        assert_eq!(shown(text).len(), 2);
        assert_eq!(parts_skipped("nothing was skipped: all is well\n"), 0);
    }

    #[test]
    fn what_went_as_it_should_is_not_shown() {
        let text = "self-checks: 2\n    caught     ext4 x: lost 3 of 3\n    NOT CAUGHT ext4 y\n\
                    nothing that was acknowledged was lost\n";
        let shown = shown(text);
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert!(shown[1].contains("NOT CAUGHT"));
    }
}
