//! Exit statuses: 0 done, 1 the answer is bad (damage, a loss, slower than accepted, not fit), 2 unusable
//! arguments, 3 nothing can be concluded, 4 failed, 130 interrupted.
//!
//! A script that checks logs every night must distinguish "damaged" from "the disk was not mounted". So a
//! directory that is missing, or is a file, ends every command with 4.

use crate::output::complain_always;
use std::io;
use std::process::ExitCode;

/// Outcome of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Everything was done.
    Done,
    /// The log or page file is damaged; that has been printed.
    Damaged,
    /// A disk or a setting gives less than was asked for; that has been printed.
    Unfit,
    /// The compared result is slower than accepted, or has no figure to compare; that has been printed.
    Slower,
    /// A crash test ended with this status; the result has been printed.
    #[cfg(target_os = "linux")]
    Status(u8),
    /// The result is inconclusive; that has been printed.
    Inconclusive,
    /// The user stopped it.
    Interrupted,
}

/// Exit status after Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Arguments that parse but cannot be used.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Damage that prevents any other report.
#[derive(Debug)]
pub struct Damaged(pub String);

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damaged {}

/// Prints an error, and returns the exit status of the process.
pub fn code(result: anyhow::Result<End>) -> ExitCode {
    match result {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Damaged | End::Slower | End::Unfit) => ExitCode::from(1),
        #[cfg(target_os = "linux")]
        Ok(End::Status(status)) => ExitCode::from(status),
        Ok(End::Inconclusive) => ExitCode::from(3),
        Ok(End::Interrupted) => ExitCode::from(INTERRUPTED),
        // The reader of the output has closed the pipe, because it needs no more.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            complain_always(&format!("error: {}", message(&e)));
            ExitCode::from(status(&e))
        }
    }
}

fn status(error: &anyhow::Error) -> u8 {
    let is_damage = |e: &(dyn std::error::Error + 'static)| {
        let log = e.downcast_ref::<logforce::Error>();
        let pages = e.downcast_ref::<logforce::pages::Error>();
        e.is::<Damaged>()
            || log.is_some_and(|e| e.kind() == logforce::ErrorKind::Damaged)
            || pages.is_some_and(|e| e.kind() == logforce::pages::ErrorKind::Damaged)
    };
    match error {
        e if e.is::<Usage>() => 2,
        e if e.chain().any(is_damage) => 1,
        _ => 4,
    }
}

/// Returns the error and its causes. Leaves out a cause that the text contains already, because many errors
/// name their cause.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        e.downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe || is_not_connected(e))
    })
}

/// Returns true for another error that Windows reports for a pipe whose reader is gone.
fn is_not_connected(e: &io::Error) -> bool {
    const ERROR_PIPE_NOT_CONNECTED: i32 = 233;
    cfg!(windows) && e.raw_os_error() == Some(ERROR_PIPE_NOT_CONNECTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn damage_is_one_thing_and_a_failed_look_another() {
        let io = || logforce::Error::Io {
            doing: "look at the place",
            path: "/x".into(),
            source: std::sync::Arc::new(io::Error::other("the disk is on fire")),
        };
        assert_eq!(status(&anyhow::anyhow!("no such log")), 4);
        assert_eq!(status(&anyhow::Error::new(io())), 4);
        assert_eq!(status(&Usage("no".into()).into()), 2);
        let damaged = anyhow::Error::new(Damaged("page 7".into()));
        assert_eq!(status(&damaged.context("cannot read x")), 1);
        let pages = logforce::pages::Error::Damaged {
            path: "/x".into(),
            what: "page 7".into(),
            offset: 0,
            found: "rubbish".into(),
        };
        assert_eq!(status(&anyhow::Error::new(pages)), 1);
    }

    #[test]
    fn a_cause_is_told_once() {
        let answer = || io::Error::other("the disk is on fire");
        let bare = Err::<(), _>(answer()).context("cannot read x");
        assert_eq!(
            message(&bare.unwrap_err()),
            "cannot read x: the disk is on fire"
        );
        let own = logforce::Error::Io {
            doing: "look at the place",
            path: "/x".into(),
            source: std::sync::Arc::new(answer()),
        };
        let own = anyhow::Error::new(own).context("nothing can be said");
        assert_eq!(
            message(&own),
            "nothing can be said: cannot look at the place /x: the disk is on fire"
        );
    }
}
