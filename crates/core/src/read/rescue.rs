//! Reading what was given up at damage: its bytes are kept, and most of it may be whole.

use crate::error::{Error, Result};
use crate::names;
use crate::read::inspect::Inspector;
use crate::read::inspect::answers::Visit;
use crate::read::records::Records;
use crate::scan::batch::{Head, ScanState};
use crate::scan::resume::headers_behind;
use crate::storage::aside::{self, GivenUp};
use crate::storage::cuts::Cuts;
use crate::storage::regained::by_batches;
use crate::storage::segment::Segment;
use crate::storage::segment_header::{Found, read_header};
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::Lsn;
use std::sync::Arc;

impl Inspector {
    /// What openings with [`OnDamage::Truncate`](crate::OnDamage::Truncate) have given up of this log
    /// and is still kept.
    ///
    /// # Errors
    /// [`Error::Io`] where the directory cannot be read.
    pub fn given_up(&self) -> Result<Vec<GivenUp>> {
        let (dir, control, _) = self.place();
        aside::kept(dir, control.log_id)
    }

    /// Walks the whole records that can still be read of a range that was given up, in order. They are
    /// no part of the log: it went on without them. A record counts as proven if a stamp in the range
    /// says that it had been durable. Where ranges overlap, because an opening gave up again what an
    /// earlier one had gone on behind, a record is shown with the first of them only.
    ///
    /// # Errors
    /// [`Error::Io`], never damage: what cannot be read is passed over.
    pub fn walk_given_up(
        &self,
        range: &GivenUp,
        visit: &mut dyn FnMut(Visit<'_>) -> bool,
    ) -> Result<()> {
        let (_, control, _) = self.place();
        let segments = self.segments_of(range)?;
        let before = self.ranges_before(range)?;
        let is_shown = |at: Lsn| before.iter().any(|(from, to)| (*from..*to).contains(&at));
        let mut proven = Lsn::ORIGIN;
        headers_behind(&segments, range.from, control, None, &mut |_, h| {
            proven = proven.max(h.stamp);
            h.lsn < range.to
        })?;
        let (mut window, mut records) = (Window::new(ReadSource::Cache), Records::default());
        let (mut state, none) = (ScanState::unlinked(range.from), Voids::default());
        while state.at < range.to {
            let before = state;
            let step = match Head::read(&mut window, &segments, control, &before)? {
                Ok(head) => match head.check(&mut window, before)? {
                    Ok(next) => head.payload(&mut window)?.map(|payload| {
                        // What does not fit is passed over with its batch.
                        let _ = records.take(&head.header, payload, range.from, &none);
                        next
                    }),
                    Err(stop) => Err(stop),
                },
                Err(stop) => Err(stop),
            };
            match step {
                Ok(next) => state = next,
                Err(stop) => {
                    // Of an append that is not whole nothing is shown.
                    records.lose();
                    records.parts.clear();
                    let mut next = None;
                    headers_behind(&segments, stop.at.plus(1), control, None, &mut |_, h| {
                        next = Some(h.lsn);
                        false
                    })?;
                    let Some(at) = next else { break };
                    state = ScanState::unlinked(at);
                }
            }
            while let Some(entry) = records.ready.pop_front() {
                let proven = entry.end <= proven;
                if entry.start < range.to
                    && !is_shown(entry.start)
                    && !visit(Visit::Record {
                        entry: &entry,
                        proven,
                    })
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The ranges that are listed before this one and reach into it, by their markers.
    fn ranges_before(&self, range: &GivenUp) -> Result<Cuts> {
        let (dir, ..) = self.place();
        let listed = dir.entries().map_err(Error::io("list", dir.path()))?;
        let all = listed.iter().filter_map(|e| names::cut_range(&e.name));
        Ok(all
            .filter(|r| *r < (range.from, range.to) && r.1 > range.from)
            .collect())
    }

    /// The segments that hold a part of the range: of the log, and kept beside it.
    fn segments_of(&self, range: &GivenUp) -> Result<Segments> {
        let (dir, control, of_log) = self.place();
        let mut segments = Segments::default();
        let mut take = |segment: Segment| {
            let header = &segment.header;
            let overlaps = header.start < range.to && range.from < header.end();
            if overlaps && segments.overlapping(header).is_none() {
                segments.insert(Arc::new(segment));
            }
        };
        // First what was set aside for its header: an empty segment is in its place since.
        let of_log = of_log.all();
        let mut units: Vec<u32> = of_log.iter().map(|s| s.header.write_unit).collect();
        units.dedup();
        // Not those that are listed with this range alone: one segment may hold parts of several.
        let listed = dir.entries().map_err(Error::io("list", dir.path()))?;
        let kept = || listed.iter().map(|e| &e.name).filter(|n| names::is_kept(n));
        for name in kept() {
            let Some(start) = names::kept_start(name) else {
                continue;
            };
            match read_header(dir, name) {
                Ok(Found::Broken { .. }) => {}
                // It could not be read then, and can be now.
                Ok(Found::Whole(h)) if names::is_set_aside(name) && h.log_id == control.log_id => {}
                Err(e) if !e.is_not_found() && !matches!(e, Error::NewerFormat { .. }) => {
                    return Err(e);
                }
                _ => continue,
            }
            // As far as it can reach: a file that is too short does not say how long it was.
            let starts = of_log.iter().chain(self.regained()).map(|s| s.header.start);
            let starts = starts.chain(kept().filter_map(|n| names::kept_start(n)));
            let bound = starts.filter(|s| *s > start).min();
            let bound = bound.unwrap_or(control.prepared_end.max(start));
            let id = Some(control.log_id);
            if let Some(segment) = by_batches(dir, name, id, start, bound, &units)? {
                take(segment);
            }
        }
        for segment in self.regained() {
            take(Segment::new(dir.clone(), segment.name(), segment.header));
        }
        let names = of_log.into_iter().map(|s| s.name());
        for name in names.chain(kept().cloned()) {
            let header = match read_header(dir, &name) {
                Ok(Found::Whole(h)) if h.log_id == control.log_id => h,
                Ok(_) | Err(Error::NewerFormat { .. }) => continue,
                // Truncated since it was listed.
                Err(e) if e.is_not_found() => continue,
                Err(e) => return Err(e),
            };
            take(Segment::new(dir.clone(), name, header));
        }
        Ok(segments)
    }
}
