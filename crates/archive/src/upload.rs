//! Upload: from the log to chunks, with several puts in flight, and from chunks to segments.

use crate::bucket::{Body, Bucket, Performed, blocking, panicked};
use crate::error::{Error, Result};
use crate::format::Encoder;
use crate::key::Key;
use crate::level::Level;
use crate::object::Object;
use crate::piece::Piece;
use crate::protocol::{Claimed, Request, Writer};
use crate::source::{Source, SourceState};
use crate::status::Shared;
use bytes::Bytes;
use logforce::Lsn;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Largest chunk that is read and encoded in the thread of the upload. To hand a smaller one to another thread
/// takes longer than the work.
const INLINE: u64 = 64 << 10;
/// Time after which a part of the log without a record is put alone. Otherwise an idle log would never be
/// archived to its end, and a commit without records would wait for that.
const REST: Duration = Duration::from_secs(5);

/// Settings of an upload.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Puts in flight.
    pub(crate) window: usize,
    /// Size of a chunk, bytes, at which it is put without a delay.
    pub(crate) chunk_size: u64,
    /// Time for which a smaller chunk waits for more.
    pub(crate) delay: Duration,
    /// Size of a segment of the second level, bytes.
    pub(crate) segment_size: u64,
}

/// Upload of one opening.
pub(crate) struct Upload {
    bucket: Bucket,
    source: Option<Source>,
    writer: Writer,
    settings: Settings,
    shared: Arc<Shared>,
    /// Chunks that are not confirmed, by place.
    flying: BTreeMap<u64, Flight>,
    puts: JoinSet<Put>,
    /// Part of the log that has no record yet, and when it was read. It is put with the next one.
    carry: Option<(Piece, Instant)>,
    /// Time at which bytes that are not put yet were first seen.
    since: Option<Instant>,
    /// End of what is still put, once the archive is to end. The writer may go on beyond it.
    goal: Option<Lsn>,
    level: Level,
    encoder: Encoder,
}

struct Flight {
    piece: Piece,
    object: Option<Bytes>,
}

/// End of a put or of a reading back.
struct Put {
    request: Request,
    answer: Performed,
    object: Option<Bytes>,
}

impl Upload {
    pub(crate) fn new(
        bucket: Bucket,
        source: Source,
        claimed: Claimed,
        settings: Settings,
        shared: Arc<Shared>,
    ) -> Result<Upload> {
        let encoder = bucket.codec()?.encoder();
        Ok(Upload {
            level: Level::new(bucket.clone(), claimed.first, settings.segment_size),
            writer: Writer::new(claimed, settings.window),
            bucket,
            source: Some(source),
            settings,
            shared,
            flying: BTreeMap::new(),
            puts: JoinSet::new(),
            carry: None,
            since: None,
            goal: None,
            encoder,
        })
    }

    /// Uploads until the log is closed, or `stop` is set and everything durable is there.
    pub(crate) async fn run(mut self, stop: watch::Receiver<bool>) -> Result<()> {
        let result = self.upload(stop).await;
        let end = match &result {
            Ok(()) => Error::Invalid("the archive was closed".to_owned()),
            Err(error) => Error::Invalid(error.to_string()),
        };
        if let Some(source) = self.source.take() {
            source.end(result.as_ref().err().unwrap_or(&end));
        }
        result
    }

    async fn upload(&mut self, mut stop: watch::Receiver<bool>) -> Result<()> {
        self.level.begin(&self.writer);
        let mut closed = None;
        loop {
            if self.goal.is_none() && (closed.is_some() || *stop.borrow()) {
                self.goal = match &mut self.source {
                    Some(source) => Some(source.settled().await?.end),
                    None => None,
                };
            }
            while self.take_chunk().await? {}
            self.send();
            self.note();
            if self.is_drained() {
                self.level.drain(&mut self.writer).await;
                return match closed {
                    Some(SourceState::Failed(error)) => Err(error.into()),
                    _ => Ok(()),
                };
            }
            let wants = self.wants().is_some();
            let waits = wants && self.goal.is_none() && self.since.is_none();
            let due = self.since.map(|since| since + self.settings.delay);
            let rested = self.carry.as_ref().map(|(_, since)| *since + REST);
            let due = due.into_iter().chain(rested).min();
            let due = due.filter(|_| self.goal.is_none());
            let Some(source) = &mut self.source else {
                return Ok(());
            };
            tokio::select! {
                Some(put) = self.puts.join_next() => self.put_ended(put.map_err(panicked)?)?,
                state = source.changed(), if waits => match state {
                    SourceState::Ready => self.since = Some(Instant::now()),
                    ended => closed = Some(ended),
                },
                () = sleep_until(due), if due.is_some() && wants => {}
                done = self.level.next() => self.level.ended(done, &mut self.writer)?,
                changed = stop.changed() => {
                    if changed.is_err() {
                        return Err(Error::Invalid("the archive was dropped".to_owned()));
                    }
                }
            }
        }
    }

    /// Returns the start of the next chunk, if there may be one now.
    fn wants(&self) -> Option<Lsn> {
        self.writer.wants().filter(|_| !self.level.is_behind())
    }

    /// Returns true if the archive is to end, and has everything up to the goal.
    fn is_drained(&self) -> bool {
        let position = self.source.as_ref().map_or(Lsn(0), Source::position);
        self.flying.is_empty() && self.goal.is_some_and(|goal| position >= goal)
    }

    /// Reads and offers a chunk, if one is due. Returns true if there may be another one.
    async fn take_chunk(&mut self) -> Result<bool> {
        let Some(from) = self.wants() else {
            return Ok(false);
        };
        let Some(source) = &self.source else {
            return Ok(false);
        };
        let position = source.position();
        if self.goal.is_some_and(|goal| position >= goal) {
            return Ok(false);
        }
        let pending = source.pending();
        let is_due = self
            .since
            .is_some_and(|since| since.elapsed() >= self.settings.delay);
        let has_rested = self
            .carry
            .as_ref()
            .is_some_and(|(_, since)| since.elapsed() >= REST);
        if self.goal.is_none() && !is_due && !has_rested && pending < self.settings.chunk_size {
            return Ok(false);
        }
        let chunk = self.read(pending).await?;
        let time = self.bucket.now();
        let Some(chunk) = chunk.map(|chunk| Piece::of_chunk(chunk, time)) else {
            self.since = None;
            // The rest is a part of an append that the log has not finished.
            self.goal = self.goal.map(|_| position);
            return Ok(match self.carry.take_if(|_| has_rested) {
                Some((carry, _)) => self.offer(carry, from)?,
                None => false,
            });
        };
        let piece = match self.carry.take() {
            Some((carry, _)) => carry.joined(chunk),
            None => chunk,
        };
        if piece.frames == 0 {
            self.carry = Some((piece, Instant::now()));
            return Ok(true);
        }
        self.offer(piece, from)
    }

    /// Offers a chunk that begins at `from` to the writer. Returns true: there may be another one.
    fn offer(&mut self, piece: Piece, from: Lsn) -> Result<bool> {
        let piece = piece.starting_at(from);
        let place = self.writer.next_place();
        let front = crate::level::first_segment(&piece.control)?;
        let time = piece.time.unwrap_or_else(|| self.bucket.now());
        self.writer.offer(piece.to, front, time);
        let object = None;
        self.flying.insert(place, Flight { piece, object });
        // Begins a delay for what has come since. Otherwise a busy log would have a put for each commit.
        let pending = self.source.as_ref().map_or(0, Source::pending);
        self.since = (pending > 0).then(Instant::now);
        Ok(true)
    }

    async fn read(&mut self, pending: u64) -> Result<Option<logforce::replica::LogChunk>> {
        let max = self.settings.chunk_size;
        if pending <= INLINE {
            return self.source.as_mut().map_or(Ok(None), |s| s.read(max));
        }
        let Some(mut source) = self.source.take() else {
            return Ok(None);
        };
        let (source, chunk) = blocking(move || {
            let chunk = source.read(max);
            (source, chunk)
        })
        .await?;
        self.source = Some(source);
        chunk
    }

    /// Sends the requests of the writer.
    fn send(&mut self) {
        for request in self.writer.poll() {
            let bucket = self.bucket.clone();
            let flight = match &request {
                Request::Create(Object::Chunk(chunk)) => self.flying.get(&chunk.place),
                _ => None,
            };
            let Some(flight) = flight else {
                self.puts.spawn(async move {
                    let answer = bucket.perform(&request, None, false).await;
                    let object = None;
                    Put {
                        request,
                        answer,
                        object,
                    }
                });
                continue;
            };
            let piece = flight.piece.clone();
            let mut made = flight.object.clone().map(Ok);
            if made.is_none() && (piece.log.len() as u64) <= INLINE {
                made = object_of(&request).map(|object| piece.encode(&mut self.encoder, object));
            }
            self.puts.spawn(put(bucket, request, piece, made));
        }
    }

    fn put_ended(&mut self, put: Put) -> Result<()> {
        let Put {
            request,
            answer,
            object,
        } = put;
        let (answer, _) = answer?;
        if let (Some(bytes), Request::Create(Object::Chunk(chunk))) = (object, &request)
            && let Some(flight) = self.flying.get_mut(&chunk.place)
        {
            flight.object = Some(bytes);
        }
        self.writer.answer(&request, answer);
        if let Some(error) = self.writer.error() {
            return Err(error.clone().into());
        }
        self.confirm()
    }

    /// Confirms to the log what is in the archive, and hands it to the second level.
    fn confirm(&mut self) -> Result<()> {
        let confirmed = self.writer.confirmed();
        let mut is_new = false;
        while let Some(first) = self.flying.first_entry()
            && first.get().piece.to <= confirmed
        {
            let epoch = self.writer.epoch();
            let key = Key::Place {
                epoch,
                place: *first.key(),
            };
            let mut piece = first.remove().piece;
            piece.chunk = Some(key);
            self.shared.note_chunk(&piece);
            self.level.add(piece);
            is_new = true;
        }
        if is_new && let Some(source) = &mut self.source {
            source.confirm(confirmed)?;
            self.level.go_on(&mut self.writer);
        }
        Ok(())
    }

    fn note(&self) {
        let read = self.flying.values().next_back();
        let read = read.map_or(self.writer.confirmed(), |flight| flight.piece.to);
        let durable = match &self.source {
            Some(source) if source.pending() > 0 => source.durable(),
            // The part behind it was read and has no record. It is put with the next one; without it, no record is lost.
            _ => read,
        };
        self.shared
            .note(self.writer.confirmed(), durable, self.bucket.trouble());
        self.shared.note_segments(self.level.failed());
    }
}

async fn put(
    bucket: Bucket,
    request: Request,
    piece: Piece,
    made: Option<std::result::Result<Bytes, crate::format::Reject>>,
) -> Put {
    let made = match made {
        Some(made) => Ok(made),
        None => encode_elsewhere(&bucket, &request, piece).await,
    };
    let made = made.and_then(|made| match (made, object_of(&request)) {
        (Ok(bytes), _) => Ok(bytes),
        (Err(reject), Some(object)) => Err(reject.of(&object.key()).into()),
        (Err(reject), None) => Err(Error::Invalid(reject.to_string())),
    });
    let (answer, object) = match made {
        Ok(bytes) => {
            let body = Some(Body::Bytes(bytes.clone()));
            let answer = bucket.perform(&request, body, false).await;
            (answer, Some(bytes))
        }
        Err(error) => (Err(error), None),
    };
    Put {
        request,
        answer,
        object,
    }
}

async fn encode_elsewhere(
    bucket: &Bucket,
    request: &Request,
    piece: Piece,
) -> Result<std::result::Result<Bytes, crate::format::Reject>> {
    let mut encoder = bucket.codec()?.encoder();
    let Some(object) = object_of(request).cloned() else {
        return Err(Error::Invalid("not a chunk".to_owned()));
    };
    blocking(move || piece.encode(&mut encoder, &object)).await
}

fn object_of(request: &Request) -> Option<&Object> {
    match request {
        Request::Create(object) => Some(object),
        _ => None,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
