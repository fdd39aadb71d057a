//! Verification of the log's tail on the medium, above the last stamp (a durable LSN in a later batch). The
//! page cache may return bytes that were never written.

use crate::error::{Error, Result};
use crate::recovery::opening::Opening;
use crate::scan::end_of_log::{End, damage};
use crate::scan::forward::Scan;
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use crate::storage::transfer::write_part;
use crate::storage::transfer::{read, read_once};
use logforce_device::{AlignedBuf, Barrier, ReadSource};
use logforce_format::{Control, Decision, Lsn, decide, planted};
use std::io;
use std::sync::Arc;

impl Opening {
    /// Makes sure that the tail above the last stamp is on the medium. After a failed barrier the system's
    /// cache returns bytes that the device never got, and a new barrier "succeeds". So this reads the tail
    /// again past the cache. If that is not possible, it writes and forces the tail again.
    pub(super) fn verify_tail(
        &self,
        segments: &Segments,
        control: &Control,
        end: &mut End,
    ) -> Result<()> {
        if planted!("cache-believed") {
            return Ok(());
        }
        let cached_end = end.state.at;
        let from = end.reread_from;
        if cached_end <= end.proven || cached_end <= from.at {
            return Ok(());
        }
        let probe = segments
            .containing(from.at)
            .or_else(|| segments.containing(cached_end));
        let medium = match &probe {
            Some(segment) => can_read_medium(segment)?,
            None => false,
        };
        if !medium {
            return self.rewrite(segments, from.at, cached_end);
        }
        let mut scan = Scan::new(segments, control, ReadSource::Medium, from)?;
        let mut append_boundary = end.reread_append_boundary;
        let stop = loop {
            let step = scan.next()?.map(|batch| batch.end);
            match step {
                Ok(batch_end) if batch_end >= cached_end => return Ok(()),
                Ok(_) => {}
                Err(stop) => break stop,
            }
            if scan.state.sequence.open_from().is_none() {
                append_boundary = scan.state;
            }
        };
        // The rest was only in the page cache. Normally no force covered it, and it is dropped. Two cases are
        // damage instead: a later stamp proves that a force covered it, or the medium returns an error, which
        // proves nothing. Dropping it then could lose acknowledged records silently, and reuse their LSNs.
        let known = end.lost.take();
        end.case = decide(stop.seen, known.is_some(), false);
        if end.case.decision() == Decision::Refuse {
            let durable_to = known.map_or(end.proven, |d| d.durable_to);
            let lost = damage(self.dir.path(), segments, &stop, end.case, durable_to);
            end.lost = Some(lost);
        }
        end.state = scan.state;
        end.append_boundary = append_boundary;
        for segment in segments.all() {
            if segment.header.end() > end.state.at && segment.header.start < cached_end {
                segment
                    .file()?
                    .drop_cache(segment.offset(end.state.at)..segment.header.len);
            }
        }
        Ok(())
    }

    /// Reads `[from, to)` from the cache, writes the same bytes again, and forces them.
    fn rewrite(&self, segments: &Segments, from: Lsn, to: Lsn) -> Result<()> {
        const CHUNK: usize = 1 << 20;
        for segment in segments.all() {
            let start = from.max(segment.header.first_batch());
            let end = to.min(segment.header.end());
            if start >= end {
                continue;
            }
            // A segment with a smaller write unit, from another device or system, cannot be written past the
            // cache here. The barrier covers it in both cases, and no batch is appended to such a segment.
            let fits = segment.header.write_unit >= self.unit;
            segment.open_writer(self.force.plan.direct && fits)?;
            let file = segment.file()?;
            let mut at = start;
            while at < end {
                let n = end.since(at).min(CHUNK as u64) as usize;
                let mut buf = AlignedBuf::zeroed(n, 65536);
                let offset = segment.offset(at);
                let path = segment.path();
                // A short read would overwrite the tail with zeroes.
                let have = match read(&*file, &path, offset, &mut buf, ReadSource::Cache)? {
                    Ok(have) => have,
                    Err(lost) => return Err(unread(&segment, lost.found)),
                };
                if have < n {
                    return Err(unread(&segment, format!("it ends at byte {have}")));
                }
                write_part(&*file, segment.offset(at), buf, 0..n)
                    .map_err(Error::io("write", segment.path()))?;
                at = at.plus(n as u64);
            }
            file.barrier(Barrier::Full)
                .map_err(Error::io("sync", segment.path()))?;
        }
        Ok(())
    }
}

fn unread(segment: &Segment, found: String) -> Error {
    Error::io("read", segment.path())(io::Error::other(found))
}

/// Returns true if the segment can be read past the cache. Only "unsupported" counts as "no": after any other
/// error, a fallback to the cache would trust bytes that the device never got.
fn can_read_medium(segment: &Arc<Segment>) -> Result<bool> {
    let mut probe = AlignedBuf::zeroed(65536, 65536);
    let file = segment.file()?;
    match read_once(&*file, &segment.path(), 0, &mut probe, ReadSource::Medium) {
        Ok(_) => Ok(true),
        Err(e) if e.is_unsupported() => Ok(false),
        Err(e) => Err(e),
    }
}
