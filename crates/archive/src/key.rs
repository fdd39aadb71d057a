//! Names of the objects of an archive, below the archive's URL.
//!
//! ```text
//! archive                       identity: format version, log id, encryption; created once
//! e/EPOCH/PLACE                 chunk of the log, or the seal of the epoch; created once, never replaced
//! f/EPOCH/PLACE-LSN             floor of an epoch: places below do not count; the log below LSN is elsewhere
//! s/FROM-TO                     a whole segment, which replaces the chunks that it contains; created once
//! m/NAME                        mark: a name for a position; created once
//! p/LSN                         pruned: the log below LSN was deleted on purpose
//! b/LSN-RANDOM                  base copy of a page file that needs the log from LSN on; created once, last
//! d/LSN-RANDOM/NUMBER           part of that base copy; created once
//! hint                          newest known epoch; replaced at will; decides nothing
//! ```
//!
//! Numbers have 20 decimal digits, so that the order of the names is the order of the numbers. Floors and
//! `p/` are create-only objects of which the largest counts: a put that arrives late cannot move them back.

use logforce::Lsn;
use std::fmt;

/// Position in the sequence of the writers of an archive: each opening for writing takes the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Epoch(pub u64);

/// Name of a base copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BaseId {
    /// Position from which on the copy needs the log.
    pub lsn: Lsn,
    /// Random number, since several copies may need the log from one position on.
    pub random: u64,
}

/// Name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Key {
    /// Identity of the archive.
    Identity,
    /// Chunk, or seal, at a place of an epoch.
    Place {
        /// Writer.
        epoch: Epoch,
        /// Number within the epoch, from 0.
        place: u64,
    },
    /// Floor of an epoch.
    Floor {
        /// Epoch whose floor it is.
        epoch: Epoch,
        /// Lowest place that counts.
        place: u64,
        /// Start of the chunk at that place.
        lsn: Lsn,
    },
    /// Whole segment.
    Segment {
        /// First byte of the log in it.
        from: Lsn,
        /// Exclusive end.
        to: Lsn,
    },
    /// Mark with a name.
    Mark(String),
    /// Exclusive end of what was deleted on purpose.
    Pruned(Lsn),
    /// Base copy of a page file.
    Base(BaseId),
    /// Part of a base copy.
    Part {
        /// Base copy.
        base: BaseId,
        /// Number within the copy, from 0.
        number: u64,
    },
    /// Newest known epoch.
    Hint,
}

/// Maximum length of an owner's name in bytes.
pub const MAX_OWNER_LEN: usize = 1024;
/// Longest name of a mark, bytes.
pub const MAX_MARK_LEN: usize = 100;

/// Returns true if a mark may have this name: letters, digits, `-`, `_` and `.`, not first a `.`.
pub fn is_mark_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=MAX_MARK_LEN).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('.')
}

impl Key {
    /// Returns the key of a name below the archive's URL; `None` for an object that is not the archive's.
    pub fn parse(name: &str) -> Option<Key> {
        let key = match name.split_once('/') {
            None => match name {
                "archive" => Key::Identity,
                "hint" => Key::Hint,
                _ => return None,
            },
            Some(("e", rest)) => {
                let (epoch, place) = rest.split_once('/')?;
                Key::Place {
                    epoch: Epoch(number(epoch)?),
                    place: number(place)?,
                }
            }
            Some(("f", rest)) => {
                let (epoch, rest) = rest.split_once('/')?;
                let (place, lsn) = rest.split_once('-')?;
                Key::Floor {
                    epoch: Epoch(number(epoch)?),
                    place: number(place)?,
                    lsn: Lsn(number(lsn)?),
                }
            }
            Some(("s", rest)) => {
                let (from, to) = rest.split_once('-')?;
                Key::Segment {
                    from: Lsn(number(from)?),
                    to: Lsn(number(to)?),
                }
            }
            Some(("m", name)) if is_mark_name(name) => Key::Mark(name.to_owned()),
            Some(("p", lsn)) => Key::Pruned(Lsn(number(lsn)?)),
            Some(("b", base)) => Key::Base(base_id(base)?),
            Some(("d", rest)) => {
                let (base, part) = rest.split_once('/')?;
                Key::Part {
                    base: base_id(base)?,
                    number: number(part)?,
                }
            }
            _ => return None,
        };
        Some(key)
    }
}

fn base_id(name: &str) -> Option<BaseId> {
    let (lsn, random) = name.split_once('-')?;
    Some(BaseId {
        lsn: Lsn(number(lsn)?),
        random: number(random)?,
    })
}

fn number(digits: &str) -> Option<u64> {
    let is_whole = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    is_whole.then(|| digits.parse().ok()).flatten()
}

impl fmt::Display for BaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:020}", self.lsn.0, self.random)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Identity => f.write_str("archive"),
            Key::Hint => f.write_str("hint"),
            Key::Place { epoch, place } => write!(f, "e/{:020}/{place:020}", epoch.0),
            Key::Floor { epoch, place, lsn } => {
                write!(f, "f/{:020}/{place:020}-{:020}", epoch.0, lsn.0)
            }
            Key::Segment { from, to } => write!(f, "s/{:020}-{:020}", from.0, to.0),
            Key::Mark(name) => write!(f, "m/{name}"),
            Key::Pruned(lsn) => write!(f, "p/{:020}", lsn.0),
            Key::Base(base) => write!(f, "b/{base}"),
            Key::Part { base, number } => write!(f, "d/{base}/{number:020}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back() {
        let keys = [
            Key::Identity,
            Key::Hint,
            Key::Place {
                epoch: Epoch(3),
                place: u64::MAX,
            },
            Key::Floor {
                epoch: Epoch(0),
                place: 7,
                lsn: Lsn(1 << 40),
            },
            Key::Segment {
                from: Lsn(0),
                to: Lsn(64 << 20),
            },
            Key::Mark("before-upgrade_2.1".to_owned()),
            Key::Pruned(Lsn(9)),
            Key::Base(BaseId {
                lsn: Lsn(7),
                random: u64::MAX,
            }),
            Key::Part {
                base: BaseId {
                    lsn: Lsn(7),
                    random: 0,
                },
                number: 3,
            },
        ];
        for key in keys {
            assert_eq!(Key::parse(&key.to_string()), Some(key));
        }
    }

    #[test]
    fn other_names_are_not_the_archives() {
        let names = [
            "",
            "e",
            "e/1/2",
            "e/00000000000000000001",
            "m/",
            "m/.hidden",
            "m/a/b",
            "hint/",
            "x/1",
            "e/99999999999999999999/00000000000000000000",
            "p/+0000000000000000001",
            "archive.tmp",
        ];
        for name in names {
            assert_eq!(Key::parse(name), None, "{name}");
        }
    }
}
