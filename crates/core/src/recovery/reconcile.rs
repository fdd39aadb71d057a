//! Reconciles the files in the directory with the control file, and removes what interrupted
//! operations have left.

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::options::OnDamage;
use crate::recovery::listing;
use crate::recovery::opening::Opening;
use crate::scan::coverage::{adopt, check_bounds, gaps, lost_segment, reject_misnamed};
use crate::scan::end_of_log::End;
use crate::storage::builder::{RetireAction, Spare, retire};
use crate::storage::given_up::set_aside;
use crate::storage::listing::{Listing, list_of};
use crate::storage::ranges::overlap_any;
use crate::storage::segment_header::{Found, read_header_once};
use crate::storage::segments::Segments;
use logforce_format::{
    Control, Epoch, Lsn, MAX_SEGMENT_LEN, MIN_WRITE_UNIT, SegmentHeader, planted,
};
use std::path::Path;

impl Opening {
    /// Lists the segments, and removes what an interrupted preparation, truncation or recycling has
    /// left.
    pub(super) fn reconcile_segments(
        &self,
        control: &mut Control,
        both_slots: bool,
    ) -> Result<(Segments, Vec<Spare>)> {
        let entries = listing::list(&self.dir)?;
        let Listing {
            mut segments,
            spares,
            preparing,
            vanished,
        } = list_of(&self.dir, control.log_id, entries.clone())?;
        // This process holds the lock: a file that vanished anyway may be one that is needed.
        vanished.map_or(Ok(()), Err)?;
        // Confirms that segments are missing before it acts on that.
        let missing = gaps(&segments, control).into_iter().map(|(from, _)| from);
        for start in missing.chain([control.prepared_end]) {
            listing::check_absence(&self.dir, &entries, &names::segment(start))?;
        }
        adopt(&segments, control, both_slots)?;
        // A device that lost the write of a header shows the one before it, of a truncated segment. The file
        // would be used again or removed, with the acknowledged records in it.
        reject_misnamed(&mut segments, control, both_slots);
        // Before anything is removed: if the two disagree, it is unknown which one is wrong.
        check_bounds(&segments, control, self.dir.path())?;
        // If a segment is missing, it may be any file that is removed or renamed below: a device may have lost
        // the rename of a spare, or the write of its header.
        if let Some(&(lsn, _)) = gaps(&segments, control).first()
            && self.options.on_damage == OnDamage::Refuse
        {
            let lost = lost_segment(self.dir.path(), &segments, lsn, control);
            return Err(Error::Damaged(Box::new(lost)));
        }
        for name in preparing {
            self.dir
                .remove(&name)
                .map_err(Error::io("remove", self.dir.path().join(&name)))?;
        }
        let mut spares = self.usable_spares(spares, &segments)?;
        // A segment below the first listed one: a crash came between the control file's update and
        // the rename. One at or above the prepared end: between the preparation and the update.
        let mut unlisted = segments.take_below(control.first_segment);
        unlisted.extend(segments.take_from(control.prepared_end));
        for segment in unlisted {
            let reuse = spares.len() < self.options.max_spare_segments
                && self.sizes.fits(segment.header.len, self.sizes.first);
            let action = match overlap_any(
                &segments.given_up,
                segment.header.start,
                segment.header.end(),
            ) {
                true => RetireAction::Keep,
                false if reuse => RetireAction::Reuse,
                false => RetireAction::Remove,
            };
            spares.extend(retire(&self.dir, &segment, action)?);
        }
        self.fix_names(&segments)?;
        spares.retain(|s| {
            let keep = self.sizes.fits(s.len, self.sizes.first);
            if !keep {
                // A file that cannot be removed costs only space.
                let _ = self.dir.remove(&s.name);
            }
            keep
        });
        for more in spares.drain(self.options.max_spare_segments.min(spares.len())..) {
            // An earlier opening may have kept more spares.
            let _ = self.dir.remove(&more.name);
        }
        Ok((segments, spares))
    }

    /// The spares (truncated segments kept for reuse) that may be used: files that are not another segment or spare under a second
    /// name.
    ///
    /// A crash during a rename leaves both names, on a filesystem that does not write two directory
    /// entries atomically. Reusing a spare that is also a segment would overwrite that segment; a
    /// spare that is also another spare would disappear with it. Two names of one file show the
    /// same header. Two files with the same header exist only if preparing one of them failed half
    /// way, and that one is no loss. If a name cannot be removed, the opening fails: once the file
    /// is prepared as another segment, a torn header makes both names look unused.
    ///
    /// A spare whose name belongs to a segment is removed too: when that segment is retired, its
    /// file gets this name, and one file would be listed twice.
    fn usable_spares(&self, listed: Vec<(String, u64)>, segments: &Segments) -> Result<Vec<Spare>> {
        let mut seen: Vec<SegmentHeader> = segments.all().iter().map(|s| s.header).collect();
        let names_in_use: Vec<String> = seen.iter().map(|h| names::spare(h.start)).collect();
        let mut spares = Vec::new();
        for (name, len) in listed {
            let header = match read_header_once(&self.dir, &name) {
                Ok(Found::Whole(header)) => Some(header),
                // Not a segment in use: their headers were valid.
                Ok(Found::Broken { .. }) | Err(Error::NewerFormat { .. }) => None,
                Err(e) => return Err(e),
            };
            let is_alias =
                header.is_some_and(|h| seen.contains(&h)) || names_in_use.contains(&name);
            let must_go = planted!("spare-of-two-names", false, else is_alias);
            if must_go {
                let removed = self.dir.remove(&name);
                removed.map_err(Error::io("remove", self.dir.path().join(&name)))?;
                continue;
            }
            seen.extend(header);
            // An unfinished or broken header says nothing.
            let unwritten = header.is_none_or(|h| h.unwritten);
            spares.push(Spare {
                name,
                len,
                unwritten,
            });
        }
        Ok(spares)
    }

    /// Gives every segment the name of its start. The header counts, but a wrong name would be in
    /// the way when the segment of that name is prepared.
    fn fix_names(&self, segments: &Segments) -> Result<()> {
        let mut taken: Vec<String> = listing::list(&self.dir)?
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

    /// As [`Opening::fix_names`], and sets aside files that are in the way, now that recovery
    /// changes the log. A segment with the name of one that is prepared later would be set aside
    /// then, and be missing at the next opening.
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
            let entries = listing::list(&self.dir)?;
            let taken = |name: &str| entries.iter().any(|e| e.name == name);
            if let Some(other) = segments.all().into_iter().find(|s| s.name() == to) {
                // A temporary name until its turn comes; if a crash leaves it, the header counts.
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

    /// Sets aside the files with names in `[from, to)` that are not segments. All of them: one that
    /// cannot be read now, but can be next time, would be a second segment for the same range.
    fn set_aside(&self, segments: &Segments, from: Lsn, to: Lsn) -> Result<()> {
        for name in listing::list(&self.dir)?.into_iter().map(|e| e.name) {
            let claims = names::claimed_start(&name).is_some_and(|s| from <= s && s < to);
            if claims && !segments.all().iter().any(|s| s.name() == name) {
                set_aside(&self.dir, &name)?;
            }
        }
        Ok(())
    }

    /// Creates empty segments in place of missing ones, so that every segment that the control file
    /// lists exists again.
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
                    return Err(self.no_segment_at(from));
                };
                let segment = self
                    .builder(control.log_id, epoch)
                    .make(from, len, unit, None)
                    .map_err(|e| self.no_space(e))?;
                segment.writer_done();
                segments.insert(segment);
                from = from.plus(len);
            }
        }
        Ok(())
    }
}

/// The first missing segment after `end`, where a scan found an ordinary end of the log. That
/// segment may have held acknowledged records, and the stamp that proves this end to be damage.
/// Ending the log silently would lose them, and leave no marker that keeps what is dropped here
/// dropped.
///
/// Not after a clean close: the log ended here then, and nothing after it was ever used.
pub(super) fn missing_beyond(
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
    lost.durable_to = end.proven;
    Some(lost)
}
