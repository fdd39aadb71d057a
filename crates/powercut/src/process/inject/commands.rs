//! The command looks at logs while its calls fail. It ends well and shows what it always shows, or
//! it fails and says why: what is whole is never called damaged.

use super::calls::is_about_threads;
use super::scene::{Files, Run, Scene};
use super::sessions::Base;
use super::tracer::one_line;
use crate::own;
use anyhow::Result;
use logforce::{Guarantee, Method};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A command over a log.
#[derive(Debug)]
pub struct CommandScene {
    name: String,
    program: PathBuf,
    /// Its words before the directory.
    words: &'static [&'static str],
    files: Files,
    /// It shows the same each time, or fails.
    exact: bool,
}

/// What is run, and whether all of what it shows is the log's.
const COMMANDS: [(&[&str], bool); 8] = [
    (&["verify"], true),
    (&["verify", "--salvage"], true),
    (&["dump"], true),
    (&["dump", "--salvage"], true),
    (&["stat", "--scan"], false),
    (&["doctor", "--passive"], false),
    (&["calibrate", "--dir"], false),
    (&[SALVAGE, "--require", "process-crash"], false),
];

/// Makes another log.
const SALVAGE: &str = "salvage";

impl CommandScene {
    /// Each command over each of some logs.
    ///
    /// # Errors
    /// If the command is not built.
    pub fn all(bases: &[Base]) -> Result<Vec<CommandScene>> {
        let program = own::program()?;
        let mut all = Vec::new();
        for base in bases {
            for (words, exact) in COMMANDS {
                all.push(CommandScene {
                    name: format!("{}, {}", words.join(" "), base.name()),
                    program: program.clone(),
                    words,
                    files: base.files().clone(),
                    exact,
                });
            }
        }
        Ok(all)
    }
}

/// What was shown, without the names of the directories and the numbers that change.
fn shown(output: &[u8], dir: &Path) -> String {
    let text = String::from_utf8_lossy(output);
    let text = text.replace(&dir.display().to_string(), "LOG");
    let timeless = |line: &str| match line.split_once(" in ") {
        Some((checked, _)) if line.starts_with("checked ") => checked.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(|l| timeless(l) + "\n").collect()
}

/// The guarantees of methods in the table of `doctor`, weakest first, as they stand there.
fn guarantees(output: &str) -> Vec<(Method, usize)> {
    let found = output.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let method = words.next()?.parse().ok()?;
        let rest = line.split_once("  ")?.1.trim_start();
        let rank = Guarantee::ALL
            .iter()
            .position(|g| rest.starts_with(g.name()));
        Some((method, rank?))
    });
    found.collect()
}

/// What is wrong with the log that was made of another one: there is nothing of it, or all.
fn saved(dir: &Path, run: &Run<'_>, whole: bool) -> Result<Option<String>> {
    let new = dir.with_file_name("new");
    for entry in std::fs::read_dir(dir.with_file_name(""))? {
        let path = entry?.path();
        if path != new && path != dir && !run.cannot_clean() {
            return Ok(Some(format!("{} is left behind", path.display())));
        }
    }
    if !new.exists() {
        return Ok(whole.then(|| "it says that all was saved, and nothing is there".to_owned()));
    }
    let (old, new) = match (records(dir), records(&new)) {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => {
            let error = old.err().or(new.err()).map(|e| e.to_string());
            return Ok(Some(format!(
                "what was saved: {}",
                error.unwrap_or_default()
            )));
        }
    };
    let right = if whole {
        old == new
    } else {
        old.starts_with(&new)
    };
    Ok((!right).then(|| format!("{} of {} records were saved", new.len(), old.len())))
}

fn records(dir: &Path) -> logforce::Result<Vec<Vec<u8>>> {
    let log = logforce::read_only(dir)?;
    let all = log.read_from(log.front_lsn())?;
    all.map(|record| record.map(|e| e.data)).collect()
}

/// What users should never see.
const NOT_WORDS: [&str; 6] = ["Os {", "Custom {", "kind: ", "Some(", "Error {", "code: "];

impl Scene for CommandScene {
    fn name(&self) -> &str {
        &self.name
    }

    fn group(&self) -> &'static str {
        "commands"
    }

    fn set_up(&self, dir: &Path) -> Result<()> {
        self.files.write(&dir.join("log"))
    }

    fn program(&self, dir: &Path) -> Result<Vec<OsString>> {
        let mut words = vec![self.program.clone().into_os_string()];
        words.extend(self.words.iter().map(OsString::from));
        words.push(dir.join("log").into_os_string());
        if self.words[0] == SALVAGE {
            words.push(dir.join("new").into_os_string());
        }
        Ok(words)
    }

    fn check(&self, dir: &Path, run: &Run<'_>) -> Result<Vec<String>> {
        let mut found: Vec<String> = run.crashed().into_iter().collect();
        let dir = dir.join("log");
        if self.words[0] != "calibrate" && Files::read(&dir)? != self.files {
            found.push("the command has changed the log".to_owned());
        }
        let Some(status) = run.ended.status else {
            return Ok(found);
        };
        // A verdict that is not good is an answer too, and has another status.
        let is_verdict = self.words[0] == "doctor" && matches!(status.code(), Some(1 | 3));
        let answered = status.success() || is_verdict;
        let (output, errors) = (shown(&run.ended.output, &dir), &run.ended.errors);
        let gone = run.is_lasting_damage() || run.lists_nothing();
        let Some((injection, usual)) = run.faulty else {
            if !answered {
                found.push(format!(
                    "{status}: {} {}",
                    one_line(&output),
                    one_line(errors)
                ));
            }
            return Ok(found);
        };
        for text in [&output, errors] {
            if let Some(line) = text
                .lines()
                .find(|l| NOT_WORDS.iter().any(|w| l.contains(w)))
            {
                found.push(format!("no words for people: {line}"));
            }
            // Not the name of a file that was set aside.
            let damaged = |l: &&str| {
                l.to_lowercase().replace(".damaged", "").contains("damaged") || l.contains("LOST")
            };
            if let Some(line) = text.lines().find(damaged).filter(|_| !gone) {
                found.push(format!("called damaged: {line}"));
            }
        }
        if self.words[0] == SALVAGE {
            found.extend(saved(&dir, run, status.success() && !gone)?);
        }
        // Standard output itself may be what fails.
        let writing = injection.call.starts_with("write");
        if answered {
            let usual = shown(&usual.output, &usual.dir.join("log"));
            let there = usual == output;
            let known = guarantees(&usual);
            for (method, rank) in guarantees(&output) {
                if known
                    .iter()
                    .any(|(m, usually)| *m == method && rank > *usually)
                {
                    found.push(format!("the guarantee of {method} rose"));
                }
            }
            if self.exact && !there && !gone && !writing {
                found.push(format!("shows something else: {}", one_line(&output)));
            }
        } else if injection.is_signal() {
            found.push(format!(
                "takes a signal for a failure: {}",
                one_line(errors)
            ));
        } else if !writing && !gone && run.ended.crashed().is_none() {
            // Crate ctrlc keeps to itself why it has no thread.
            let thread = is_about_threads(&injection.call) && !errors.is_empty();
            // What these answer then is that somebody else has the lock, and that is what is said.
            let locked = matches!(injection.call.as_str(), "fcntl" | "flock")
                && errors.contains("is open for writing already");
            if !injection.is_named_in(errors) && !thread && !locked {
                found.push(format!(
                    "{status}, and it does not say why: {}",
                    one_line(errors)
                ));
            }
        }
        Ok(found)
    }
}
