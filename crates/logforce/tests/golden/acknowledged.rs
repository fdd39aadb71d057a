//! Acknowledgements to the writer of a golden log, one per line, and the resulting expected contents.

use logforce::{Lsn, Record};
use std::fmt;

/// An answer of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The log was opened: writer, method and guarantee. There is nothing to check.
    Opened(String),
    /// A record was accepted, and is durable or at least written: position, length and CRC-32C.
    Record {
        start: Lsn,
        end: Lsn,
        len: u64,
        crc: u32,
    },
    /// This range is void.
    Voided(Lsn, Lsn),
    /// Records below this LSN are truncated.
    Front(Lsn),
    /// The metadata has this value.
    Meta(String),
}

impl Event {
    pub fn record(start: Lsn, end: Lsn, data: &[u8]) -> Event {
        Event::Record {
            start,
            end,
            len: data.len() as u64,
            crc: crc32c::crc32c(data),
        }
    }

    pub fn of(record: &Record) -> Event {
        Event::record(record.start, record.end, &record.data)
    }

    pub fn record_len(&self) -> Option<u64> {
        match self {
            Event::Record { len, .. } => Some(*len),
            _ => None,
        }
    }

    /// Returns the end of the record.
    pub fn end(&self) -> Option<Lsn> {
        match self {
            Event::Record { end, .. } => Some(*end),
            _ => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened(how) => write!(f, "opened {how}"),
            Event::Record {
                start,
                end,
                len,
                crc,
            } => write!(f, "record {} {} {len} {crc:08x}", start.0, end.0),
            Event::Voided(from, to) => write!(f, "voided {} {}", from.0, to.0),
            Event::Front(front) => write!(f, "front {}", front.0),
            Event::Meta(text) => write!(f, "meta {text}"),
        }
    }
}

/// Parses a line. Returns `None` if it is incomplete.
pub fn parse_line(line: &str) -> Option<Event> {
    let (what, rest) = line.split_once(' ')?;
    let words: Vec<&str> = rest.split(' ').collect();
    let number = |n: usize| words.get(n)?.parse::<u64>().ok();
    Some(match (what, words.len()) {
        ("opened", _) => Event::Opened(rest.to_owned()),
        ("record", 4) => Event::Record {
            start: Lsn(number(0)?),
            end: Lsn(number(1)?),
            len: number(2)?,
            crc: u32::from_str_radix(words[3], 16).ok()?,
        },
        ("voided", 2) => Event::Voided(Lsn(number(0)?), Lsn(number(1)?)),
        ("front", 1) => Event::Front(Lsn(number(0)?)),
        ("meta", _) => Event::Meta(rest.to_owned()),
        _ => return None,
    })
}

pub fn parse(text: &str) -> Vec<Event> {
    let event = |line| parse_line(line).unwrap_or_else(|| panic!("no event: {line}"));
    text.lines().map(event).collect()
}

pub fn print(events: &[Event]) -> String {
    events.iter().map(|e| format!("{e}\n")).collect()
}

/// Expected contents of a log.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Records, in order.
    pub records: Vec<Event>,
    pub voided: Vec<(Lsn, Lsn)>,
    pub front: Lsn,
    pub meta: Option<String>,
}

impl State {
    pub fn after(events: &[Event]) -> State {
        let mut state = State::default();
        for event in events {
            match event {
                Event::Opened(_) => {}
                Event::Record { .. } => state.records.push(event.clone()),
                Event::Voided(from, to) => {
                    let is_kept = |e: &Event| e.end().is_some_and(|end| end <= *from);
                    state.records.retain(is_kept);
                    state.voided.push((*from, *to));
                }
                Event::Front(front) => {
                    state.front = *front;
                    let is_kept =
                        |e: &Event| matches!(e, Event::Record { start, .. } if start >= front);
                    state.records.retain(is_kept);
                }
                Event::Meta(text) => state.meta = Some(text.clone()),
            }
        }
        state
    }
}
