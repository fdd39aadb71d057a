//! Processes that have ended, and what they said.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Exit status; `None` if it was still running at the end of its time.
    pub status: Option<ExitStatus>,
    /// Last part of its output, standard error included.
    pub output: String,
}

/// Beginnings of lines that follow the message of a panic in Rust.
const RUST_NOTES: [&str; 2] = [
    "note: run with `RUST_BACKTRACE",
    "note: Some details are omitted",
];

impl Finished {
    /// Returns the last line of output that says something, or that of a panic in Go, below which there are stacks: its
    /// first 200 characters, without control characters, which might do anything to a terminal.
    pub fn last_line(&self) -> String {
        let mut lines = self.output.lines().rev().map(str::trim);
        let says =
            |line: &&str| !line.is_empty() && !RUST_NOTES.iter().any(|n| line.starts_with(n));
        let is_panic =
            |line: &&str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
        let panic = self.output.lines().find(is_panic);
        let is_go = self.output.contains("\ngoroutine ");
        let line = panic
            .filter(|_| is_go)
            .or_else(|| lines.find(says))
            .unwrap_or("");
        let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        line.chars().take(200).map(shown).collect()
    }

    /// Returns how it ended, and its last line of output if there is one.
    pub fn failure(&self) -> String {
        match self.last_line() {
            line if line.is_empty() => self.how(),
            line => format!("{}: {line}", self.how()),
        }
    }

    /// Returns how it ended, in words.
    pub fn how(&self) -> String {
        match self.status {
            None => "was still running".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code @ 129..=192), _) => format!("ended by signal {}", code - 128),
                (Some(code), _) => format!("exited with {code}"),
                (None, Some(signal)) => format!("ended by signal {signal}"),
                (None, None) => status.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_line_is_short_and_harmless() {
        let finished = |output: &str| Finished {
            status: None,
            output: output.to_owned(),
        };
        assert_eq!(finished("one\ntwo\n \n").last_line(), "two");
        assert_eq!(finished("\u{1b}[2J\0").last_line(), "\u{fffd}[2J\u{fffd}");
        assert_eq!(finished(&"x".repeat(999)).last_line().len(), 200);
    }

    #[test]
    fn the_message_of_a_panic_is_found() {
        let last_line = |output: &str| {
            let output = output.to_owned();
            Finished {
                status: None,
                output,
            }
            .last_line()
        };
        let rust = "thread 'main' panicked at a.rs:1:1:\nno page\nnote: run with `RUST_BACKTRACE=1` environment variable";
        assert_eq!(last_line(rust), "no page");
        let go = "open\npanic: no page\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:5 +0x1d\nexit status 2\n";
        assert_eq!(last_line(go), "panic: no page");
    }
}
