//! Stage `sqlite-suite`: SQLite's own test suite through the extension's VFS, beside stock SQLite.
//!
//! One program runs both: SQLite with its test commands, and `load.c`, which loads the extension if the
//! environment names it. Each test file runs in a separate process, as a user without rights, in an
//! empty directory. A difference is a test case that passes in stock SQLite only. `differences.md` lists
//! the known ones with their reasons; any other fails the stage, and so does a listed one that is gone.

mod build;
mod compare;
mod files;
mod known;

use super::child::{self, Ended};
use super::counts::Counts;
use super::stage::StageOutcome;
use super::{Setting, debian, temporary};
use crate::sqlite;
use anyhow::{Context, Result, bail};
use build::Built;
use compare::{Difference, Transcript};
use files::Job;
use known::Known;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Environment variable from which `load.c` takes the extension.
const VARIABLE: &str = "LOGFORCE_SUITE_LIBRARY";

/// Environment variable with a pattern of the test files, such as `full/wal*`; all by default.
const PATTERN: &str = "LOGFORCE_SUITE_FILES";

/// Time limit of one test file. The slowest one takes two minutes, on an idle machine too.
const LIMIT: Duration = Duration::from_secs(400);

/// Number of test files that run at once.
const WORKERS: usize = 2;

/// Number of differences of one file that are printed.
const SHOWN: usize = 8;

/// User and group without rights on most systems.
#[cfg(unix)]
const UNPRIVILEGED: u32 = 65_534;

/// Script that asks a connection whether it uses the extension's VFS.
const IN_USE: &str = "\
sqlite3 db test.db
db eval {CREATE TABLE t(a)}
catch {db one {SELECT logforce_vfs_in_use('main')}} answer
puts \"in use: $answer\"
";

/// Changes of the tests: file, text, and the text in its place. Some tests use random numbers, in the names
/// of test cases too. Two run only with a VFS of a certain name, although the extension's passes on what
/// they use. Two look at files in a way that `differences.md` explains, and would skip their checks of the
/// data: `walthread.test` expects no journal beside a WAL, `walcrash2.test` a length in a transaction.
const EDITS: [(&str, &str, &str); 5] = [
    (
        "tester.tcl",
        "set tcl_precision 15",
        "set tcl_precision 15; expr {srand(1)}",
    ),
    ("syscall.test", ONLY_UNIX, "0"),
    ("mmap2.test", ONLY_UNIX, "0"),
    ("walthread.test", "error \"File-system looks bad...\"", ""),
    (
        "walcrash2.test",
        "[wal_file_size 16 1024]",
        "[file size test.db-wal]",
    ),
];
const ONLY_UNIX: &str = "[test_syscall defaultvfs] != \"unix\"";

/// Programs and directories of a run.
#[derive(Debug)]
struct Suite<'s> {
    setting: &'s Setting,
    /// SQLite's test program.
    program: PathBuf,
    /// SQLite's source with its tests.
    source: PathBuf,
    library: PathBuf,
    /// Parent of the directories in which the tests run.
    scratch: PathBuf,
    /// Directory of the transcripts.
    logs: PathBuf,
}

/// SQLite that runs a test file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stock,
    Extension,
}

/// Result of one test file.
#[derive(Debug)]
struct Compared {
    file: String,
    /// Number of test cases that pass in stock SQLite.
    passed: u64,
    /// True if stock SQLite reached the end of the file.
    is_finished: bool,
    differences: Vec<Difference>,
}

/// Builds everything and compares all files.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let missing = debian::missing(build::NEEDED.iter(), |path| path.exists());
    if !missing.is_empty() {
        let names = missing.join(" ");
        return Ok(StageOutcome::skipped(format!("the suite needs {names}")));
    }
    let built = match build::all(setting)? {
        Ok(built) => built,
        Err(failed) => return Ok(failed),
    };
    let dirs = temporary::of_suite(&setting.workspace);
    for dir in &dirs {
        temporary::make(dir)?;
    }
    let outcome = Suite::prepare(setting, &built, &dirs).and_then(|suite| suite.run());
    for dir in &dirs {
        temporary::clean(dir)?;
    }
    outcome
}

impl Suite<'_> {
    /// Copies what the tests use to where all users may read it, and checks that the extension is in use.
    fn prepare<'s>(setting: &'s Setting, built: &Built, dirs: &[PathBuf; 2]) -> Result<Suite<'s>> {
        let [temp, scratch] = dirs;
        let logs = setting.logs.join("sqlite-suite");
        std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
        let suite = Suite {
            setting,
            program: temp.join("testfixture"),
            source: build::unpacked(temp),
            library: temp.join(sqlite::LIBRARY),
            scratch: scratch.clone(),
            logs,
        };
        build::unpack(setting, &built.archive, temp)?;
        for (name, from, to) in EDITS {
            let path = suite.source.join("test").join(name);
            let text = std::fs::read_to_string(&path).with_context(|| name.to_owned())?;
            if !text.contains(from) {
                bail!("{name} has no `{from}`");
            }
            std::fs::write(&path, text.replace(from, to)).with_context(|| name.to_owned())?;
        }
        for (from, to) in [
            (&built.program, &suite.program),
            (&built.library, &suite.library),
        ] {
            std::fs::copy(from, to).with_context(|| from.display().to_string())?;
        }
        suite.check_in_use(temp)?;
        Ok(suite)
    }

    /// Fails unless connections use the extension's VFS. Otherwise stock SQLite would be compared with
    /// itself.
    fn check_in_use(&self, temp: &Path) -> Result<()> {
        let script = temp.join("in-use.tcl");
        std::fs::write(&script, IN_USE).with_context(|| script.display().to_string())?;
        for (kind, expected) in [(Kind::Extension, true), (Kind::Stock, false)] {
            let mut command = self.command(kind);
            command.arg(&script);
            let ended = self.in_scratch(&mut command, "in-use", kind)?;
            let text = ended.text();
            if text.lines().any(|l| l == "in use: 1") != expected {
                bail!(
                    "the check of the VFS in use with {kind:?}: {}\n{text}",
                    ended.how
                );
            }
        }
        Ok(())
    }

    /// Returns a command with the test program.
    fn command(&self, kind: Kind) -> Command {
        let mut command = Command::new(&self.program);
        command.env_remove(VARIABLE);
        if kind == Kind::Extension {
            command.env(VARIABLE, &self.library);
        }
        command
    }

    /// Runs a command as a user without rights, in an empty directory that is removed afterwards.
    fn in_scratch(&self, command: &mut Command, name: &str, kind: Kind) -> Result<Ended> {
        // The same path for both kinds: some test cases depend on its length.
        let dir = self.scratch.join(name);
        std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        #[cfg(unix)]
        without_rights(command, &dir)?;
        command
            .current_dir(&dir)
            .env("TMPDIR", &dir)
            .env("HOME", &dir);
        let log = match kind {
            Kind::Stock => format!("{name}-stock.log"),
            Kind::Extension => format!("{name}-extension.log"),
        };
        let log = self.logs.join(log);
        let ended = child::run(command, &log, LIMIT.min(self.setting.clock.limit()));
        temporary::clean(&dir)?;
        ended
    }

    /// Runs one test file.
    fn transcript(&self, job: &Job, kind: Kind) -> Result<Transcript> {
        let mut command = self.command(kind);
        command
            .arg(self.source.join("test/permutations.test"))
            .args([job.suite, &job.file]);
        let name = format!("{}-{}", job.suite, job.file);
        let ended = self.in_scratch(&mut command, &name, kind)?;
        Ok(Transcript::read(&ended.text()))
    }

    fn compare(&self, job: &Job) -> Result<Compared> {
        let stock = self.transcript(job, Kind::Stock)?;
        let ours = self.transcript(job, Kind::Extension)?;
        Ok(Compared {
            file: job.to_string(),
            passed: stock.passed(),
            is_finished: stock.is_finished(),
            differences: compare::differences(&stock, &ours),
        })
    }

    /// Compares all selected files.
    fn run(&self) -> Result<StageOutcome> {
        let pattern = std::env::var(PATTERN).unwrap_or_else(|_| "*".to_owned());
        let jobs = files::jobs(&self.source, &pattern)?;
        if jobs.is_empty() {
            bail!("{PATTERN}: no test file matches {pattern}");
        }
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<Compared>> {
            let take = || jobs.get(next.fetch_add(1, Ordering::Relaxed));
            std::iter::from_fn(take)
                .map(|job| self.compare(job))
                .collect()
        };
        let results = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            let join = |worker: ScopedJoinHandle<'_, _>| match worker.join() {
                Ok(result) => result,
                Err(_) => bail!("a thread that runs test files panicked"),
            };
            workers.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let results: Vec<Compared> = results.into_iter().flatten().collect();
        let mut known = known::list()?;
        known.retain(|k| known::matches(&pattern, &k.file));
        Ok(judged(&known, &results))
    }
}

/// Compares the results with the list of known differences. A test case counts as one test.
fn judged(list: &[Known], results: &[Compared]) -> StageOutcome {
    let mut outcome = StageOutcome::default();
    let mut listed = 0;
    for result in results {
        let checked = known::check(list, &result.file, &result.differences);
        listed += checked.listed;
        let mut lines: Vec<String> = Vec::new();
        for d in checked.unlisted {
            lines.push(format!("{}: {}", d.case, d.detail));
        }
        for case in checked.gone {
            lines.push(format!("{case}: listed, but no difference"));
        }
        if !result.is_finished {
            lines.push("stock SQLite does not finish it".to_owned());
        }
        let passed = result
            .passed
            .saturating_sub(result.differences.len() as u64);
        outcome.counts += Counts::of(passed, lines.len() as u64, 0);
        if lines.len() > SHOWN {
            let more = lines.len() - SHOWN;
            lines.truncate(SHOWN);
            lines.push(format!("and {more} more"));
        }
        let shown = lines.iter().map(|line| format!("{}: {line}", result.file));
        outcome.lines.extend(shown);
    }
    for known in list {
        if !results.iter().any(|result| result.file == known.file) {
            outcome.counts += Counts::FAILED;
            outcome
                .lines
                .push(format!("{}: listed, but not run", known.file));
        }
    }
    let files = results.len();
    outcome
        .lines
        .push(format!("{files} files, {listed} listed differences"));
    outcome
}

/// Makes a command of root's run as a user without rights, who owns the directory: some tests expect
/// that a file without permissions cannot be opened.
#[cfg(unix)]
fn without_rights(command: &mut Command, dir: &Path) -> Result<()> {
    use std::os::unix::process::CommandExt;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(dir, Some(UNPRIVILEGED), Some(UNPRIVILEGED))
            .with_context(|| dir.display().to_string())?;
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(file: &str, cases: &[&str], is_finished: bool) -> Compared {
        let difference = |case: &&str| Difference {
            case: (*case).to_owned(),
            has_failed: true,
            detail: "failed".to_owned(),
        };
        Compared {
            file: file.to_owned(),
            passed: 10,
            is_finished,
            differences: cases.iter().map(difference).collect(),
        }
    }

    #[test]
    fn only_listed_differences_pass() {
        let list = [Known {
            file: "full/a.test".to_owned(),
            cases: vec!["a-1".to_owned()],
            may_fail: true,
        }];
        let a = result("full/a.test", &["a-1"], true);
        let b = result("full/b.test", &[], true);
        assert_eq!(judged(&list, &[a, b]).counts, Counts::of(19, 0, 0));
        for (results, line) in [
            (
                [result("full/a.test", &["a-1", "a-2"], true)],
                "full/a.test: a-2: failed",
            ),
            (
                [result("full/a.test", &[], true)],
                "full/a.test: a-1: listed, but no difference",
            ),
            (
                [result("full/a.test", &["a-1"], false)],
                "full/a.test: stock SQLite does not finish it",
            ),
            (
                [result("full/b.test", &[], true)],
                "full/a.test: listed, but not run",
            ),
        ] {
            let outcome = judged(&list, &results);
            assert_eq!(outcome.counts.failed, 1, "{line}");
            assert_eq!(outcome.lines[0], line);
        }
    }
}
