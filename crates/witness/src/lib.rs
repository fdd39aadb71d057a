//! Power cuts on the user's own machine: what was acknowledged to a witness on another machine is
//! compared with what is there afterwards.
//!
//! A *run* is a directory, a method and rounds. A *round* is [`write`](fn@write) until the plug is
//! pulled and [`check`](fn@check) after the restart. The first rounds are the *control phase*: a
//! writer by a method that is known to be unsafe has to lose something, else the run cannot see loss
//! and says nothing. In the *measured* rounds after it the log commits by the method in question, and
//! beside it a small unforced file, the *canary*, has to lose something, else there was no cut.
//!
//! `docs/decisions/0015-powercut-command.md` says why it is done so.

#![forbid(unsafe_code)]

mod canary;
pub mod check;
pub mod client;
mod compare;
mod ledger;
mod load;
mod record;
mod run_dir;
mod server;
mod store;
mod verdict;
mod wire;
pub mod write;

pub use check::{Check, Checked, check};
pub use ledger::Totals;
pub use ledger::{Control, Phase, Round, RoundOutcome, RoundState, State, Subject};
pub use run_dir::RunDir;
pub use server::{Serving, Witness};
pub use verdict::{Conclusion, Judgement};
pub use write::{Ended, Started, Write, Written, write};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The port where a witness listens if none is named.
pub const PORT: u16 = 7133;

/// Identifies a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub u128);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for RunId {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_id = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        u128::from_str_radix(text, 16)
            .ok()
            .filter(|_| is_id)
            .map(RunId)
            .ok_or_else(|| format!("'{text}' is no run: it has 32 hexadecimal digits"))
    }
}

impl Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What went wrong, where, and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CutError {
    /// Something about the directory, the run or the round speaks against it.
    #[error("{0}")]
    Refused(String),
    /// The witness cannot be reached, or says no.
    #[error("{0}")]
    Witness(String),
    /// The log refused or failed.
    #[error(transparent)]
    Log(#[from] logforce::Error),
    /// The system refused something.
    #[error("{what}: {cause}")]
    Io {
        /// What was being done, and to what.
        what: String,
        /// The system's answer.
        cause: std::io::Error,
    },
}

/// The message: what `unwrap` and an error of `main` print.
impl fmt::Debug for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl CutError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> CutError {
        let what = what.into();
        move |cause| CutError::Io { what, cause }
    }

    fn refused(why: impl Into<String>) -> CutError {
        CutError::Refused(why.into())
    }
}

/// This boot of the system, where it has an identifier (Linux does): it shows whether the machine was
/// restarted.
pub fn boot() -> String {
    // Not under Wine, which shows the files of the system below it.
    if !cfg!(target_os = "linux") {
        return String::new();
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map(|t| t.trim().chars().take(64).collect())
        .unwrap_or_default()
}

/// `1 commit`, `2 commits`.
fn count(n: u64, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}
