//! Segments with a damaged header, which are identified by their batches.
//!
//! The header names the part of the log that a file contains. If it is damaged, neither the file's name nor
//! the fields of the header prove anything. But the checksum of each batch covers the log's identity and the
//! batch's LSN. So one batch at the position that the name implies proves both. Batches from an earlier use
//! of the file have other LSNs and prove nothing.
//!
//! Only inspection and salvage use this. The header still counts as damage: an opening fails, and a repair
//! cuts the segment.

use crate::error::{Error, Result};
use crate::names;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use crate::storage::transfer::read;
use logforce_device::{Directory, OpenFile, ReadSource};
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, Epoch, LogId, Lsn, MAX_WRITE_UNIT, MIN_WRITE_UNIT,
    SEGMENT_HEADER_LEN, SegmentHeader,
};
use std::sync::Arc;

/// Evidence from the batches of a file, assuming a certain write unit.
struct BatchEvidence {
    log_id: LogId,
    /// Epoch of the first batch.
    epoch: Epoch,
    batches: u64,
    /// Number of batches that link to the previous batch. It is highest with the right write unit, since each
    /// batch is expected where the previous one ends.
    links: u64,
}

/// Returns the files among `segments.rejected` that, according to their batches, contain a part of `[from,
/// to)` of the log `id` that no valid segment contains. If `id` is unknown, the first batch determines the
/// log.
pub(crate) fn find_headerless(
    dir: &Arc<dyn Directory>,
    id: Option<LogId>,
    segments: &Segments,
    from: Lsn,
    to: Lsn,
) -> Result<Vec<Arc<Segment>>> {
    let (mut id, mut regained) = (id, Vec::new());
    let whole = segments.all();
    let mut claims: Vec<(Lsn, &str)> = segments
        .rejected
        .iter()
        .filter_map(|(name, _)| Some((names::claimed_start(name)?, name.as_str())))
        .collect();
    claims.sort();
    claims.dedup_by_key(|(start, _)| *start);
    let mut units: Vec<u32> = whole.iter().map(|s| s.header.write_unit).collect();
    units.dedup();
    for &(start, name) in &claims {
        if start < from || start >= to || segments.containing(start).is_some() {
            continue;
        }
        let starts = whole.iter().map(|s| s.header.start);
        let others = starts.chain(claims.iter().map(|(other, _)| *other));
        let bound = others
            .filter(|s| *s > start)
            .min()
            .map_or(to, |s| s.min(to));
        let Some(segment) = segment_from_batches(dir, name, id, start, bound, &units)? else {
            continue;
        };
        id = Some(segment.header.log_id);
        regained.push(Arc::new(segment));
    }
    Ok(regained)
}

/// Returns the file `name` as the segment that begins at `start` and ends at or below `bound`, if one of its
/// batches proves it.
pub(crate) fn segment_from_batches(
    dir: &Arc<dyn Directory>,
    name: &str,
    id: Option<LogId>,
    start: Lsn,
    bound: Lsn,
    units: &[u32],
) -> Result<Option<Segment>> {
    let path = dir.path().join(name);
    let file = match dir.open(name, OpenFile::READ) {
        // The file was removed after it was listed.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(Error::io("open", &path))?,
    };
    let len = file.len().map_err(Error::io("check the size of", &path))?;
    let mut bytes = [0; SEGMENT_HEADER_LEN];
    let n = read(&*file, &path, 0, &mut bytes, ReadSource::Cache)?.unwrap_or(0);
    let (said_len, said_unit) = SegmentHeader::unchecked_geometry(&bytes[..n]);
    // The header is valid if the file was rejected only because it is too short.
    let is_whole = SegmentHeader::decode(&bytes[..n])
        .is_ok_and(|h| h.start == start && id.is_none_or(|id| id == h.log_id));
    drop(file);
    let room = bound.since(start);
    let room = match is_whole || said_len == len || said_len == room {
        true => said_len.min(room),
        // The length in the header is implausible, so it is ignored.
        _ => len.min(room),
    };
    let all = (MIN_WRITE_UNIT.ilog2()..=MAX_WRITE_UNIT.ilog2()).map(|bit| 1 << bit);
    let mut candidates = vec![said_unit];
    candidates.extend(units.iter().copied().chain([4096]).chain(all));
    let (mut best, mut tried) = (None::<(BatchEvidence, SegmentHeader)>, Vec::new());
    for write_unit in candidates {
        if write_unit == 0 || tried.contains(&write_unit) {
            continue;
        }
        tried.push(write_unit);
        let header = SegmentHeader {
            log_id: id.unwrap_or_default(),
            start,
            len: room / u64::from(write_unit) * u64::from(write_unit),
            write_unit,
            epoch: Epoch::default(),
            // This is unknown, but reading does not depend on it.
            unwritten: true,
        };
        if !SegmentHeader::geometry_is_valid(start, header.len, write_unit) {
            continue;
        }
        let segment = Arc::new(Segment::new(dir.clone(), name.to_owned(), header));
        let Some(proof) = collect_evidence(&segment, Lsn(start.0.saturating_add(len)), id)? else {
            continue;
        };
        let is_all = proof.links > 0 && proof.links + 1 == proof.batches;
        if best.as_ref().is_none_or(|(b, _)| proof.links > b.links) {
            best = Some((proof, header));
        }
        if is_all {
            break;
        }
    }
    Ok(best.map(|(proof, mut header)| {
        header.log_id = proof.log_id;
        header.epoch = proof.epoch;
        Segment::new(dir.clone(), name.to_owned(), header)
    }))
}

/// Collects evidence from the batches at their own LSN, with the segment's write unit. `end` is the end of
/// the file, since the length in a damaged header may have any value.
fn collect_evidence(
    segment: &Arc<Segment>,
    end: Lsn,
    id: Option<LogId>,
) -> Result<Option<BatchEvidence>> {
    let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
    let unit = u64::from(segment.header.write_unit);
    let (mut proof, mut before) = (None::<BatchEvidence>, None);
    let mut at = segment.header.first_batch();
    while at < segment.header.end().min(end) {
        let bytes = read_buffer.get(segment, segment.offset(at), BATCH_HEADER_LEN)?;
        let header = bytes.ok().and_then(|b| BatchHeader::decode(b).ok());
        let id = proof.as_ref().map(|p| p.log_id).or(id);
        let Some(h) = header.filter(|h| h.lsn == at && id.is_none_or(|id| h.log_id == id)) else {
            before = None;
            at = at.plus(unit);
            continue;
        };
        let proof = proof.get_or_insert(BatchEvidence {
            log_id: h.log_id,
            epoch: h.epoch,
            batches: 0,
            links: 0,
        });
        proof.batches += 1;
        proof.links += u64::from(before == Some(h.prev_crc));
        before = Some(h.crc);
        at = h.end(segment.header.write_unit);
    }
    Ok(proof)
}
