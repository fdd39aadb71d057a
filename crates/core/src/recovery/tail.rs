//! Believing only the medium above the last trusted stamp.

use crate::error::{Error, Result};
use crate::options::OnDamage;
use crate::recovery::opening::Opening;
use crate::scan::end_of_log::{End, damage};
use crate::scan::forward::Scan;
use crate::storage::reads::{read, read_once};
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use logforce_device::{AlignedBuf, Barrier, ReadSource, Write};
use logforce_format::{Control, Decision, Lsn, decide, planted};
use std::io;
use std::sync::Arc;

impl Opening {
    /// Believes only the medium above the last trusted stamp. After a failed barrier the system's
    /// cache returns bytes that the device never got, and a new barrier "succeeds"; so the tail is
    /// read again past the cache, or, where that cannot be done, written again and forced.
    pub(super) fn settle_tail(
        &self,
        segments: &Segments,
        control: &Control,
        end: &mut End,
    ) -> Result<()> {
        if planted!("cache-believed") {
            return Ok(());
        }
        let cached_end = end.state.at;
        let from = end.settled;
        if cached_end <= end.trusted || cached_end <= from.at {
            return Ok(());
        }
        let probe = segments
            .containing(from.at)
            .or_else(|| segments.containing(cached_end));
        let medium = match &probe {
            Some(segment) => reads_medium(segment)?,
            None => false,
        };
        if !medium {
            return self.rewrite(segments, from.at, cached_end);
        }
        let mut scan = Scan::new(segments, control, ReadSource::Medium, from)?;
        let mut closed = end.settled_closed;
        let stop = loop {
            let step = scan.next()?.map(|batch| batch.end);
            match step {
                Ok(batch_end) if batch_end >= cached_end => return Ok(()),
                Ok(_) => {}
                Err(stop) => break stop,
            }
            if scan.state.sequence.open_from().is_none() {
                closed = scan.state;
            }
        };
        // The cache lied: what lies between was never on the medium, so no force ever covered it.
        // Unless a stamp behind has said that it was; or it cannot be read, which proves nothing: to
        // forget such a loss would cut acknowledged data in silence and use its LSNs again.
        let known = end.lost.take();
        end.case = decide(stop.seen, known.is_some(), false);
        if end.case.decision() == Decision::Refuse {
            let durable_to = known.map_or(end.trusted, |d| d.durable_to);
            let d = damage(self.dir.path(), segments, &stop, end.case, durable_to);
            if self.options.on_damage == OnDamage::Refuse {
                return Err(Error::Damaged(Box::new(d)));
            }
            end.lost = Some(d);
        }
        end.state = scan.state;
        end.closed = closed;
        for segment in segments.all() {
            if segment.header.end() > end.state.at && segment.header.start < cached_end {
                segment
                    .file()?
                    .drop_cache(segment.offset(end.state.at)..segment.header.len);
            }
        }
        Ok(())
    }

    /// Writes `[from, to)` again with the same bytes and forces it.
    fn rewrite(&self, segments: &Segments, from: Lsn, to: Lsn) -> Result<()> {
        const CHUNK: usize = 1 << 20;
        for segment in segments.all() {
            let start = from.max(segment.header.first_batch());
            let end = to.min(segment.header.end());
            if start >= end {
                continue;
            }
            // What was written in a smaller unit, on another device or system, cannot be written past
            // the cache here, and the barrier takes it along either way. Nothing is added to such a
            // segment.
            let fits = segment.header.write_unit >= self.unit;
            segment.open_writer(self.chosen.force.plan.direct && fits)?;
            let file = segment.file()?;
            let mut at = start;
            while at < end {
                let n = end.since(at).min(CHUNK as u64) as usize;
                let mut buf = AlignedBuf::zeroed(n, 65536);
                let offset = segment.offset(at);
                let path = segment.path();
                // Less, or nothing, would be written over the tail as zeroes.
                let have = match read(&*file, &path, offset, &mut buf, ReadSource::Cache)? {
                    Ok(have) => have,
                    Err(lost) => return Err(unread(&segment, lost.found)),
                };
                if have < n {
                    return Err(unread(&segment, format!("it ends at byte {have}")));
                }
                let ticket = file.submit(Write {
                    offset: segment.offset(at),
                    buf,
                    range: 0..n,
                    through: false,
                });
                file.complete(ticket)
                    .result
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

/// Whether the segment can be read past the cache. Only the system's word that it cannot counts: to
/// believe the cache because a call failed would be to believe bytes that the device never got.
fn reads_medium(segment: &Arc<Segment>) -> Result<bool> {
    let mut probe = AlignedBuf::zeroed(65536, 65536);
    let file = segment.file()?;
    match read_once(&*file, &segment.path(), 0, &mut probe, ReadSource::Medium) {
        Ok(_) => Ok(true),
        Err(e) if e.is_unsupported() => Ok(false),
        Err(e) => Err(e),
    }
}
