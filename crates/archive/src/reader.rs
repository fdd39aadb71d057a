//! Reading of the log in the archive, part by part.

use crate::bucket::{Bucket, Performed, panicked};
use crate::error::{Error, Result};
use crate::format::StoredLog;
use crate::key::{Epoch, Key};
use crate::object::Object;
use crate::piece::Piece;
use crate::protocol::{self, Part, Reading, Request};
use logforce::Lsn;
use std::collections::{HashMap, VecDeque};
use tokio::task::JoinSet;

/// Part of the log that was read.
#[expect(clippy::large_enum_variant, reason = "each is taken apart at once")]
pub(crate) enum ReadPart {
    /// The log begins here. What was read before is to be thrown away: it was pruned meanwhile.
    Start(Lsn),
    /// The next piece, and the object that held it. It begins at the end of the one before.
    Piece(Key, Piece),
}

/// Reader of the log, which reads ahead.
pub(crate) struct LogReader {
    bucket: Bucket,
    reading: Reading,
    open: JoinSet<(Request, Performed)>,
    bodies: HashMap<Key, StoredLog>,
    /// Damage of objects that were read ahead.
    damage: HashMap<Key, Error>,
    parts: VecDeque<Part>,
    /// End of what was returned, or the start.
    at: Option<Lsn>,
}

impl LogReader {
    pub(crate) fn new(bucket: &Bucket, reading: Reading) -> LogReader {
        LogReader {
            bucket: bucket.clone(),
            reading,
            open: JoinSet::new(),
            bodies: HashMap::new(),
            damage: HashMap::new(),
            parts: VecDeque::new(),
            at: None,
        }
    }

    /// Returns the end of the log that is being read, once it is known.
    pub(crate) fn goal(&self) -> Option<Lsn> {
        self.reading.goal()
    }

    /// Returns the place behind the last chunk that was read, and its epoch.
    pub(crate) fn next_place(&self) -> Option<(Epoch, protocol::Base)> {
        self.reading.next()
    }

    /// Returns the next part; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<ReadPart>> {
        loop {
            for request in self.reading.poll() {
                let bucket = self.bucket.clone();
                // The scan needs headers only, and ends behind damaged bytes too.
                let whole = matches!(&request, Request::Get(key) if self.reading.wants(key));
                self.open.spawn(async move {
                    let answer = bucket.perform(&request, None, whole).await;
                    (request, answer)
                });
            }
            self.parts.extend(self.reading.parts());
            if let Some(part) = self.parts.pop_front() {
                return self.take(part).map(Some);
            }
            // The others have nothing new.
            self.bodies.retain(|key, _| self.reading.wants(key));
            match self.reading.outcome() {
                None => {}
                Some(Ok(_)) => return Ok(None),
                Some(Err(error)) => {
                    let damage = match error {
                        protocol::Error::Misplaced { key } => self.damage.remove(key),
                        _ => None,
                    };
                    return Err(damage.unwrap_or_else(|| error.clone().into()));
                }
            }
            match self.open.join_next().await {
                Some(Ok((request, answer))) => match (&request, answer) {
                    (Request::Get(key), Err(error @ Error::Object(_)))
                        if self.reading.note_damage(key) =>
                    {
                        self.damage.insert(key.clone(), error);
                    }
                    (_, answer) => {
                        let (answer, body) = answer?;
                        if let (Request::Get(key), Some(body)) = (&request, body) {
                            self.bodies.insert(key.clone(), body);
                        }
                        self.reading.answer(&request, answer);
                    }
                },
                Some(Err(error)) => return Err(panicked(error)),
                None => return Err(Error::Invalid("the reading has stopped".to_owned())),
            }
        }
    }

    fn take(&mut self, part: Part) -> Result<ReadPart> {
        let (object, from, to, time) = match part {
            Part::Start(lsn) => {
                // The first piece may begin below.
                self.at = Some(lsn);
                return Ok(ReadPart::Start(lsn));
            }
            Part::Chunk(chunk) => (Object::Chunk(chunk), chunk.from, chunk.to, Some(chunk.time)),
            Part::Segment(segment) => (Object::Segment(segment), segment.from, segment.to, None),
        };
        let key = object.key();
        let Some(stored) = self.bodies.remove(&key) else {
            return Err(Error::Invalid(format!("the bytes of {key} were not read")));
        };
        let mut piece = Piece::of_stored(from, to, time, stored);
        piece.chunk = Some(key.clone()).filter(|key| matches!(key, Key::Place { .. }));
        let piece = match self.at {
            Some(at) if from < at => piece.starting_at(at),
            _ => piece,
        };
        self.at = Some(to);
        Ok(ReadPart::Piece(key, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Archive, ArchiveOptions, runtime};
    use crate::attach::AttachOptions;
    use logforce::{Guarantee, Options, Policy};

    /// A reading that begins at the end of the archive kept all chunks.
    #[test]
    fn the_bytes_of_a_chunk_without_anything_new_are_dropped() {
        let home = tempfile::tempdir_in(".").unwrap();
        let path = home.path().join("bucket");
        std::fs::create_dir(&path).unwrap();
        let archive = Archive::open(path.to_str().unwrap(), ArchiveOptions::default()).unwrap();
        let options = Options::new().require(Guarantee::ProcessCrash);
        let log = logforce::create_new(home.path().join("log"), options).unwrap();
        let options = AttachOptions::new().synchronous();
        let attached = archive.attach(&log, options).unwrap();
        for _ in 0..20 {
            log.commit_with(b"sale", Policy::Replicated).unwrap();
        }
        attached.close().unwrap();
        let end = archive.list().unwrap().end.unwrap();
        runtime().unwrap().block_on(async {
            let bucket = archive.existing().await.unwrap();
            let mut reader = LogReader::new(&bucket, Reading::new(None, 8).starting_at(end));
            while reader.next().await.unwrap().is_some() {}
            assert_eq!(reader.bodies.len(), 0);
        });
    }
}
