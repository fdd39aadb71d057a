//! The commands of a user: what they are, and how they are run and ended.

use crate::finished::Finished;
use crate::output::Output;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use serde::{Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::PipeWriter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Variable with the directory of the program under test.
pub const DIR: &str = "CRASHTEST_DIR";
/// Variable with the file for acknowledgements.
pub const ACKS: &str = "CRASHTEST_ACKS";
/// Variable with the file of acknowledged lines, for the check.
pub const ACKED: &str = "CRASHTEST_ACKED";
/// Variable with the file of announced lines, for the check.
pub const BEGUN: &str = "CRASHTEST_BEGUN";

/// A command of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments. `{}` in an argument is the directory.
    Arguments(Vec<OsString>),
    /// A line for `sh`. `{}` is the directory, `{acked}` the file of acknowledged lines.
    Shell(String),
}

/// Values of the placeholders and variables.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The directory of the program under test.
    pub dir: &'a Path,
    /// The file to which acknowledgements are written.
    pub acks: Option<&'a Path>,
    /// The file of acknowledged lines.
    pub acked: Option<&'a Path>,
    /// The file of announced lines.
    pub begun: Option<&'a Path>,
}

/// Destination to which a workload writes its acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckSource {
    /// Standard output.
    #[default]
    Stdout,
    /// The file that `$CRASHTEST_ACKS` names.
    File,
    /// A file descriptor, 3 to 9.
    Fd(u8),
}

impl std::str::FromStr for AckSource {
    type Err = String;

    fn from_str(text: &str) -> Result<AckSource, String> {
        match text {
            "stdout" => return Ok(AckSource::Stdout),
            "file" => return Ok(AckSource::File),
            _ => {}
        }
        let fd = text.strip_prefix("fd:").and_then(|n| n.parse().ok());
        match fd {
            Some(1) => Ok(AckSource::Stdout),
            Some(fd @ 3..=9) => Ok(AckSource::Fd(fd)),
            _ => Err("must be stdout, file, or fd:N with N from 3 to 9".to_owned()),
        }
    }
}

impl Program {
    /// Returns the words to execute.
    fn words(&self, places: Places<'_>) -> Vec<OsString> {
        match self {
            Program::Arguments(words) => {
                let dir = places.dir.as_os_str();
                words.iter().map(|w| replace(w, "{}", dir)).collect()
            }
            Program::Shell(line) => {
                let line = replace(OsStr::new(line), "{}", places.dir.as_os_str());
                let line = match places.acked {
                    Some(acked) => replace(&line, "{acked}", acked.as_os_str()),
                    None => line,
                };
                vec!["sh".into(), "-c".into(), line]
            }
        }
    }
}

impl Program {
    /// Returns a line for `sh` with the placeholders in it.
    pub(crate) fn line(&self) -> String {
        let quoted =
            |word: &OsString| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
        match self {
            Program::Arguments(words) => words.iter().map(quoted).collect::<Vec<_>>().join(" "),
            Program::Shell(line) => line.clone(),
        }
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Program::Arguments(words) => {
                let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
                f.write_str(&words.join(" "))
            }
            Program::Shell(line) => f.write_str(line),
        }
    }
}

/// Writes the words as a list of strings, a line for `sh` as a string.
impl Serialize for Program {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Program::Arguments(words) => to.collect_seq(words.iter().map(|w| w.to_string_lossy())),
            Program::Shell(line) => to.serialize_str(line),
        }
    }
}

fn replace(text: &OsStr, what: &str, with: &OsStr) -> OsString {
    let (mut rest, mut out) = (text.as_bytes(), Vec::new());
    while let Some(at) = rest.windows(what.len()).position(|w| w == what.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with.as_bytes());
        rest = &rest[at + what.len()..];
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

/// Bounds of a command: what is ended with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// A process namespace: everything that the command started. Needs root.
    Namespace,
    /// A process group: everything that has not left it. It ends with this process too, also by `kill -9`.
    Group,
}

/// A running command: when it is ended, everything within its bounds ends.
#[derive(Debug)]
pub struct Running {
    /// `unshare` or a shell, which ends with the command and with its exit status.
    child: Child,
    output: Output,
    confinement: Confinement,
    /// Writing end of the standard input of a group's first process.
    _alive: PipeWriter,
}

impl Running {
    /// Starts a command, behind the words `under`. `ended` is called when it has closed its output, with everything
    /// that it started.
    ///
    /// # Errors
    /// If `unshare` cannot be started. A command that does not exist ends with status 127.
    pub fn start(
        program: &Program,
        places: Places<'_>,
        acks: Option<AckSource>,
        under: &[OsString],
        confinement: Confinement,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Running> {
        let (output, writer) = std::io::pipe()?;
        let (until_end, alive) = std::io::pipe()?;
        let mut command = match confinement {
            Confinement::Namespace => {
                let mut command = Command::new("unshare");
                command.args([
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    "--",
                    "sh",
                ]);
                command
            }
            Confinement::Group => Command::new("sh"),
        };
        if confinement == Confinement::Group {
            command.process_group(0);
        }
        let script = match confinement {
            Confinement::Namespace => first_process(acks, "", ""),
            Confinement::Group => first_process(acks, &format!("{WATCH}; "), COMMANDS_INPUT),
        };
        command.args(["-c", &script, "sh"]).args(under);
        command.args(program.words(places)).env(DIR, places.dir);
        let named = [
            (ACKS, places.acks),
            (ACKED, places.acked),
            (BEGUN, places.begun),
        ];
        for (name, path) in named {
            match path {
                Some(path) => command.env(name, path),
                None => command.env_remove(name),
            };
        }
        command.stdin(match (confinement, places.acked) {
            (Confinement::Group, _) => until_end.into(),
            (_, Some(acked)) => File::open(acked)?.into(),
            (_, None) => Stdio::null(),
        });
        command.stdout(match (acks, places.acks) {
            (Some(AckSource::Stdout), Some(acks)) => {
                Stdio::from(OpenOptions::new().write(true).open(acks)?)
            }
            _ => writer.try_clone()?.into(),
        });
        command.stderr(writer);
        let child = command.spawn().context(match confinement {
            Confinement::Namespace => "unshare (package util-linux)",
            Confinement::Group => "sh",
        })?;
        // It holds the writing end, without which the output ends.
        drop(command);
        let output = Output::read(output, ended);
        Ok(Running {
            child,
            output,
            confinement,
            _alive: alive,
        })
    }

    /// Returns the exit status, if the command has ended.
    ///
    /// # Errors
    /// System errors.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Returns true if the command has ended.
    ///
    /// # Errors
    /// System errors.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for the command for at most `patience`, and ends what is left of it.
    ///
    /// # Errors
    /// System errors.
    pub fn wait(mut self, patience: Duration) -> Result<Finished> {
        let (began, mut pause) = (Instant::now(), Duration::from_micros(200));
        while self.child.try_wait()?.is_none() && began.elapsed() < patience {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        let status = self.child.try_wait()?;
        self.end(status)
    }

    /// Ends the command as `kill -9` does, with everything that it started.
    ///
    /// # Errors
    /// System errors.
    pub fn kill(mut self) -> Result<Finished> {
        let status = self.child.try_wait()?;
        self.end(status)
    }

    fn end(&mut self, status: Option<ExitStatus>) -> Result<Finished> {
        self.kill_all();
        self.child.wait()?;
        Ok(Finished {
            status,
            output: self.output.end(),
        })
    }
}

impl Running {
    fn kill_all(&mut self) {
        // The first process may have ended, and been waited for, before the others of its group. Its number is not used
        // again while the group has one.
        let group = Pid::from_raw(self.child.id() as i32);
        if let Some(group) = group.filter(|_| self.confinement == Confinement::Group) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_all();
        let _ = self.child.wait();
    }
}

/// Ends the group when the harness has ended, in whatever way: its end of this pipe is closed then. A tracer whose reader
/// was killed would go on for ever.
const WATCH: &str = "exec 7<&0; (read -r _ <&7; kill -9 0) >/dev/null 2>&1 & exec 7<&-";
/// Redirects the input of a command in a group, as that of one in a namespace is.
const COMMANDS_INPUT: &str = "<\"${CRASHTEST_ACKED:-/dev/null}\"";

/// Returns the script of the first process in a namespace, which runs the command behind it. Otherwise the command would
/// be the first process, whose own signals the kernel ignores: `abort` would not end it as usual. The script's standard
/// error is closed, so that the shell's remark about a signal does not become the last line of output.
///
/// `watch` comes first, and `input` redirects the command's input.
fn first_process(acks: Option<AckSource>, watch: &str, input: &str) -> String {
    let (free, acks) = match acks {
        Some(AckSource::Fd(fd)) => (if fd == 9 { 8 } else { 9 }, format!("{fd}>\"${ACKS}\"")),
        _ => (9, String::new()),
    };
    format!("{watch}exec {free}>&2 2>/dev/null; (\"$@\" 2>&{free} {free}>&- {input} {acks}); exit")
}

/// Runs a command to its end.
///
/// # Errors
/// If it fails or takes longer than `patience`, with its last line.
pub fn run(
    program: &Program,
    places: Places<'_>,
    patience: Duration,
    confinement: Confinement,
) -> Result<()> {
    let ended = Running::start(program, places, None, &[], confinement, || {})?.wait(patience)?;
    if !ended.status.is_some_and(|s| s.success()) {
        bail!("`{program}` {}", ended.failure());
    }
    Ok(())
}

/// Writes lines into a file, for a check.
///
/// # Errors
/// I/O errors of the file.
pub fn write_lines(path: &Path, lines: &[String]) -> Result<()> {
    let text: String = lines.iter().flat_map(|l| [l, "\n"]).collect();
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        let places = Places {
            dir: Path::new("/d"),
            acks: None,
            acked: Some(Path::new("/a")),
            begun: None,
        };
        let shell = Program::Shell("check {}/x {acked} {}".to_owned());
        assert_eq!(shell.words(places)[2], "check /d/x /a /d");
        let arguments = Program::Arguments(vec!["w".into(), "--dir={}".into()]);
        assert_eq!(arguments.words(places), ["w", "--dir=/d"]);
        let json = |program| serde_json::to_string(program).unwrap();
        assert_eq!(json(&arguments), r#"["w","--dir={}"]"#);
        assert_eq!(json(&shell), r#""check {}/x {acked} {}""#);
    }

    #[test]
    fn sources_of_acknowledgements() {
        assert_eq!("fd:3".parse(), Ok(AckSource::Fd(3)));
        assert_eq!("fd:1".parse(), Ok(AckSource::Stdout));
        for bad in ["fd:0", "fd:2", "fd:x", "", "pipe"] {
            assert!(bad.parse::<AckSource>().is_err(), "{bad}");
        }
    }
}
