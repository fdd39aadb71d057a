//! List of void ranges: each batch that voids a range names the previous one.

use crate::error::{Damage, Result};
use crate::scan::batch::Stop;
use crate::scan::end_of_log::damage;
use crate::scan::walk::types::{KnownVoids, WalkInput};
use crate::storage::read_buffer::ReadBuffer;
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, Lsn, NextBatch, RecoveryCase};

/// Reads the list backwards, down to the front, or as far as it can be followed.
pub(super) fn list(input: &WalkInput<'_>, last: Option<Lsn>) -> Result<KnownVoids> {
    let mut known = KnownVoids::default();
    let mut at = last.unwrap_or(Lsn::ORIGIN);
    let mut read_buffer = link_buffer();
    // The loop ends, because the format requires each link to lie below the previous one. A batch at or
    // below the front voids only truncated records, and so do the batches before it.
    while at > input.control.front {
        known.named.insert(at);
        match link(input, &mut read_buffer, at)? {
            Ok(header) => {
                known.voids.add(header.void_from, header.lsn);
                at = header.last_void;
            }
            Err(lost) => {
                known.unknown = Some(lost);
                break;
            }
        }
    }
    Ok(known)
}

/// Creates a read buffer for links, which are far apart. With a long list, reading ahead at each link would
/// read the log many times.
pub(super) fn link_buffer() -> ReadBuffer {
    let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
    read_buffer.limit(BATCH_HEADER_LEN as u64);
    read_buffer
}

/// Returns the header of the batch at `at` that voids a range, or the damage to it.
pub(super) fn link(
    input: &WalkInput<'_>,
    read_buffer: &mut ReadBuffer,
    at: Lsn,
) -> Result<std::result::Result<BatchHeader, Damage>> {
    let WalkInput {
        dir,
        segments,
        control,
        ..
    } = *input;
    let lost = |found: String| {
        let seen = NextBatch::Broken;
        let stop = Stop { at, seen, found };
        Ok(Err(damage(
            dir.path(),
            segments,
            &stop,
            RecoveryCase::Damaged,
            at,
        )))
    };
    let Some(segment) = segments.containing(at) else {
        return lost("the segment of a void batch is missing".to_owned());
    };
    let bytes = match read_buffer.get(&segment, segment.offset(at), BATCH_HEADER_LEN)? {
        Ok(bytes) => bytes,
        Err(lost_bytes) => return lost(lost_bytes.found),
    };
    match BatchHeader::decode(bytes) {
        Ok(h) if h.log_id == control.log_id && h.lsn == at && h.voids() => Ok(Ok(h)),
        Ok(_) => lost("a void batch should be here".to_owned()),
        Err(r) => lost(format!("a void batch should be here: {r}")),
    }
}
