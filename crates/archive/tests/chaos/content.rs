//! Records of the nodes. A record follows from its name, so that a check needs only the name.

use std::fmt;

/// Name of a record: the process, the thread in it, and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub node: u64,
    pub thread: u64,
    pub number: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.node, self.thread, self.number)
    }
}

impl Id {
    pub fn parse(text: &str) -> Option<Id> {
        let mut parts = text.split('/').map(|part| part.parse().ok());
        let mut next = || parts.next().flatten();
        let (node, thread, number) = (next()?, next()?, next()?);
        Some(Id {
            node,
            thread,
            number,
        })
    }

    /// Returns the bytes of the record: mostly some hundred, sometimes many, so that segments fill. A few are so
    /// large that the store copies their chunk.
    pub fn record(self) -> Vec<u8> {
        let seed = (self.node << 40) ^ (self.thread << 32) ^ self.number;
        let mut random = fastrand::Rng::with_seed(seed);
        let len = match random.u8(..) % 128 {
            0 => 140_000,
            1..=15 => random.usize(4_000..20_000),
            _ => random.usize(..400),
        };
        let mut record = format!("{self} ").into_bytes();
        record.extend(std::iter::repeat_with(|| random.u8(..)).take(len));
        record
    }

    /// Returns the name of a record that is there; `None` if its bytes are not those of its name.
    pub fn of(record: &[u8]) -> Option<Id> {
        let end = record.iter().position(|byte| *byte == b' ')?;
        let id = Id::parse(std::str::from_utf8(&record[..end]).ok()?)?;
        (id.record() == record).then_some(id)
    }
}
