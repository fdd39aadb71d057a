//! What the subject reports to the suite, by a call that nothing else in it makes.

use crate::ledger::Entry;
use serde::{Deserialize, Serialize};

/// One thing that it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// It was promised something, or is about to do it.
    Did(Entry),
    /// The log is open.
    Opened {
        /// The guarantee's rank.
        guarantee: u64,
        /// By which method.
        method: String,
        /// What the opening says was lost.
        lost: Option<String>,
    },
    /// The log, or a reader, answered with an error.
    Erred {
        /// When it was asked for what.
        doing: String,
        /// The error's kind.
        kind: String,
        /// What it says.
        text: String,
    },
    /// It was given something that cannot be.
    Wrong(String),
    /// It did everything that it was to do.
    Done,
}

impl Said {
    /// An error.
    pub fn erred(doing: &str, error: &logforce::Error) -> Said {
        Said::Erred {
            doing: doing.to_owned(),
            kind: format!("{:?}", error.kind()),
            text: error.to_string(),
        }
    }

    /// Reports it: the report stays, whatever happens to this process afterwards.
    ///
    /// # Panics
    /// If it cannot be reported: nothing that follows would mean anything.
    pub fn tell(&self) {
        let mut line = serde_json::to_vec(self).expect("it can be written");
        line.push(b'\n');
        let mut left = line.as_slice();
        while !left.is_empty() {
            let flags = rustix::net::SendFlags::NOSIGNAL;
            let sent = rustix::net::send(rustix::stdio::stdout(), left, flags);
            left = &left[sent.expect("the suite listens")..];
        }
    }
}

/// Reports an entry.
pub fn did(entry: Entry) {
    Said::Did(entry).tell();
}

/// Everything that was said; a line that a kill cut short is none.
pub fn heard(output: &[u8]) -> Vec<Said> {
    let lines = output.split(|b| *b == b'\n');
    lines
        .filter_map(|l| serde_json::from_slice(l).ok())
        .collect()
}

/// The entries, for the comparison.
pub fn entries(said: &[Said]) -> Vec<Entry> {
    said.iter()
        .filter_map(|s| match s {
            Said::Did(entry) => Some(*entry),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Kind;

    #[test]
    fn half_a_line_is_not_heard() {
        let all = [
            Said::Did(Entry::range(Kind::Acked, 5, 9)),
            Said::Wrong("x".to_owned()),
            Said::Done,
        ];
        let lines: Vec<String> = all
            .iter()
            .map(|s| serde_json::to_string(s).unwrap() + "\n")
            .collect();
        let text = lines.concat();
        assert_eq!(heard(text.as_bytes()), all);
        assert_eq!(heard(&text.as_bytes()[..text.len() - 3]), all[..2]);
        assert_eq!(entries(&all)[0].end, 9);
    }
}
