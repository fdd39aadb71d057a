//! Contents of an archive, and marks.

use crate::archive::{Archive, runtime};
use crate::base::{bases, is_usable};
use crate::bucket::Bucket;
use crate::ends::{lowest_end, segments, stored_log};
use crate::error::{Error, Result};
use crate::format::Point;
use crate::key::{Epoch, Key, MAX_MARK_LEN, is_mark_name};
use crate::object::{Base, Mark, Object};
use crate::owner::{last_chunk, newest_chunk, newest_epoch, newest_owner, start};
use crate::protocol::Reading;
use crate::reader::{LogReader, ReadPart};
use logforce::pages::base::is_log_of_page_file;
use logforce::replica::LogState;
use logforce::{LogId, Lsn};

/// Contents of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// Log of the archive.
    pub log_id: LogId,
    /// Creation, Unix time in ns.
    pub created: u64,
    /// True if its objects are encrypted.
    pub is_encrypted: bool,
    /// Position below which nothing can be restored.
    pub start: Lsn,
    /// Lowest position at which a restored log can end; `None` in an empty archive.
    pub lowest_end: Option<Lsn>,
    /// Exclusive end of what can be restored; `None` in an empty archive.
    pub end: Option<Lsn>,
    /// Front of the log at that end.
    pub front: Option<Lsn>,
    /// Time of the newest chunk, Unix time in ns.
    pub newest: Option<u64>,
    /// Time of the oldest part, Unix time in ns. A restore to an earlier time is not possible.
    pub oldest: Option<u64>,
    /// Epoch of the newest owner.
    pub epoch: Epoch,
    /// Name of the newest owner, if it is known.
    pub owner: Option<String>,
    /// Number of segments.
    pub segments: u64,
    /// Number of chunks and seals.
    pub chunks: u64,
    /// Marks, by position.
    pub marks: Vec<Mark>,
    /// Base copies of a page file that a restore can begin with, by the position that they stand for.
    pub bases: Vec<Base>,
    /// True if the log is that of a page file: nothing can be restored without a base copy.
    pub is_of_page_file: bool,
}

impl Archive {
    /// Returns what the archive contains.
    pub fn list(&self) -> Result<Contents> {
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            let identity = bucket.identity().cloned();
            let Some(identity) = identity else {
                return Err(crate::protocol::Error::NoArchive.into());
            };
            let epoch = newest_epoch(&bucket).await?;
            let last = last_chunk(&bucket, Epoch(epoch.0 + 1)).await?;
            let newest = match &last {
                Some((key, _)) => time_of(&bucket, key).await?,
                None => None,
            };
            let state = last
                .as_ref()
                .map(|(_, stored)| LogState::decode(&stored.control));
            let state = state.transpose()?;
            let meta = last.and_then(|(_, stored)| stored.meta);
            let owner = newest_owner(&bucket).await?.map(|hint| hint.owner);
            let chunks = bucket.list("e/", None, |key| matches!(key, Key::Place { .. }));
            let chunks = chunks.await?.len() as u64;
            let segments = segments(&bucket).await?;
            let start = start(&bucket).await?;
            let oldest = match segments.iter().find(|(_, to, _)| *to > start) {
                Some((_, _, key)) => points_of(&bucket, key).await?.first().map(|p| p.time),
                None => first_time(&bucket, start).await?,
            };
            let mut bases = bases(&bucket).await?;
            bases.retain(|base| is_usable(base, start));
            let end = state.as_ref().map(|s| s.end);
            let lowest_end = match (end, bases.first()) {
                (Some(_), Some(base)) => Some(base.end),
                (Some(end), None) => Some(lowest_end(&bucket, start, end).await?),
                (None, _) => None,
            };
            Ok(Contents {
                lowest_end,
                is_of_page_file: meta.is_some_and(|meta| is_log_of_page_file(&meta)),
                bases,
                log_id: identity.log_id,
                created: identity.time,
                is_encrypted: identity.is_encrypted(),
                start,
                end,
                front: state.as_ref().map(|s| s.front),
                newest,
                oldest,
                epoch,
                owner,
                segments: segments.len() as u64,
                chunks,
                marks: marks(&bucket).await?,
            })
        })
    }

    /// Names the newest archived position, or `lsn`, so that a restore can end there.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is taken or not possible.
    pub fn mark(&self, name: &str, lsn: Option<Lsn>) -> Result<Lsn> {
        if !is_mark_name(name) {
            return Err(Error::Invalid(format!(
                "'{name}' cannot be the name of a mark: use 1 to {MAX_MARK_LEN} letters, digits, '-', '_' or '.', \
                 the first one not a '.'"
            )));
        }
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            let Some(stored) = newest_chunk(&bucket).await? else {
                return Err(Error::Invalid(
                    "the archive is empty: nothing was archived yet".to_owned(),
                ));
            };
            let end = LogState::decode(&stored.control)?.end;
            let lsn = lsn.unwrap_or(end);
            if lsn > end {
                return Err(Error::Invalid(format!(
                    "LSN {lsn} is not archived yet: the archive ends at LSN {end}"
                )));
            }
            let mark = Object::Mark(Mark {
                name: name.to_owned(),
                lsn,
                time: bucket.now(),
            });
            let key = mark.key();
            let bytes = bucket.codec()?.encode(&mark);
            let bytes = bytes.map_err(|reject| reject.of(&key))?;
            let put = || bucket.store().create(&key, bytes.clone());
            bucket.try_until_known(&key.to_string(), put).await?;
            // It may be there from an earlier try, or from another caller.
            match bucket.read(&key, None).await? {
                Some(there) if peek(&bucket, &key, there.clone())? == mark => Ok(lsn),
                _ => Err(Error::Invalid(format!(
                    "the archive has a mark '{name}' already: choose another name"
                ))),
            }
        })
    }
}

fn peek(bucket: &Bucket, key: &Key, bytes: bytes::Bytes) -> Result<Object> {
    let object = bucket.codec()?.peek(key, bytes);
    Ok(object.map_err(|reject| reject.of(key))?)
}

/// Returns the time of a chunk.
async fn time_of(bucket: &Bucket, key: &Key) -> Result<Option<u64>> {
    let Some(bytes) = bucket.read(key, Some(crate::format::PEEK_LEN)).await? else {
        return Ok(None);
    };
    Ok(match peek(bucket, key, bytes)? {
        Object::Chunk(chunk) => Some(chunk.time),
        _ => None,
    })
}

/// Returns the time of the first chunk from `start` on, while there are no segments.
async fn first_time(bucket: &Bucket, start: Lsn) -> Result<Option<u64>> {
    let reading = Reading::new(None, 1).starting_at(start);
    let mut reader = LogReader::new(bucket, reading);
    while let Some(part) = reader.next().await? {
        if let ReadPart::Piece(_, piece) = part {
            return Ok(piece.time.or(piece.points.first().map(|p| p.time)));
        }
    }
    Ok(None)
}

async fn marks(bucket: &Bucket) -> Result<Vec<Mark>> {
    let keys = bucket.list("m/", None, |key| matches!(key, Key::Mark(_)));
    let mut marks = Vec::new();
    for key in keys.await? {
        if let Some(bytes) = bucket.read(&key, None).await?
            && let Object::Mark(mark) = peek(bucket, &key, bytes)?
        {
            marks.push(mark);
        }
    }
    marks.sort_by_key(|mark| mark.lsn);
    Ok(marks)
}

async fn points_of(bucket: &Bucket, key: &Key) -> Result<Vec<Point>> {
    Ok(stored_log(bucket, key).await?.points)
}
