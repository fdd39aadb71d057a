//! What the subject reports to the suite, by a call that nothing else in it makes.

use crate::ledger::Entry;
use serde::{Deserialize, Serialize};

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// It was promised something, or is about to do it.
    Entry(Entry),
    /// The log is open.
    Opened {
        /// The guarantee's rank.
        guarantee: u64,
        /// By which method.
        method: String,
    },
    /// A repair has cut the log, or given up its metadata: for this damage.
    Cut(String),
    /// The log, or a reader, answered with an error.
    Failed {
        /// When it was asked for what.
        doing: String,
        /// The error's kind.
        kind: String,
        /// Its text.
        text: String,
    },
    /// It was given something that cannot be.
    Wrong(String),
    /// It did everything that it was to do.
    Done,
}

impl Message {
    /// An error.
    pub fn failed(doing: &str, error: &logforce::Error) -> Message {
        Message::Failed {
            doing: doing.to_owned(),
            kind: format!("{:?}", error.kind()),
            text: error.to_string(),
        }
    }

    /// Sends it: the message stays, whatever happens to this process afterwards.
    ///
    /// # Panics
    /// If it cannot be sent: nothing that follows would mean anything.
    pub fn send(&self) {
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

/// Sends an entry.
pub fn send_entry(entry: Entry) {
    Message::Entry(entry).send();
}

/// All messages in the output; a line that a kill cut short is none.
pub fn messages_in(output: &[u8]) -> Vec<Message> {
    let lines = output.split(|b| *b == b'\n');
    lines
        .filter_map(|l| serde_json::from_slice(l).ok())
        .collect()
}

/// The entries, for the comparison.
pub fn entries(messages: &[Message]) -> Vec<Entry> {
    messages
        .iter()
        .filter_map(|m| match m {
            Message::Entry(entry) => Some(*entry),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Kind;

    #[test]
    fn half_a_line_is_no_message() {
        let all = [
            Message::Entry(Entry::range(Kind::Acked, 5, 9)),
            Message::Wrong("x".to_owned()),
            Message::Done,
        ];
        let lines: Vec<String> = all
            .iter()
            .map(|s| serde_json::to_string(s).unwrap() + "\n")
            .collect();
        let text = lines.concat();
        assert_eq!(messages_in(text.as_bytes()), all);
        assert_eq!(messages_in(&text.as_bytes()[..text.len() - 3]), all[..2]);
        assert_eq!(entries(&all)[0].end, 9);
    }
}
