//! Report that the sender returns. Its fields are listed in `docs/platforms.md`.

use crate::test::{Counts, SuiteResult};
use serde_json::{Value, json};

/// Results of the tests of the portable crates.
#[derive(Debug)]
pub struct Tests {
    pub counts: Counts,
    /// Exit status of cargo, in words.
    pub how: String,
    pub suites: Vec<SuiteResult>,
    /// Lines for the reader: skipped tests, and everything about failures.
    pub lines: Vec<String>,
}

/// Answer of the command.
#[derive(Debug)]
pub enum Answer {
    Json(Value),
    /// Exit status and output of a failed command.
    Failed(String),
}

#[derive(Debug)]
pub struct PlatformReport {
    commit: Option<Value>,
    compiler: String,
    pub tests: Option<Tests>,
    /// Compiler output, if the command could not be built.
    pub build: Option<String>,
    pub facts: Option<Answer>,
    pub bench: Option<Answer>,
}

impl PlatformReport {
    pub fn new(commit: Option<Value>, compiler: String) -> PlatformReport {
        PlatformReport {
            commit,
            compiler,
            tests: None,
            build: None,
            facts: None,
            bench: None,
        }
    }

    pub fn file_name(&self) -> String {
        use std::env::consts::{ARCH, OS};
        format!("logforce-platform-{OS}-{ARCH}.json")
    }

    /// Returns the failures, in sentences.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Some(tests) = self.tests.as_ref().filter(|t| t.counts.failed > 0) {
            wrong.push(format!("{} tests failed:", tests.counts.failed));
            wrong.extend(tests.lines.iter().map(|l| format!("    {l}")));
        }
        if let Some(why) = &self.build {
            wrong.push(format!("the command does not compile: {why}"));
        }
        for (what, answer) in [("facts", &self.facts), ("bench journal", &self.bench)] {
            if let Some(Answer::Failed(how)) = answer {
                wrong.push(format!("`logforce {what}`: {how}"));
            }
        }
        wrong
    }

    pub fn to_json(&self) -> Value {
        use std::env::consts::{ARCH, FAMILY, OS};
        let answer = |answer: &Option<Answer>| match answer {
            None => Value::Null,
            Some(Answer::Json(value)) => value.clone(),
            Some(Answer::Failed(how)) => json!({"error": how}),
        };
        json!({
            "schema": "logforce-platform",
            "version": 1,
            "logforce": env!("CARGO_PKG_VERSION"),
            "commit": self.commit,
            "compiler": self.compiler,
            "os": OS,
            "family": FAMILY,
            "arch": ARCH,
            "cpus": std::thread::available_parallelism().ok().map(usize::from),
            "tests": self.tests.as_ref().map(tests),
            "build_error": self.build,
            "facts": answer(&self.facts),
            "bench": answer(&self.bench),
        })
    }
}

fn tests(tests: &Tests) -> Value {
    let suites: Vec<Value> = tests
        .suites
        .iter()
        .map(|s| {
            json!({
                "name": s.name,
                "passed": s.counts.passed,
                "failed": s.counts.failed,
                "skipped": s.counts.skipped,
            })
        })
        .collect();
    json!({
        "passed": tests.counts.passed,
        "failed": tests.counts.failed,
        "skipped": tests.counts.skipped,
        "ended": tests.how,
        "suites": suites,
        "said": tests.lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> PlatformReport {
        let mut report =
            PlatformReport::new(Some(json!({"id": "abc", "changed": false})), "r".into());
        report.tests = Some(Tests {
            counts: Counts::of(3, 0, 1),
            how: "cargo test: exit status: 0".into(),
            suites: vec![SuiteResult {
                name: "lock (tests/lock.rs)".into(),
                counts: Counts::of(3, 0, 1),
            }],
            lines: vec!["lock: a: skipped: b".into()],
        });
        report.facts = Some(Answer::Json(json!({"schema": "logforce-doctor"})));
        report.bench = Some(Answer::Json(json!({"schema": "logforce-journal"})));
        report
    }

    #[test]
    fn a_report_holds_all_that_was_found() {
        let report = report();
        assert_eq!(report.wrong(), Vec::<String>::new());
        let json = report.to_json();
        assert_eq!(json["schema"], "logforce-platform");
        assert_eq!(json["os"], std::env::consts::OS);
        assert_eq!(json["tests"]["suites"][0]["passed"], 3);
        assert_eq!(json["tests"]["said"][0], "lock: a: skipped: b");
        assert_eq!(json["facts"]["schema"], "logforce-doctor");
        assert_eq!(json["commit"]["id"], "abc");
    }

    #[test]
    fn what_failed_is_said_and_kept() {
        let mut report = report();
        let tests = report.tests.as_mut().unwrap();
        tests.counts.failed = 2;
        tests.lines.push("FAILED in lock".into());
        report.bench = Some(Answer::Failed("exit status: 1: no space".into()));
        let wrong = report.wrong().join("\n");
        for said in ["2 tests failed", "FAILED in lock", "no space"] {
            assert!(wrong.contains(said), "{wrong}");
        }
        let json = report.to_json();
        assert_eq!(json["bench"]["error"], "exit status: 1: no space");
        assert_eq!(json["tests"]["failed"], 2);
    }
}
