//! `strace`, which answers a program's system calls in the kernel's place.

use super::calls::{Answer, answers};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long a program may take. It ends a hang; how fast things are decides nothing.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One call, or all from one on, that is answered without being made. Every thread of the program
/// counts its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Injection {
    /// The call's name.
    pub call: String,
    /// What it is answered.
    pub answer: Answer,
    /// Which one, from 1.
    pub nth: u64,
    /// That one and all that follow.
    pub on: bool,
}

impl Injection {
    fn arguments(&self) -> [OsString; 4] {
        let on = if self.on { "+" } else { "" };
        let (call, answer, nth) = (&self.call, self.answer.expression(), self.nth);
        let inject = format!("inject={call}:{answer}:when={nth}{on}");
        ["-e", &format!("trace={call}"), "-e", &inject].map(OsString::from)
    }

    /// Whether bytes may really be gone: a second look would see the same.
    pub fn is_lasting_damage(&self) -> bool {
        self.on && self.answer.is_of_medium()
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = if self.on { "+" } else { "" };
        write!(f, "{}={}@{}{on}", self.call, self.answer, self.nth)
    }
}

impl FromStr for Injection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('=')
            .and_then(|(call, rest)| Some((call, rest.split_once('@')?)));
        let (call, (answer, when)) = parts.ok_or("an injection is CALL=ERRNO@N, or @N+")?;
        let on = when.ends_with('+');
        let nth = when.trim_end_matches('+').parse();
        Ok(Injection {
            call: call.to_owned(),
            answer: answer.parse()?,
            nth: nth.map_err(|e| format!("'{when}': {e}"))?,
            on,
        })
    }
}

/// A call that a program made, by the number that the thread's count gives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The call's name.
    pub call: String,
    /// Which one.
    pub nth: u64,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Where its files are.
    pub dir: PathBuf,
    /// Its status; `None` if it hung and was killed.
    pub status: Option<ExitStatus>,
    /// What it wrote to standard output.
    pub output: Vec<u8>,
    /// What it wrote to standard error.
    pub errors: String,
    /// The calls as `strace` shows them.
    pub trace: String,
}

impl Ended {
    /// The calls that were answered so.
    pub fn failed(&self) -> impl Iterator<Item = &str> {
        let lines = self.trace.lines().filter(|l| l.contains("(INJECTED)"));
        lines.filter_map(|l| Some(l.trim_start().split_once(' ')?.1.trim_start()))
    }

    /// What is wrong with the way it ended, whatever it was to do.
    pub fn crashed(&self) -> Option<String> {
        let Some(status) = self.status else {
            return Some(format!("it hung: {}", self.errors));
        };
        let crashed = status.signal().is_some() || matches!(status.code(), Some(101 | 134 | 139));
        // The runtime's own threads may panic and the process end with success.
        (crashed || self.errors.contains("panicked at"))
            .then(|| format!("it ended with {status}: {}", one_line(&self.errors)))
    }
}

/// A text in one line, not all of it.
pub fn one_line(text: &str) -> String {
    let line = text.trim().replace('\n', " / ");
    line.chars().take(400).collect()
}

/// Whether `strace` is here and may trace.
pub fn is_here() -> bool {
    let mut tried = Command::new("strace");
    tried.args(["-f", "-o", "/dev/null", "true"]);
    tried.stdout(Stdio::null()).stderr(Stdio::null());
    tried.status().is_ok_and(|s| s.success())
}

/// Runs a program to its end, over files in `dir`: with `injection` if there is one, else all its
/// calls are written down. `scratch` is for the suite's own files.
///
/// # Errors
/// Of the machine.
pub fn run(
    program: &[OsString],
    injection: Option<&Injection>,
    dir: &Path,
    scratch: &Path,
) -> Result<Ended> {
    let (trace, errors) = (scratch.join("trace"), scratch.join("errors"));
    let (ours, theirs) = UnixStream::pair()?;
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-y", "-e", "signal=none", "-o"]);
    strace.arg(&trace);
    if let Some(injection) = injection {
        // The kernel stops the program at this call only.
        strace.arg("--seccomp-bpf").args(injection.arguments());
    }
    strace
        .args(program)
        .current_dir("/")
        // Where the command keeps what it measured.
        .env("HOME", scratch)
        .env_remove("XDG_CACHE_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::from(fs::File::create(&errors)?))
        // To be killed with what it traces.
        .process_group(0);
    let mut child = strace.spawn().context("strace (package strace)")?;
    // It holds the other end of the pair.
    drop(strace);
    let output = read_all(&ours)?;
    let status = match &output {
        Some(_) => Some(child.wait()?),
        None => {
            let group = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            child.wait()?;
            None
        }
    };
    Ok(Ended {
        dir: dir.to_owned(),
        status,
        output: output.unwrap_or_default(),
        errors: lossy(&errors)?,
        trace: lossy(&trace)?,
    })
}

fn lossy(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Everything up to the end of the last process that could write; `None` if that does not come.
fn read_all(mut from: &UnixStream) -> Result<Option<Vec<u8>>> {
    from.shutdown(Shutdown::Write)?;
    let until = Instant::now() + TIMEOUT;
    let (mut all, mut piece) = (Vec::new(), [0; 1 << 14]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        from.set_read_timeout(Some(left))?;
        match from.read(&mut piece) {
            Ok(0) => return Ok(Some(all)),
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e).context("what the program says"),
        }
    }
}

/// What a Rust program's first thread does last before `main`: it sets up a stack for signals, by
/// the second call of this name.
const BEFORE_MAIN: &str = "sigaltstack";

/// The calls in a trace that may fail, in the order in which they came. Not those whose number the
/// first thread had used up before `main`: they would fail there. So of the other threads the first
/// few of some calls are left out.
pub fn spots(trace: &str) -> Vec<Spot> {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut first = None;
    let mut before: Option<BTreeMap<&str, u64>> = None;
    let mut spots = Vec::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.trim_start().split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        // `<... read resumed>`, `+++ exited`, `--- SIGCHLD`.
        let Some((call, _)) = rest.split_once('(').filter(|(call, _)| is_name(call)) else {
            continue;
        };
        let first = *first.get_or_insert(thread);
        let count = counts.entry((thread, call)).or_default();
        *count += 1;
        let nth = *count;
        let Some(before) = &before else {
            if counts.get(&(first, BEFORE_MAIN)) == Some(&2) {
                let firsts = counts.iter().filter(|((thread, _), _)| *thread == first);
                before = Some(firsts.map(|((_, call), n)| (*call, *n)).collect());
            }
            continue;
        };
        let spot = Spot {
            call: call.to_owned(),
            nth,
        };
        let free = before.get(call).is_none_or(|used| nth > *used);
        if free && !answers(call).is_empty() && !spots.contains(&spot) {
            spots.push(spot);
        }
    }
    spots
}

fn is_name(call: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !call.is_empty() && call.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injections_are_written_as_they_are_read() {
        for text in ["openat=EMFILE@12", "pread64=EIO@3+", "getdents64=nothing@1"] {
            let injection: Injection = text.parse().unwrap();
            assert_eq!(injection.to_string(), text);
        }
        let injection: Injection = "pread64=EIO@3+".parse().unwrap();
        assert!(injection.is_lasting_damage());
        assert_eq!(
            injection.arguments()[3],
            OsString::from("inject=pread64:error=EIO:when=3+")
        );
        for text in ["openat", "openat=EMFILE", "openat=ENOENT@1", "openat=EIO@x"] {
            assert!(text.parse::<Injection>().is_err(), "{text}");
        }
    }

    #[test]
    fn calls_are_counted_by_thread_and_from_main_on() {
        let trace = "\
            7 openat(AT_FDCWD, \"/etc/ld.so.cache\") = 3\n\
            7 sigaltstack(NULL) = 0\n\
            7 sigaltstack({}) = 0\n\
            7 openat(AT_FDCWD, \"log\") = 3\n\
            7 clone3({}) = 8\n\
            8 openat(AT_FDCWD, \"a\" <unfinished ...>\n\
            7 gettid() = 7\n\
            8 <... openat resumed>) = 4\n\
            8 +++ exited with 0 +++\n";
        let found = spots(trace);
        let found: Vec<_> = found.iter().map(|s| (s.call.as_str(), s.nth)).collect();
        assert_eq!(found, [("openat", 2), ("clone3", 1)]);
    }
}
