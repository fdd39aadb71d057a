//! Transcripts of test files, and their comparison.

use std::collections::{BTreeMap, BTreeSet};

/// Pseudo test cases: what a file's summary says about the whole file.
const FINISHED: &str = "(finished)";
const FILES_CLOSED: &str = "(files closed)";
const MEMORY_FREED: &str = "(memory freed)";

/// Test cases of one run of a file. Several may have the same name.
#[derive(Debug, Default)]
pub struct Transcript {
    passed: BTreeMap<String, u64>,
    failed: BTreeSet<String>,
    /// Expected and actual result of the failed cases.
    details: BTreeMap<String, String>,
}

/// Test case that passes in stock SQLite only, or fails with the extension only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub case: String,
    /// True if the case failed with the extension; false if it was not run, or not as often.
    pub has_failed: bool,
    /// Result with the extension.
    pub detail: String,
}

impl Transcript {
    /// Reads the output of SQLite's test program: `NAME... Ok`, `! NAME expected: [X]`,
    /// `! NAME got: [Y]`, and a summary.
    pub fn read(text: &str) -> Transcript {
        let mut read = Transcript::default();
        for line in text.lines() {
            if let Some(name) = line.strip_suffix("... Ok") {
                // Threads print a dot from time to time.
                read.pass(name.trim_start_matches('.'));
            } else if let Some(names) = line.strip_prefix("!Failures on these tests:") {
                let names = names.split_whitespace().map(str::to_owned);
                read.failed.extend(names);
            } else if let Some(said) = line.strip_prefix("! ") {
                let name = said.split(' ').next().unwrap_or_default();
                read.failed.insert(name.to_owned());
                let detail = read.details.entry(name.to_owned()).or_default();
                let said = said.strip_prefix(name).unwrap_or_default().trim();
                *detail += &format!("{said} ");
            } else if line.contains(" errors out of ") {
                read.pass(FINISHED);
                read.pass(FILES_CLOSED);
                read.pass(MEMORY_FREED);
            } else if line.ends_with(" files were left open") {
                read.passed.remove(FILES_CLOSED);
            } else if line.starts_with("Unfreed memory: ") {
                read.passed.remove(MEMORY_FREED);
            }
        }
        read
    }

    fn pass(&mut self, name: &str) {
        *self.passed.entry(name.to_owned()).or_default() += 1;
    }

    /// Returns the number of passed test cases.
    pub fn passed(&self) -> u64 {
        self.passed.values().sum()
    }

    pub fn is_finished(&self) -> bool {
        self.passed.contains_key(FINISHED)
    }
}

/// Returns the differences between a run of stock SQLite and one with the extension, by name.
pub fn differences(stock: &Transcript, ours: &Transcript) -> Vec<Difference> {
    let fewer = |(name, count): &(&String, &u64)| ours.passed.get(*name).is_none_or(|c| c < count);
    let lost = stock.passed.iter().filter(fewer).map(|(name, _)| name);
    let mut cases: BTreeSet<&String> = lost.collect();
    cases.extend(ours.failed.difference(&stock.failed));
    let difference = |case: &String| {
        let has_failed = ours.failed.contains(case);
        let detail = match ours.details.get(case) {
            Some(detail) => detail.trim(),
            None if has_failed => "failed",
            None => "not run, or not as often",
        };
        Difference {
            case: case.clone(),
            has_failed,
            detail: detail.to_owned(),
        }
    };
    cases.into_iter().map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "\
a-1.1... Ok
a-1.2... Ok
a-1.2... Ok
a-1.3...
! a-1.3 expected: [1]
! a-1.3 got:      [2]
a.test-closeallfiles... Ok
1 errors out of 4 tests on x Linux 64-bit little-endian
!Failures on these tests: a-1.3
All memory allocations freed - no leaks
";

    fn cases(ours: &str) -> Vec<(String, String)> {
        let found = differences(&Transcript::read(STOCK), &Transcript::read(ours));
        found.into_iter().map(|d| (d.case, d.detail)).collect()
    }

    fn one(case: &str, detail: &str) -> Vec<(String, String)> {
        vec![(case.to_owned(), detail.to_owned())]
    }

    #[test]
    fn equal_runs_do_not_differ() {
        assert_eq!(cases(STOCK), []);
        assert_eq!(Transcript::read(STOCK).passed(), 7);
    }

    #[test]
    fn a_failed_case_differs() {
        let ours = STOCK
            .replace(
                "a-1.1... Ok\n",
                "a-1.1...\n! a-1.1 expected: [1 2]\n! a-1.1 got:      [1 3]\n",
            )
            .replace("tests: a-1.3", "tests: a-1.1 a-1.3");
        assert_eq!(
            cases(&ours),
            one("a-1.1", "expected: [1 2] got:      [1 3]")
        );
    }

    /// Output of the case itself can stand between its name and its result.
    #[test]
    fn a_case_that_fails_only_in_the_summary_differs() {
        let ours = STOCK.replace("tests: a-1.3", "tests: a-1.3 a-9");
        assert_eq!(cases(&ours), one("a-9", "failed"));
    }

    #[test]
    fn a_case_that_runs_less_often_differs() {
        let ours = STOCK.replacen("a-1.2... Ok\n", "", 1);
        assert_eq!(cases(&ours), one("a-1.2", "not run, or not as often"));
    }

    #[test]
    fn a_run_that_ends_early_differs() {
        let (ours, _) = STOCK.split_once("1 errors").unwrap();
        let names: Vec<String> = cases(ours).into_iter().map(|(case, _)| case).collect();
        assert_eq!(names, [FILES_CLOSED, FINISHED, MEMORY_FREED]);
        assert!(!Transcript::read(ours).is_finished());
    }

    #[test]
    fn open_files_and_memory_differ() {
        let ours = STOCK.replace(
            "All memory",
            "2 files were left open\nUnfreed memory: 8 bytes in 1 allocations\nAll memory",
        );
        let names: Vec<String> = cases(&ours).into_iter().map(|(case, _)| case).collect();
        assert_eq!(names, [FILES_CLOSED, MEMORY_FREED]);
    }
}
