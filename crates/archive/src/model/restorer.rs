//! Restorer of the model: a shipped reading, with the bytes that its driver keeps.

use super::bucket::{Bucket, Bytes};
use crate::key::Key;
use crate::protocol::{Answer, Error, Part, Reading, Request};
use logforce::Lsn;
use std::collections::BTreeMap;

/// Log on a machine, or as it was restored: the records from an LSN on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Log {
    /// LSN of the first record that is there.
    pub(super) from: u64,
    pub(super) records: Vec<u8>,
    /// Front: records below may be there, and do not count.
    pub(super) front: u64,
}

impl Log {
    pub(super) fn end(&self) -> u64 {
        self.from + self.records.len() as u64
    }

    pub(super) fn record(&self, lsn: u64) -> Option<u8> {
        let index = usize::try_from(lsn.checked_sub(self.from)?).ok()?;
        self.records.get(index).copied()
    }

    /// Returns the bytes of a range.
    pub(super) fn bytes(&self, from: Lsn, to: Lsn) -> Bytes {
        (from.0..to.0).filter_map(|lsn| self.record(lsn)).collect()
    }

    /// Removes the records from an LSN on.
    pub(super) fn cut(&mut self, end: u64) {
        self.records
            .truncate(end.saturating_sub(self.from) as usize);
    }
}

/// Reading in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Restorer {
    pub(super) reading: Reading,
    /// Bytes of answers whose parts are still to come.
    bytes: BTreeMap<Key, Bytes>,
    pub(super) start: u64,
    pub(super) log: Log,
    /// Front in the last chunk.
    pub(super) chunk_front: Option<u64>,
}

impl Restorer {
    pub(super) fn new(target: Option<Lsn>) -> Restorer {
        Restorer {
            reading: Reading::new(target, 2),
            bytes: BTreeMap::new(),
            start: 0,
            log: Log::default(),
            chunk_front: None,
        }
    }

    /// Takes an answer. Fails if the reading returns bytes that do not follow each other.
    pub(super) fn answer(
        &mut self,
        request: &Request,
        answer: Answer,
        bytes: Bytes,
    ) -> Result<(), String> {
        if let (Request::Get(key), Answer::Found(_)) = (request, &answer)
            && !bytes.is_empty()
        {
            self.bytes.insert(key.clone(), bytes);
        }
        self.reading.answer(request, answer);
        for part in self.reading.parts() {
            match part {
                Part::Start(lsn) => {
                    self.start = lsn.0;
                    self.log = Log::default();
                    self.chunk_front = None;
                }
                Part::Chunk(chunk) => {
                    let (epoch, place) = (chunk.epoch, chunk.place);
                    self.chunk_front = Some(chunk.front.0);
                    self.append(&Key::Place { epoch, place }, chunk.from, chunk.to)?;
                }
                Part::Segment(segment) => {
                    let (from, to) = (segment.from, segment.to);
                    self.append(&Key::Segment { from, to }, from, to)?;
                }
            }
        }
        if self.reading.outcome().is_some() {
            self.bytes.clear();
        }
        Ok(())
    }

    fn append(&mut self, key: &Key, from: Lsn, to: Lsn) -> Result<(), String> {
        let bytes = self.bytes.remove(key).unwrap_or_default();
        if bytes.len() as u64 != to.0 - from.0 {
            return Err(format!("{key} has the bytes of other LSNs"));
        }
        if self.log.records.is_empty() {
            self.log.from = from.0;
        }
        if from.0 > self.log.end() || (self.log.records.is_empty() && from.0 > self.start) {
            return Err(format!("gap below {key}"));
        }
        for (lsn, record) in (from.0..).zip(bytes.iter()) {
            match self.log.record(lsn) {
                None if lsn >= self.log.from => self.log.records.push(*record),
                Some(there) if there != *record => {
                    return Err(format!("{key} has another record at {lsn}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Restores a bucket that does not change. `None` if it has no archive.
pub(super) fn restore(bucket: &Bucket) -> Result<Option<Restorer>, String> {
    let mut restorer = Restorer::new(None);
    // More than any bucket of the bounds takes.
    for _ in 0..1000 {
        match restorer.reading.outcome() {
            Some(Ok(_)) => return Ok(Some(restorer)),
            Some(Err(Error::NoArchive)) => return Ok(None),
            Some(Err(error)) => return Err(format!("a restorer fails: {error}")),
            None => {}
        }
        for request in restorer.reading.poll() {
            let (answer, bytes) = bucket.answer(&request);
            restorer.answer(&request, answer, bytes)?;
        }
    }
    Err("a restorer does not end".to_owned())
}
