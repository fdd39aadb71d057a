//! Segments with a damaged header, identified by their batches.
//!
//! The header says which part of the log a file holds. If it is damaged, neither the file's name
//! nor the fields of the header prove anything. But each batch carries the log's identity and its
//! own LSN under its checksum, so one batch at the position that the name implies proves both.
//! Batches from an earlier use of the file have other LSNs and prove nothing.
//!
//! Only inspection and salvage use this, and the header still counts as damage: an opening fails,
//! and a repair cuts the segment.

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

/// What the batches of a file prove, assuming one write unit.
struct BatchEvidence {
    log_id: LogId,
    /// Epoch of the first of them.
    epoch: Epoch,
    batches: u64,
    /// How many of them link to the batch before. The right write unit yields the most, since each
    /// batch is expected where the previous one ends.
    links: u64,
}

/// The files among `segments.rejected` that hold, according to their batches, a part of `[from,
/// to)` of the log `id` that no valid segment holds. If `id` is unknown, the first batch decides
/// which log.
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

/// The file `name` as the segment that begins at `start` and ends at or below `bound`, if one of
/// its batches proves it.
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
        // Removed since it was listed.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(Error::io("open", &path))?,
    };
    let len = file.len().map_err(Error::io("check the size of", &path))?;
    let mut bytes = [0; SEGMENT_HEADER_LEN];
    let n = read(&*file, &path, 0, &mut bytes, ReadSource::Cache)?.unwrap_or(0);
    let (said_len, said_unit) = SegmentHeader::unchecked_geometry(&bytes[..n]);
    // The header may be valid, if only the file is too short.
    let is_whole = SegmentHeader::decode(&bytes[..n])
        .is_ok_and(|h| h.start == start && id.is_none_or(|id| id == h.log_id));
    drop(file);
    let room = bound.since(start);
    let room = match is_whole || said_len == len || said_len == room {
        true => said_len.min(room),
        // The length in the header is implausible; the batches decide.
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
            // Unknown: what is read of it does not depend on that.
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

/// What the batches at their own LSN prove, with the segment's write unit. `end`: the end of the
/// file, since the length in a damaged header may be anything.
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
