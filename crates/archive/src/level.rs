//! Second level: whole segments in place of many small chunks. A restore of many small objects is slow, and
//! each of them costs a request.

use crate::bucket::{Bucket, blocking, panicked};
use crate::error::{Error, Result};
use crate::object::{Object, Segment};
use crate::piece::{Piece, encode_segment};
use crate::protocol::{Cover, Reading, Request, Writer};
use crate::reader::{LogReader, ReadPart};
use logforce::Lsn;
use std::collections::HashMap;
use tokio::task::JoinSet;

/// Objects that are read at once for the part of the log that an earlier owner has left in chunks.
const WINDOW: usize = 8;
/// Pieces that wait for a segment, in segments.
const MAX_WAITING: u64 = 4;

/// Makes segments of confirmed chunks, one job at a time.
pub(crate) struct Level {
    bucket: Bucket,
    segment_size: u64,
    /// End of the archive when this opening claimed it.
    first: Lsn,
    /// Confirmed pieces that no segment has yet, contiguous.
    pieces: Vec<Piece>,
    job: JoinSet<Done>,
    is_swept: bool,
    /// Failure for which no further segments are made in this opening.
    failed: Option<String>,
}

/// End of a job.
pub(crate) enum Done {
    /// Segments hold the log up to here. The pieces follow them, and lie below those of this opening.
    Covered(Result<(Lsn, Vec<Piece>)>),
    Removed(Result<Lsn>),
    Swept(Result<()>),
}

impl Level {
    pub(crate) fn new(bucket: Bucket, first: Lsn, segment_size: u64) -> Level {
        Level {
            bucket,
            segment_size,
            first,
            pieces: Vec::new(),
            job: JoinSet::new(),
            is_swept: false,
            failed: None,
        }
    }

    /// Returns the failure for which no segments are made.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Begins with what earlier owners have left in chunks.
    pub(crate) fn begin(&mut self, writer: &Writer) {
        let (bucket, size, first) = (self.bucket.clone(), self.segment_size, self.first);
        let cover = writer.cover(None, &[]);
        self.job
            .spawn(async move { Done::Covered(take_over(&bucket, cover, first, size).await) });
    }

    /// Adds a confirmed piece.
    pub(crate) fn add(&mut self, piece: Piece) {
        if self.failed.is_none() {
            self.pieces.push(piece);
        }
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|p| p.log.len() as u64).sum()
    }

    /// Returns true if no more may be read, because of the memory of the pieces that wait for a segment.
    pub(crate) fn is_behind(&self) -> bool {
        self.bytes() >= MAX_WAITING * self.segment_size
    }

    /// Begins to put a segment if there is enough for one, and no other job.
    pub(crate) fn go_on(&mut self, writer: &mut Writer) {
        if !self.job.is_empty() || self.bytes() < self.segment_size || self.failed.is_some() {
            return;
        }
        let mut bytes = 0;
        let count = self.pieces.iter().take_while(|piece| {
            let is_in = bytes < self.segment_size;
            bytes += piece.log.len() as u64;
            is_in
        });
        let count = count.count();
        let pieces: Vec<Piece> = self.pieces.drain(..count).collect();
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return;
        };
        let segment = Segment {
            from: first.from,
            to: last.to,
        };
        let cover = writer.cover(Some(segment.from), &[segment]);
        let bucket = self.bucket.clone();
        self.job.spawn(async move {
            let covered = put_segment(&bucket, cover, segment, pieces).await;
            Done::Covered(covered.map(|covered| (covered, Vec::new())))
        });
    }

    /// Returns the end of the next job; never if there is none.
    pub(crate) async fn next(&mut self) -> Result<Done> {
        match self.job.join_next().await {
            Some(done) => done.map_err(panicked),
            None => std::future::pending().await,
        }
    }

    /// Takes the end of a job, and begins the next one.
    pub(crate) fn ended(&mut self, done: Result<Done>, writer: &mut Writer) -> Result<()> {
        match done? {
            Done::Covered(Ok((covered, before))) => {
                let later = std::mem::replace(&mut self.pieces, before);
                self.pieces.extend(later);
                match writer.raise(covered) {
                    Some(mut removal) => {
                        let bucket = self.bucket.clone();
                        self.job.spawn(async move {
                            let removed = bucket.run(&mut removal).await;
                            let outcome = removal.outcome().cloned();
                            let removed =
                                removed.and(outcome.unwrap_or(Ok(())).map_err(Error::from));
                            Done::Removed(removed.map(|()| covered))
                        });
                    }
                    None => self.sweep(covered, writer),
                }
            }
            Done::Removed(Ok(covered)) => self.sweep(covered, writer),
            Done::Swept(Ok(())) => self.is_swept = true,
            Done::Covered(Err(error)) | Done::Removed(Err(error)) | Done::Swept(Err(error)) => {
                // Restores are slower now, and nothing is lost: the chunks stay.
                self.failed = Some(error.to_string());
                self.pieces.clear();
            }
        }
        self.go_on(writer);
        Ok(())
    }

    /// Removes the chunks of older epochs, once in an opening.
    fn sweep(&mut self, covered: Lsn, writer: &Writer) {
        if self.is_swept {
            return;
        }
        let Some(mut sweep) = writer.sweep(covered) else {
            return;
        };
        let bucket = self.bucket.clone();
        self.job.spawn(async move {
            let swept = bucket.run(&mut sweep).await;
            let outcome = sweep.outcome().cloned();
            Done::Swept(swept.and(outcome.unwrap_or(Ok(())).map_err(Error::from)))
        });
    }

    /// Waits for the job that runs.
    pub(crate) async fn drain(&mut self, writer: &mut Writer) {
        while !self.job.is_empty() {
            let done = self.next().await;
            let _ = self.ended(done, writer);
        }
    }
}

/// Puts one segment. Returns the position up to which segments hold the log.
async fn put_segment(
    bucket: &Bucket,
    cover: Cover,
    segment: Segment,
    pieces: Vec<Piece>,
) -> Result<Lsn> {
    let mut encoder = bucket.codec()?.encoder();
    let bytes = blocking(move || encode_segment(&mut encoder, segment, &pieces)).await?;
    let key = Object::Segment(segment).key();
    let bytes = bytes.map_err(|reject| reject.of(&key))?;
    run_cover(bucket, cover, &HashMap::from([(segment, bytes)])).await
}

async fn run_cover(
    bucket: &Bucket,
    mut cover: Cover,
    bodies: &HashMap<Segment, bytes::Bytes>,
) -> Result<Lsn> {
    let mut open = JoinSet::new();
    loop {
        for request in cover.poll() {
            let body = match &request {
                Request::Create(Object::Segment(segment)) => bodies.get(segment).cloned(),
                _ => None,
            };
            let bucket = bucket.clone();
            open.spawn(async move {
                let answer = bucket.perform(&request, body, false).await;
                (request, answer)
            });
        }
        if let Some(outcome) = cover.outcome() {
            return Ok(outcome.clone()?);
        }
        match open.join_next().await {
            Some(Ok((request, answer))) => cover.answer(&request, answer?.0),
            Some(Err(error)) => return Err(panicked(error)),
            None => return Err(Error::Invalid("the protocol has stopped".to_owned())),
        }
    }
}

/// Makes segments of what lies in chunks below `first`. Returns the end of the segments, and the pieces behind
/// them, which are too few for one.
async fn take_over(
    bucket: &Bucket,
    cover: Cover,
    first: Lsn,
    size: u64,
) -> Result<(Lsn, Vec<Piece>)> {
    let mut covered = run_cover(bucket, cover, &HashMap::new()).await?;
    let mut pieces: Vec<Piece> = Vec::new();
    if covered >= first {
        return Ok((covered, pieces));
    }
    let reading = Reading::new(Some(first), WINDOW).starting_at(covered);
    let mut reader = LogReader::new(bucket, reading);
    while let Some(part) = reader.next().await? {
        match part {
            // Pruned meanwhile.
            ReadPart::Start(_) => pieces.clear(),
            ReadPart::Piece(piece) => pieces.push(piece),
        }
        if pieces.iter().map(|p| p.log.len() as u64).sum::<u64>() >= size
            && let (Some(begin), Some(end)) = (pieces.first(), pieces.last())
        {
            let segment = Segment {
                from: begin.from,
                to: end.to,
            };
            let cover = Cover::new(segment.from, Some(segment.from), vec![segment]);
            covered = put_segment(bucket, cover, segment, std::mem::take(&mut pieces)).await?;
        }
    }
    Ok((covered, pieces))
}

/// Returns the start of the first segment that a copy needs which ends with a part with this control slot.
pub(crate) fn first_segment(control: &[u8]) -> Result<Lsn> {
    let end = logforce::replica::LogState::decode(control)?;
    Ok(end.first_segment)
}
