//! Steps of a report.

use super::report::{Answer, Tests};
use crate::test::{PORTABLE, child, transcript};
use crate::workspace::{Workspace, cargo};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of a step; no step takes as long on any supported machine.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// Returns the commit of the checkout, and whether files differ from it; `None` without git.
pub fn commit(workspace: &Workspace) -> Option<Value> {
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        let out = git.args(words).current_dir(&workspace.root).output().ok()?;
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        out.status.success().then_some(text)
    };
    let id = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(json!({"id": id, "changed": !changed.is_empty()}))
}

/// Returns the output of `rustc -vV`.
pub fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    match Command::new(rustc).arg("-vV").output() {
        Ok(out) => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        Err(e) => format!("cannot be asked: {e}"),
    }
}

/// Runs the tests of the portable crates.
pub fn tests(workspace: &Workspace, logs: &Path) -> Result<Tests> {
    // Builds the programs that tests start. Otherwise the tests would compile them, without a log. If
    // this fails, the tests report it.
    let mut examples = Command::new(cargo());
    examples.current_dir(&workspace.root).arg("build");
    examples.args(PORTABLE.iter().flat_map(|c| ["-p", c]));
    examples.args(["--locked", "--examples", "--color", "never"]);
    child::run(&mut examples, &logs.join("platform-examples.log"), LIMIT)?;
    let mut tests = Command::new(cargo());
    tests.current_dir(&workspace.root).arg("test");
    tests.args(PORTABLE.iter().flat_map(|c| ["-p", c]));
    tests.args(["--locked", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    tests.args(["--color", "never"]);
    let ended = child::run(&mut tests, &logs.join("platform-tests.log"), LIMIT)?;
    let read = transcript::read(&ended.text());
    Ok(Tests {
        counts: read.counts(ended.ok),
        how: ended.how,
        suites: read.results(ended.ok),
        lines: read.lines(ended.ok),
    })
}

/// Builds the command as users do. Returns its path, or the compiler's output.
pub fn build(workspace: &Workspace, logs: &Path) -> Result<Result<PathBuf, String>> {
    let mut build = Command::new(cargo());
    build.current_dir(&workspace.root);
    build.args(["build", "--release", "--locked", "--color", "never"]);
    build.args(["-p", "logforce-cli"]);
    let ended = child::run(&mut build, &logs.join("platform-build.log"), LIMIT)?;
    if !ended.ok {
        return Ok(Err(format!("{}\n{}", ended.how, ended.text())));
    }
    let name = format!("logforce{}", std::env::consts::EXE_SUFFIX);
    Ok(Ok(workspace.target.join("release").join(name)))
}

/// Returns the system's facts about the folder and its disk.
pub fn facts(program: &Path, dir: &Path, logs: &Path) -> Result<Answer> {
    let mut command = Command::new(program);
    command.args(["doctor", "--passive"]).arg(dir);
    // A verdict that is not good is an answer too.
    ask(&mut command, &logs.join("platform-facts"), &[0, 1, 3])
}

/// Measures the cost of each method there.
pub fn bench(program: &Path, dir: &Path, seconds: f64, logs: &Path) -> Result<Answer> {
    let mut command = Command::new(program);
    command.args(["bench", "journal", "--dir"]).arg(dir);
    command.args(["--seconds", &seconds.to_string()]);
    ask(&mut command, &logs.join("platform-bench"), &[0])
}

/// Runs the command, and reads the JSON that it writes beside the log `name` if it ends with one of the statuses
/// `answers`.
fn ask(command: &mut Command, name: &Path, answers: &[i32]) -> Result<Answer> {
    let file = name.with_extension("json");
    // Removes the answer of an earlier run, which must not count for this one.
    match std::fs::remove_file(&file) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    command.arg("--json").arg(&file);
    let ended = child::run(command, &name.with_extension("log"), LIMIT)?;
    if !ended.code.is_some_and(|code| answers.contains(&code)) {
        return Ok(Answer::Failed(format!("{}\n{}", ended.how, ended.text())));
    }
    let read = std::fs::read(&file).map_err(|e| e.to_string());
    Ok(
        match read.and_then(|b| serde_json::from_slice(&b).map_err(|e| e.to_string())) {
            Ok(value) => Answer::Json(value),
            Err(e) => Answer::Failed(format!("{}: {e}", ended.how)),
        },
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn answer(script: &str) -> Answer {
        let temp = tempfile::TempDir::new().unwrap();
        let name = temp.path().join("answer");
        std::fs::write(name.with_extension("json"), "\"of an earlier run\"").unwrap();
        let mut command = Command::new("sh");
        // `--json FILE` follow: $0 and $1 of the script.
        ask(command.args(["-c", script]), &name, &[0]).unwrap()
    }

    #[test]
    fn only_what_was_written_by_a_command_that_ended_well_is_an_answer() {
        match answer("echo '{\"a\": 1}' > $1") {
            Answer::Json(value) => assert_eq!(value["a"], 1),
            Answer::Failed(how) => panic!("{how}"),
        }
        for (script, said) in [
            ("echo it broke >&2; echo '{}' > $1; exit 1", "it broke"),
            ("true", "No such file"),
            ("echo '{' > $1", "EOF"),
        ] {
            match answer(script) {
                Answer::Failed(how) => assert!(how.contains(said), "{how}"),
                Answer::Json(value) => panic!("{script}: {value}"),
            }
        }
    }

    #[test]
    fn the_compiler_and_the_checkout_are_named() {
        assert!(compiler().contains("host: "), "{}", compiler());
        let workspace = Workspace::find().unwrap();
        for krate in PORTABLE {
            assert!(workspace.crates.iter().any(|c| c.name == *krate), "{krate}");
        }
    }
}
