//! Reading ranges that were given up at damage: their bytes are kept, and most records may be
//! whole.

use crate::error::{Error, Result};
use crate::names;
use crate::read::inspect::Inspector;
use crate::read::inspect::info::Visit;
use crate::read::records::Records;
use crate::scan::batch::{LinkedHeader, ScanState};
use crate::scan::resume::headers_beyond;
use crate::storage::given_up::{self, GivenUp};
use crate::storage::headerless::segment_from_batches;
use crate::storage::ranges::GivenUpRanges;
use crate::storage::segment::Segment;
use crate::storage::segment_header::{Found, read_header};
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::Lsn;
use std::sync::Arc;

impl Inspector {
    /// The ranges that openings with [`OnDamage::Truncate`](crate::OnDamage::Truncate) have given
    /// up and that are still kept.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read.
    pub fn given_up(&self) -> Result<Vec<GivenUp>> {
        let (dir, control, _) = self.files();
        given_up::list(dir, control.log_id)
    }

    /// Walks the records that can still be read whole in a range that was given up, in order. They
    /// are not part of the log. A record counts as proven if a stamp in the range proves that it
    /// was durable. Ranges overlap if a later opening has given up what an earlier one had
    /// continued with; then a record is visited in the first range only.
    ///
    /// # Errors
    /// [`Error::Io`], never damage: it skips what cannot be read.
    pub fn walk_given_up(
        &self,
        range: &GivenUp,
        visit: &mut dyn FnMut(Visit<'_>) -> bool,
    ) -> Result<()> {
        let (_, control, _) = self.files();
        let segments = self.segments_of(range)?;
        let before = self.ranges_before(range)?;
        let is_shown = |at: Lsn| before.iter().any(|(from, to)| (*from..*to).contains(&at));
        let mut proven = Lsn::ORIGIN;
        headers_beyond(&segments, range.from, control, None, &mut |_, h| {
            proven = proven.max(h.stamp);
            h.lsn < range.to
        })?;
        let (mut window, mut records) = (Window::new(ReadSource::Cache), Records::default());
        let (mut state, none) = (ScanState::unlinked(range.from), Voids::default());
        while state.at < range.to {
            let before = state;
            let step = match LinkedHeader::read(&mut window, &segments, control, &before)? {
                Ok(linked) => match linked.check(&mut window, before)? {
                    Ok(next) => linked.payload(&mut window)?.map(|payload| {
                        // Skips the batch if its frames do not fit.
                        let _ = records.take(&linked.header, payload, range.from, &none);
                        next
                    }),
                    Err(stop) => Err(stop),
                },
                Err(stop) => Err(stop),
            };
            match step {
                Ok(next) => state = next,
                Err(stop) => {
                    // Skips incomplete appends.
                    records.mark_loss();
                    records.parts.clear();
                    let mut next = None;
                    headers_beyond(&segments, stop.at.plus(1), control, None, &mut |_, h| {
                        next = Some(h.lsn);
                        false
                    })?;
                    let Some(at) = next else { break };
                    state = ScanState::unlinked(at);
                }
            }
            while let Some(record) = records.next() {
                let proven = record.end <= proven;
                if record.start < range.to
                    && !is_shown(record.start)
                    && !visit(Visit::Record {
                        record: &record,
                        proven,
                    })
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The ranges with markers that are listed before this one and overlap it.
    fn ranges_before(&self, range: &GivenUp) -> Result<GivenUpRanges> {
        let (dir, ..) = self.files();
        let listed = dir.entries().map_err(Error::io("list", dir.path()))?;
        let all = listed.iter().filter_map(|e| names::marker_range(&e.name));
        Ok(all
            .filter(|r| *r < (range.from, range.to) && r.1 > range.from)
            .collect())
    }

    /// The segments that hold a part of the range: those of the log, and those kept beside it.
    fn segments_of(&self, range: &GivenUp) -> Result<Segments> {
        let (dir, control, of_log) = self.files();
        let mut segments = Segments::default();
        let mut take = |segment: Segment| {
            let header = &segment.header;
            let overlaps = header.start < range.to && range.from < header.end();
            if overlaps && segments.overlapping(header).is_none() {
                segments.insert(Arc::new(segment));
            }
        };
        // First the files that were set aside for a damaged header: an empty segment has replaced
        // them.
        let of_log = of_log.all();
        let mut units: Vec<u32> = of_log.iter().map(|s| s.header.write_unit).collect();
        units.dedup();
        // All kept files, not only those listed with this range: one file may hold parts of
        // several.
        let listed = dir.entries().map_err(Error::io("list", dir.path()))?;
        let kept = || listed.iter().map(|e| &e.name).filter(|n| names::is_kept(n));
        for name in kept() {
            let Some(start) = names::kept_start(name) else {
                continue;
            };
            match read_header(dir, name) {
                Ok(Found::Broken { .. }) => {}
                // Its header could not be read then, and can be now.
                Ok(Found::Whole(h)) if names::is_set_aside(name) && h.log_id == control.log_id => {}
                Err(e) if !e.is_not_found() && !matches!(e, Error::NewerFormat { .. }) => {
                    return Err(e);
                }
                _ => continue,
            }
            // Up to the next segment at most: a file that was cut short does not say how long it
            // was.
            let starts = of_log
                .iter()
                .chain(self.headerless())
                .map(|s| s.header.start);
            let starts = starts.chain(kept().filter_map(|n| names::kept_start(n)));
            let bound = starts.filter(|s| *s > start).min();
            let bound = bound.unwrap_or(control.prepared_end.max(start));
            let id = Some(control.log_id);
            if let Some(segment) = segment_from_batches(dir, name, id, start, bound, &units)? {
                take(segment);
            }
        }
        for segment in self.headerless() {
            take(Segment::new(dir.clone(), segment.name(), segment.header));
        }
        let names = of_log.into_iter().map(|s| s.name());
        for name in names.chain(kept().cloned()) {
            let header = match read_header(dir, &name) {
                Ok(Found::Whole(h)) if h.log_id == control.log_id => h,
                Ok(_) | Err(Error::NewerFormat { .. }) => continue,
                // Removed since it was listed.
                Err(e) if e.is_not_found() => continue,
                Err(e) => return Err(e),
            };
            take(Segment::new(dir.clone(), name, header));
        }
        Ok(segments)
    }
}
