//! What segments there are, what must be there, and what an interrupted operation left behind.

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::recovery::opening::Opening;
use crate::recovery::steady;
use crate::scan::coverage::{adopt, check_bounds, gaps, lost_segment};
use crate::scan::end_of_log::End;
use crate::storage::aside::set_aside;
use crate::storage::builder::{Leaving, Spare, retire};
use crate::storage::cuts::holds_some;
use crate::storage::listing::{Listing, list_of};
use crate::storage::segment_header::{Found, read_header_once};
use crate::storage::segments::Segments;
use logforce_format::{
    Control, Epoch, Lsn, MAX_SEGMENT_LEN, MIN_WRITE_UNIT, SegmentHeader, planted,
};
use std::path::Path;

impl Opening {
    /// Lists what is there and clears away what an interrupted preparation, truncation or
    /// recycling left behind.
    pub(super) fn reconcile_segments(
        &self,
        control: &mut Control,
        both_slots: bool,
    ) -> Result<(Segments, Vec<Spare>)> {
        let entries = steady::entries(&self.dir)?;
        let Listing {
            mut segments,
            spares,
            preparing,
            overtaken,
        } = list_of(&self.dir, control.log_id, entries.clone())?;
        // Nobody else may touch it now: what went may be what is needed.
        overtaken.map_or(Ok(()), Err)?;
        // Before anything is made of it that they seem to be missing.
        let missing = gaps(&segments, control).into_iter().map(|(from, _)| from);
        for start in missing.chain([control.prepared_end]) {
            steady::check_absence(&self.dir, &entries, &names::segment(start))?;
        }
        for name in preparing {
            self.dir
                .remove(&name)
                .map_err(Error::io("remove", self.dir.path().join(&name)))?;
        }
        adopt(&segments, control, both_slots)?;
        // Before anything is taken away: which of the two is wrong nobody knows.
        check_bounds(&segments, control, self.dir.path())?;
        let mut spares = self.files_of_their_own(spares, &segments)?;
        // Below the front: the crash came between the control file and the renaming. At or above
        // the prepared end: between the preparation and the control file.
        let mut loose = segments.take_below(control.first_segment);
        loose.extend(segments.take_from(control.prepared_end));
        for segment in loose {
            let reuse = spares.len() < self.options.max_spare_segments
                && segment.header.len == self.options.segment_size;
            let leaving =
                match holds_some(&segments.cuts, segment.header.start, segment.header.end()) {
                    true => Leaving::Keep,
                    false if reuse => Leaving::Reuse,
                    false => Leaving::Remove,
                };
            spares.extend(retire(&self.dir, &segment, leaving)?);
        }
        self.straighten_names(&segments)?;
        spares.retain(|s| {
            let keep = s.len == self.options.segment_size;
            if !keep {
                // A left-over costs space and nothing else.
                let _ = self.dir.remove(&s.name);
            }
            keep
        });
        for more in spares.drain(self.options.max_spare_segments.min(spares.len())..) {
            // Of an earlier opening, which may have kept more of them.
            let _ = self.dir.remove(&more.name);
        }
        Ok((segments, spares))
    }

    /// The spares that may be used: files that nothing else is, under names that nothing else gets.
    ///
    /// A crash in a rename leaves both names where two entries of a directory are not written as one.
    /// Whoever used a spare that is another name of a segment would write over that segment; one that
    /// is another name of a spare would be gone when it was wanted. Two names of one file show the
    /// same header. So do two files only where the making of one failed half way, and that one is no
    /// loss. A name that cannot be removed ends the opening: once the file is being made into another
    /// segment, a torn header makes both names look like nothing.
    ///
    /// A spare with the name of a segment's place goes too, whatever it holds: when that segment is
    /// retired, its file takes this name, and one file would be listed twice.
    fn files_of_their_own(
        &self,
        listed: Vec<(String, u64)>,
        segments: &Segments,
    ) -> Result<Vec<Spare>> {
        let mut seen: Vec<SegmentHeader> = segments.all().iter().map(|s| s.header).collect();
        let places: Vec<String> = seen.iter().map(|h| names::spare(h.start)).collect();
        let mut spares = Vec::new();
        for (name, len) in listed {
            let header = match read_header_once(&self.dir, &name) {
                Ok(Found::Whole(header)) => Some(header),
                // None of a segment that is used: those have shown theirs.
                Ok(Found::Broken { .. }) | Err(Error::NewerFormat { .. }) => None,
                Err(e) => return Err(e),
            };
            let twin = header.is_some_and(|h| seen.contains(&h)) || places.contains(&name);
            if twin && !planted!("spare-of-two-names") {
                let removed = self.dir.remove(&name);
                removed.map_err(Error::io("remove", self.dir.path().join(&name)))?;
                continue;
            }
            seen.extend(header);
            spares.push(Spare { name, len });
        }
        Ok(spares)
    }

    /// Gives every segment the name that its place asks for. Its header is what counts, but the
    /// name of another place would be in the way when that place is prepared.
    fn straighten_names(&self, segments: &Segments) -> Result<()> {
        let mut taken: Vec<String> = steady::entries(&self.dir)?
            .into_iter()
            .map(|e| e.name)
            .collect();
        for segment in segments.all() {
            let (from, to) = (segment.name(), names::segment(segment.header.start));
            if from != to && !taken.contains(&to) {
                let path = self.dir.path().join(&from);
                let renamed = self.dir.rename(&from, &to);
                renamed.map_err(Error::io("rename", path))?;
                segment.set_name(to.clone());
                taken.retain(|name| *name != from);
                taken.push(to);
            }
        }
        Ok(())
    }

    /// As `straighten_names`, whatever is in the way, now that the log is going to be changed. A
    /// segment that kept the name of a place that is prepared later would be set aside there, and
    /// lost with the next opening.
    pub(super) fn enforce_names(&self, segments: &Segments) -> Result<()> {
        let rename = |from: &str, to: &str| {
            let renamed = self.dir.rename(from, to);
            renamed.map_err(Error::io("rename", self.dir.path().join(from)))
        };
        let mut unused = Lsn::MAX;
        for segment in segments.all() {
            let (from, to) = (segment.name(), names::segment(segment.header.start));
            if from == to {
                continue;
            }
            let entries = steady::entries(&self.dir)?;
            let taken = |name: &str| entries.iter().any(|e| e.name == name);
            if let Some(other) = segments.all().into_iter().find(|s| s.name() == to) {
                // Until its turn comes it has a name that a crash may leave: its header counts.
                while taken(&names::segment(unused)) {
                    unused = Lsn(unused.0 - 1);
                }
                let name = names::segment(unused);
                rename(&to, &name)?;
                other.set_name(name);
                unused = Lsn(unused.0 - 1);
            } else if taken(&to) {
                set_aside(&self.dir, &to)?;
            }
            rename(&from, &to)?;
            segment.set_name(to);
        }
        Ok(())
    }

    /// Takes the files out of the way that bear names of `[from, to)` and count for nothing. All of
    /// them: one that could not be read just now, and can be next time, would be a second segment
    /// for its place.
    fn set_aside(&self, segments: &Segments, from: Lsn, to: Lsn) -> Result<()> {
        for name in steady::entries(&self.dir)?.into_iter().map(|e| e.name) {
            let claims = names::claimed_start(&name).is_some_and(|s| from <= s && s < to);
            if claims && !segments.all().iter().any(|s| s.name() == name) {
                set_aside(&self.dir, &name)?;
            }
        }
        Ok(())
    }

    /// Puts empty segments where some are missing, so that the control file's promise holds again.
    pub(super) fn fill_gaps(
        &self,
        segments: &mut Segments,
        control: &Control,
        epoch: Epoch,
        gaps: Vec<(Lsn, Lsn)>,
    ) -> Result<()> {
        for (mut from, to) in gaps {
            self.set_aside(segments, from, to)?;
            while from < to {
                let rest = to.since(from);
                let len = if rest > MAX_SEGMENT_LEN {
                    MAX_SEGMENT_LEN / 2
                } else {
                    rest
                };
                let fits = |unit: &u32| SegmentHeader::geometry_is_valid(from, len, *unit);
                let Some(unit) = [4096, MIN_WRITE_UNIT].into_iter().find(fits) else {
                    return Err(self.impossible(from));
                };
                let segment = self
                    .builder(control.log_id, epoch)
                    .make(from, len, unit, None)
                    .map_err(|e| self.full(e))?;
                segment.writer_done();
                segments.insert(segment);
                from = from.plus(len);
            }
        }
        Ok(())
    }
}

/// The first segment missing behind `end`, where a scan came to an end that looks like any other:
/// that segment may have held acknowledged records, and the stamp that calls this end damage. An end
/// in silence would lose them, and leave no marker by which what is cut here stays cut.
///
/// Not after a close in order: that one came to this end, and nothing behind it was ever used.
pub(super) fn missing_behind(
    path: &Path,
    segments: &Segments,
    gaps: &[(Lsn, Lsn)],
    control: &Control,
    both_slots: bool,
    end: &End,
) -> Option<Damage> {
    let at = end.state.at;
    if control.clean && both_slots && at == control.anchor.lsn {
        return None;
    }
    let (lsn, _) = gaps.iter().find(|(from, _)| *from >= at)?;
    let mut lost = lost_segment(path, segments, *lsn, control);
    lost.durable_to = end.trusted;
    Some(lost)
}
