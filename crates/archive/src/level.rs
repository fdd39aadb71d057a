//! Second level: whole segments in place of many small chunks. A restore of many small objects is slow, and
//! each of them costs a request.

use crate::bucket::{Body, Bucket, blocking, panicked};
use crate::error::{Error, Result};
use crate::gather::{Content, Gathered};
use crate::object::Segment;
use crate::piece::Piece;
use crate::protocol::{Cover, Reading, Writer};
use crate::reader::{LogReader, ReadPart};
use logforce::Lsn;
use std::collections::HashMap;
use tokio::task::JoinSet;

/// Objects that are read, or put, at once.
const WINDOW: usize = 8;
/// Pieces that wait for a segment, in segments.
const MAX_WAITING: u64 = 4;

/// Makes segments of confirmed chunks, one job at a time.
pub(crate) struct Level {
    bucket: Bucket,
    segment_size: u64,
    /// End of the archive when this opening claimed it.
    first: Lsn,
    /// Confirmed pieces that no segment has yet.
    waiting: Gathered,
    job: JoinSet<Done>,
    is_swept: bool,
    /// Failure for which no further segments are made in this opening.
    failed: Option<String>,
}

/// End of a job.
pub(crate) enum Done {
    /// Segments hold the log up to here. The pieces follow them, and lie below those of this opening.
    Covered(Result<(Lsn, Gathered)>),
    Removed(Result<Lsn>),
    Swept(Result<()>),
}

impl Level {
    pub(crate) fn new(bucket: Bucket, first: Lsn, segment_size: u64) -> Level {
        Level {
            bucket,
            segment_size,
            first,
            waiting: Gathered::new(segment_size),
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
            self.waiting.add(piece);
        }
    }

    /// Returns true if no more may be read, because of the memory of the pieces that wait for a segment.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.bytes() >= MAX_WAITING * self.segment_size
    }

    /// Begins to put segments if there is enough for one, and no other job.
    pub(crate) fn go_on(&mut self, writer: &mut Writer) {
        if !self.job.is_empty() || self.failed.is_some() {
            return;
        }
        let contents = self.waiting.take_complete(WINDOW);
        let segments: Vec<Segment> = contents.iter().map(Content::segment).collect();
        let Some(first) = segments.first() else {
            return;
        };
        let cover = writer.cover(Some(first.from), &segments);
        let (bucket, none) = (self.bucket.clone(), Gathered::new(self.segment_size));
        self.job.spawn(async move {
            let covered = put_segments(&bucket, cover, contents).await;
            Done::Covered(covered.map(|covered| (covered, none)))
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
                let later = std::mem::replace(&mut self.waiting, before);
                self.waiting.append(later);
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
                self.waiting.clear();
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

/// Puts segments. Returns the position up to which segments hold the log.
async fn put_segments(bucket: &Bucket, cover: Cover, contents: Vec<Content>) -> Result<Lsn> {
    let mut bodies = HashMap::new();
    for content in contents {
        let body = match content {
            Content::Copy { segment, chunk } => (segment, Body::CopyOf(chunk)),
            Content::Small(small) => {
                let segment = small.segment;
                let mut encoder = bucket.codec()?.encoder();
                let bytes = blocking(move || small.encode(&mut encoder)).await??;
                (segment, Body::Bytes(bytes))
            }
        };
        bodies.extend([body]);
    }
    run_cover(bucket, cover, &bodies).await
}

async fn run_cover(
    bucket: &Bucket,
    mut cover: Cover,
    bodies: &HashMap<Segment, Body>,
) -> Result<Lsn> {
    bucket.run_with(&mut cover, bodies).await?;
    match cover.outcome() {
        Some(outcome) => Ok(outcome.clone()?),
        None => Err(Error::Invalid("the protocol has stopped".to_owned())),
    }
}

/// Makes segments of what lies in chunks below `first`. Returns the end of the segments, and the pieces behind
/// them, which are too few for one.
async fn take_over(
    bucket: &Bucket,
    cover: Cover,
    first: Lsn,
    size: u64,
) -> Result<(Lsn, Gathered)> {
    let mut covered = run_cover(bucket, cover, &HashMap::new()).await?;
    let mut waiting = Gathered::new(size);
    if covered >= first {
        return Ok((covered, waiting));
    }
    let reading = Reading::new(Some(first), WINDOW).starting_at(covered);
    let mut reader = LogReader::new(bucket, reading);
    while let Some(part) = reader.next().await? {
        match part {
            // Pruned meanwhile.
            ReadPart::Start(_) => waiting.clear(),
            ReadPart::Piece(_, piece) => waiting.add(piece),
        }
        let contents = waiting.take_complete(WINDOW);
        let segments: Vec<Segment> = contents.iter().map(Content::segment).collect();
        if let Some(from) = segments.first().map(|first| first.from) {
            let cover = Cover::new(from, Some(from), segments);
            covered = put_segments(bucket, cover, contents).await?;
        }
    }
    Ok((covered, waiting))
}

/// Returns the start of the first segment that a copy needs which ends with a part with this control slot.
pub(crate) fn first_segment(control: &[u8]) -> Result<Lsn> {
    let end = logforce::replica::LogState::decode(control)?;
    Ok(end.first_segment)
}
