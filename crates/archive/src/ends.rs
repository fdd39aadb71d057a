//! Segments of an archive, and the ends that a restored log can have.

use crate::bucket::{Bucket, deleted};
use crate::error::Result;
use crate::format::StoredLog;
use crate::key::Key;
use crate::owner::start;
use logforce::Lsn;
use logforce::replica::LogState;

/// Returns the segments of the archive, by position.
pub(crate) async fn segments(bucket: &Bucket) -> Result<Vec<(Lsn, Lsn, Key)>> {
    let keys = bucket.list("s/", None, |key| matches!(key, Key::Segment { .. }));
    let segments = keys.await?.into_iter().filter_map(|key| match key {
        Key::Segment { from, to } => Some((from, to, key)),
        _ => None,
    });
    Ok(segments.collect())
}

pub(crate) async fn stored_log(bucket: &Bucket, key: &Key) -> Result<StoredLog> {
    let Some(bytes) = bucket.read(key, None).await? else {
        return Err(deleted(key));
    };
    let (codec, name) = (bucket.codec()?.clone(), key.clone());
    let decoded = crate::bucket::blocking(move || codec.decode(&name, bytes)).await?;
    Ok(decoded.map_err(|reject| reject.of(key))?.1)
}

/// Returns the latest time in a segment.
pub(crate) async fn latest_time(bucket: &Bucket, key: &Key) -> Result<u64> {
    let bytes = bucket.read(key, Some(crate::format::PEEK_LEN)).await?;
    let bytes = bytes.ok_or_else(|| deleted(key))?;
    let time = bucket.codec()?.time(key, &bytes);
    Ok(time.map_err(|reject| reject.of(key))?)
}

/// Returns the last segment before the first one with a point later than `time`. The search is linear because the
/// writer's clock may have gone back: behind that segment there may be older points.
pub(crate) async fn last_before(bucket: &Bucket, time: u64) -> Result<Option<(Lsn, Lsn, Key)>> {
    let start = start(bucket).await?;
    let mut before = None;
    for segment in segments(bucket).await? {
        if segment.1 > start {
            if latest_time(bucket, &segment.2).await? > time {
                break;
            }
            before = Some(segment);
        }
    }
    Ok(before)
}

/// Returns the lowest position at which a restored log can end. One that ends below begins in a segment that was
/// pruned. `end` is the end of the archive.
pub(crate) async fn lowest_end(bucket: &Bucket, start: Lsn, end: Lsn) -> Result<Lsn> {
    let mut parts = segments(bucket).await?;
    parts.retain(|(_, to, _)| *to > start);
    let is_pruned = bucket
        .identity()
        .is_some_and(|identity| start > identity.start);
    if !is_pruned {
        parts.truncate(1);
    }
    // The fronts in them ascend.
    let (mut low, mut high) = (0, parts.len());
    while low < high {
        let middle = low.midpoint(high);
        let state = LogState::decode(&stored_log(bucket, &parts[middle].2).await?.control)?;
        match state.first_segment < start {
            true => low = middle + 1,
            // A log can end within the first part.
            false if middle == 0 => return Ok(state.front.max(start)),
            false => high = middle,
        }
    }
    Ok(match parts.get(low) {
        Some((_, to, _)) => *to,
        None if is_pruned => end,
        None => start,
    })
}
