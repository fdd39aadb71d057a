//! Power cuts on the user's machine. A witness on another machine records the acknowledged commits. After the
//! restart a check compares them with the contents of the log.
//!
//! A *run* is a directory, a method and rounds. A *round* is [`write`](fn@write) until the plug is pulled,
//! and [`check`](fn@check) after the restart.
//!
//! - The first rounds are the *control phase*: they write by a method that is known to be unsafe. It must
//!   lose something. Otherwise the run cannot detect loss and proves nothing.
//! - In the *measured* rounds the log commits by the tested method. A small unforced file beside it, the
//!   *canary*, must lose something. Otherwise there was no power cut.
//!
//! `docs/decisions/0015-powercut-command.md` explains this design.

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

/// Default port of a witness.
pub const PORT: u16 = 7133;

/// Identifier of a run.
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
            .ok_or_else(|| format!("'{text}' is not a run ID: expected 32 hexadecimal digits"))
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

/// An error, whose message names the cause, the place and the remedy.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CutError {
    /// The state of the directory, the run or the round does not allow the operation.
    #[error("{0}")]
    Refused(String),
    /// The witness cannot be reached, or refuses the request.
    #[error("{0}")]
    Witness(String),
    /// The log refused or failed.
    #[error(transparent)]
    Log(#[from] logforce::Error),
    /// A call of the system failed.
    #[error("{what}: {cause}")]
    Io {
        /// Operation and its object.
        what: String,
        /// Error of the system.
        cause: std::io::Error,
    },
}

/// Prints the message, because `unwrap` and a `main` that returns the error print it by `Debug`.
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

/// Returns the identifier of this boot of the system, or an empty text on systems without one (Linux has
/// one). It shows if the machine was restarted.
pub fn boot() -> String {
    // Excludes Windows programs under Wine, which shows the files of the system below it.
    if !cfg!(target_os = "linux") {
        return String::new();
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map(|t| t.trim().chars().take(64).collect())
        .unwrap_or_default()
}

/// Formats a number with a noun: `1 commit`, `2 commits`.
fn count(n: u64, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}
