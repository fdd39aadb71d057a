//! The process that reads a log while others write it.

use crate::ledger::{Entry, Kind, LedgerWriter};
use crate::subject::Identity;
use crate::subject::seam::{Fault, Faulty};
use anyhow::{Context, Result, bail};
use logforce::{
    Error, ErrorKind, Lsn, Position, ReadOnly, ReadOnlyFollower,
    inspect::{Inspector, Visit},
};
use logforce_testkit::Rng;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How a process reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum How {
    /// Follows, from the front on, through truncations, kills and openings.
    Follow,
    /// The same, so slowly that the front passes it.
    Lag,
    /// Opens it for reading and reads it to its end, again and again.
    Scan,
    /// Inspects it, again and again.
    Walk,
}

impl How {
    /// Whether it is to be shown everything.
    pub fn follows(self) -> bool {
        matches!(self, How::Follow | How::Lag)
    }
}

/// What a reader is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The log's directory.
    pub dir: PathBuf,
    /// Where it records what it is shown.
    pub ledger: PathBuf,
    /// As which thread.
    pub thread: usize,
    /// How it reads.
    pub how: How,
    /// What is wrong with its system.
    pub fault: Fault,
    /// It ends when this file is there.
    pub stop: PathBuf,
    /// Of everything random.
    pub seed: u64,
}

/// How often a follower of a kind that lags does so before it ends.
const LAGS: u32 = 4;

/// What the number of a shown record's owner is made of.
pub fn owner(session: u64, thread: u64) -> u64 {
    session << 8 | thread
}

/// Start of a follower.
#[derive(Debug)]
enum Begin {
    Lsn(Lsn),
    Position(Position),
}

struct Reader<'a> {
    reading: &'a Reading,
    system: Faulty,
    ledger: LedgerWriter,
    rng: Rng,
    /// How often it may still let the front pass.
    lags: u32,
}

/// Reads until the suite stops it.
///
/// # Errors
/// What a reader must never be shown or get as an error: the suite looks for that.
pub fn role_read(json: &str) -> Result<()> {
    let reading: Reading = serde_json::from_str(json)?;
    let mut reader = Reader {
        system: Faulty::new(reading.fault),
        ledger: LedgerWriter::open(&reading.ledger, reading.thread).context("the ledger")?,
        rng: Rng::new(reading.seed),
        reading: &reading,
        lags: LAGS,
    };
    match reading.how {
        How::Follow | How::Lag => reader.follow(),
        How::Scan => reader.repeat(Reader::scan),
        How::Walk => reader.repeat(Reader::walk),
    }
}

impl Reader<'_> {
    fn continues(&self) -> bool {
        !self.ledger.is_nearly_full() && !self.reading.stop.exists()
    }

    fn shown(&mut self, record: &logforce::Record) -> Result<Identity> {
        let id = authentic(record)?;
        self.ledger.put(Entry {
            sequence: id.sequence,
            guarantee: owner(id.session, id.thread),
            ..Entry::range(Kind::Shown, record.start.0, record.end.0)
        });
        Ok(id)
    }

    fn follow(&mut self) -> Result<()> {
        let mut at: Option<Begin> = None;
        while self.continues() {
            let log = match ReadOnly::open(&self.system, &self.reading.dir) {
                Ok(log) => log,
                // Not made yet.
                Err(e) if e.kind() == ErrorKind::NoLog && at.is_none() => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Err(e) => return Err(e).context("opening for reading"),
            };
            let from = at.take().unwrap_or(Begin::Lsn(log.front_lsn()));
            let begun = match &from {
                Begin::Lsn(lsn) => log.follow_lsn(*lsn),
                Begin::Position(position) => log.follow(position),
            };
            at = Some(match begun {
                Ok(follower) => self.follow_on(follower)?,
                Err(e) => self
                    .expected_error(&e)
                    .context(format!("following from {from:?}"))?,
            });
        }
        Ok(())
    }

    /// What a follower shows until it ends, or is given up. Answers where the next one begins.
    fn follow_on(&mut self, mut follower: ReadOnlyFollower) -> Result<Begin> {
        let mut group = Group::default();
        while self.continues() {
            match follower.try_next() {
                Ok(Some(record)) => {
                    let id = self.shown(&record)?;
                    group.next(id)?;
                    if self.reading.how == How::Lag && self.lags > 0 && self.rng.one_in(100) {
                        self.lags -= 1;
                        self.wait_for_front(record.end);
                    }
                    // A reader may die as well, and go on later where it was.
                    if self.rng.one_in(150) && group.left == 0 {
                        return Ok(Begin::Position(follower.position()));
                    }
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(e @ Error::Voided { .. }) => {
                    group = Group::default();
                    self.expected_error(&e)?;
                }
                Err(e) => return self.expected_error(&e),
            }
        }
        Ok(Begin::Position(follower.position()))
    }

    /// Waits for the front to move above `at`, unless no writer moves it any more.
    fn wait_for_front(&self, at: Lsn) {
        let until = Instant::now() + Duration::from_secs(2);
        while self.continues() && Instant::now() < until {
            let log = ReadOnly::open(&self.system, &self.reading.dir);
            if log.is_ok_and(|log| log.front_lsn() > at) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Records an error that a reader has to expect, and returns where to continue; the others fail.
    fn expected_error(&mut self, e: &Error) -> Result<Begin> {
        match e {
            Error::Voided { from, to, .. } => {
                self.ledger.put(Entry::range(Kind::Voided, from.0, to.0));
                Ok(Begin::Lsn(*from))
            }
            Error::Truncated { front, .. } => {
                self.ledger
                    .put(Entry::range(Kind::Passed, front.0, front.0));
                Ok(Begin::Lsn(*front))
            }
            e => bail!("a reader got an error: {e}"),
        }
    }

    fn repeat(&mut self, read: fn(&mut Self) -> Result<u64>) -> Result<()> {
        while self.continues() {
            let records = read(self)?;
            self.ledger.put(Entry {
                sequence: records,
                ..Entry::of(Kind::Closing)
            });
            std::thread::sleep(Duration::from_micros(self.rng.below(3000)));
        }
        Ok(())
    }

    /// Reads everything once. The front may pass it, and the end may be voided.
    fn scan(&mut self) -> Result<u64> {
        let log = ReadOnly::open(&self.system, &self.reading.dir).context("opening for reading")?;
        let (front, durable) = (log.front_lsn(), log.durable_lsn());
        let expected = |e: Error| match e.kind() {
            ErrorKind::Truncated | ErrorKind::Voided => Ok(()),
            _ => Err(anyhow::Error::new(e).context("reading")),
        };
        let reader = match log.read_from(front) {
            Ok(reader) => reader,
            Err(e) => return expected(e).map(|()| 0),
        };
        let (mut records, mut end, mut group) = (0, front, Group::default());
        for record in reader {
            let record = match record {
                Ok(record) => record,
                Err(e) => return expected(e).map(|()| records),
            };
            if record.start < end || record.end > durable {
                bail!(
                    "shown {}..{} behind {end}, of a log durable up to {durable}",
                    record.start,
                    record.end
                );
            }
            end = record.end;
            group.next(authentic(&record)?)?;
            records += 1;
            // Enough of them to be compared.
            if records % 32 == 1 {
                self.shown(&record)?;
            }
        }
        Ok(records)
    }

    /// Inspects everything once.
    fn walk(&mut self) -> Result<u64> {
        let look = Inspector::open(&self.system, &self.reading.dir).context("opening to look")?;
        let mut wrong = None;
        let mut records = 0;
        look.walk(&mut |visit| {
            match visit {
                Visit::Record { record, .. } => {
                    records += 1;
                    wrong = authentic(record).err().map(|e| e.to_string());
                }
                Visit::Damage(d) => wrong = Some(format!("damage where there is none: {d}")),
                Visit::Batch(_) | Visit::Part(_) => {}
            }
            wrong.is_none()
        })
        .context("walking")?;
        match wrong {
            Some(wrong) => bail!("inspecting: {wrong}"),
            None => Ok(records),
        }
    }
}

fn authentic(record: &logforce::Record) -> Result<Identity> {
    Identity::read(&record.data)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("shown at LSN {}", record.start))
}

/// Records that were appended atomically are shown together.
#[derive(Debug, Default)]
struct Group {
    last: Option<Identity>,
    /// Records of the group that have to follow.
    left: u64,
}

impl Group {
    fn next(&mut self, id: Identity) -> Result<()> {
        if let Some(last) = self.last.filter(|_| self.left > 0) {
            let expected = Identity {
                sequence: last.sequence + 1,
                ..last
            };
            if id != expected {
                bail!("{id:?} was shown amidst what is one: behind {last:?}");
            }
        } else if id.sequence != id.first {
            bail!("{id:?} was shown without what is one with it");
        }
        self.left = (id.first + id.count).saturating_sub(id.sequence + 1);
        self.last = Some(id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_whole() {
        let id = |sequence, first, count| Identity {
            session: 1,
            thread: 2,
            sequence,
            first,
            count,
        };
        let shown = |ids: &[Identity]| {
            let mut group = Group::default();
            ids.iter().try_for_each(|id| group.next(*id))
        };
        assert!(shown(&[id(0, 0, 1), id(1, 1, 2), id(2, 1, 2), id(3, 3, 1)]).is_ok());
        assert!(shown(&[id(2, 1, 2)]).is_err());
        assert!(shown(&[id(1, 1, 2), id(3, 3, 1)]).is_err());
    }
}
