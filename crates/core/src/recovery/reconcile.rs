//! Comparison of the files in the directory with the control file, and removal of the files that
//! interrupted operations have left.

use crate::error::{Error, Result};
use crate::names;
use crate::recovery::listing;
use crate::recovery::opening::Opening;
use crate::scan::coverage::{adopt, check_bounds, gaps, reject_misnamed};
use crate::storage::builder::{RetireAction, Spare, retire};
use crate::storage::directory::set_aside;
use crate::storage::listing::{Listing, list_of};
use crate::storage::segment::Segment;
use crate::storage::segment_header::{HeaderRead, read_header_once};
use crate::storage::segments::Segments;
use logforce_device::Directory;
use logforce_format::{Control, Lsn, SegmentHeader, planted};
use std::sync::Arc;

/// Files that are not part of the log: an interrupted preparation, truncation or recycling has left them.
pub(super) struct Leftovers {
    preparing: Vec<String>,
    spares: Vec<(String, u64)>,
    /// Segments that the control file does not list. Those below the first listed one are left by a crash
    /// between the update of the control file and the rename. Those at or above the prepared end are left
    /// by a crash between the preparation and the update.
    unlisted: Vec<Arc<Segment>>,
    prepared_end: Lsn,
}

impl Leftovers {
    /// Returns the names of segments behind the prepared end, in which no batch was ever written.
    pub(super) fn unused(&self) -> impl Iterator<Item = String> {
        let behind = self
            .unlisted
            .iter()
            .filter(|s| s.header.start >= self.prepared_end);
        behind.map(|s| s.name())
    }
}

impl Opening {
    /// Lists the segments and the leftover files. Changes nothing.
    pub(super) fn list_segments(
        &self,
        control: &mut Control,
        both_slots: bool,
    ) -> Result<(Segments, Leftovers)> {
        let entries = listing::list(&self.dir)?;
        let Listing {
            mut segments,
            spares,
            preparing,
            vanished,
        } = list_of(&self.dir, control.log_id, entries.clone())?;
        // This process holds the lock, so no writer removes files. A file that vanished may be needed.
        vanished.map_or(Ok(()), Err)?;
        // Confirms that the missing segments do not exist, before it acts on that.
        let missing = gaps(&segments, control).into_iter().map(|(from, _)| from);
        for start in missing.chain([control.prepared_end]) {
            listing::check_absence(&self.dir, &entries, &names::segment(start))?;
        }
        adopt(&segments, control, both_slots, true)?;
        // A device that lost the write of a header returns the previous header, of a truncated segment.
        // Otherwise the file, with acknowledged records in it, would be reused or removed.
        reject_misnamed(&mut segments, control, both_slots);
        // If segments and control file disagree, it is unknown which one is wrong.
        check_bounds(&segments, control, self.dir.path())?;
        let mut unlisted = segments.take_below(control.first_segment);
        unlisted.extend(segments.take_from(control.prepared_end));
        let leftovers = Leftovers {
            preparing,
            spares,
            unlisted,
            prepared_end: control.prepared_end,
        };
        Ok((segments, leftovers))
    }

    /// Removes the leftovers of interrupted operations, and corrects the names of segments. Returns the
    /// spares.
    pub(super) fn clear_leftovers(
        &self,
        segments: &Segments,
        leftovers: Leftovers,
    ) -> Result<Vec<Spare>> {
        for name in leftovers.preparing {
            self.dir
                .remove(&name)
                .map_err(Error::io("remove", self.dir.path().join(&name)))?;
        }
        let unlisted = &leftovers.unlisted;
        let in_use = segments.all().into_iter().chain(unlisted.iter().cloned());
        let in_use = in_use.map(|s| s.header).collect();
        let mut spares = self.usable_spares(leftovers.spares, in_use)?;
        for segment in leftovers.unlisted {
            let reuses = spares.len() < self.options.max_spare_segments
                && self.sizes.fits(segment.header.len, self.sizes.first);
            let action = match reuses {
                true => RetireAction::Reuse,
                false => RetireAction::Remove,
            };
            spares.extend(retire(&self.dir, &segment, action)?);
        }
        self.fix_names(segments)?;
        spares.retain(|s| {
            let keep = self.sizes.fits(s.len, self.sizes.first);
            if !keep {
                // A file that cannot be removed only takes up space.
                let _ = self.dir.remove(&s.name);
            }
            keep
        });
        for more in spares.drain(self.options.max_spare_segments.min(spares.len())..) {
            // An earlier opening may have kept more spares.
            let _ = self.dir.remove(&more.name);
        }
        Ok(spares)
    }

    /// Returns the usable spares (truncated segments kept for reuse). Removes a spare that is a second name
    /// of a segment or of another spare.
    ///
    /// On a filesystem that does not write two directory entries atomically, a crash during a rename leaves
    /// both names. Reusing a spare that is also a segment would overwrite that segment. A spare that is also
    /// another spare would disappear with it. Two names of one file show the same header. Two files with
    /// the same header exist only if preparing one of them failed midway, and that one can be removed. If a
    /// name cannot be removed, the opening fails: once the file is prepared as another segment, a torn
    /// header makes both names look unused.
    ///
    /// A spare whose name belongs to a segment is removed, too: when that segment is retired, its file gets
    /// this name, and one file would be listed twice.
    fn usable_spares(
        &self,
        listed: Vec<(String, u64)>,
        mut seen: Vec<SegmentHeader>,
    ) -> Result<Vec<Spare>> {
        let names_in_use: Vec<String> = seen.iter().map(|h| names::spare(h.start)).collect();
        let mut spares = Vec::new();
        for (name, len) in listed {
            let header = match read_header_once(&self.dir, &name) {
                Ok(HeaderRead::Whole(header)) => Some(header),
                // This is not a segment in use, since their headers were valid.
                Ok(HeaderRead::Broken { .. }) | Err(Error::NewerFormat { .. }) => None,
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
            // With an unfinished or broken header, it is unknown whether the space was written.
            let unwritten = header.is_none_or(|h| h.unwritten);
            spares.push(Spare {
                name,
                len,
                unwritten,
            });
        }
        Ok(spares)
    }

    /// Renames every segment to the name of its start. The header counts, but a wrong name would block the
    /// preparation of the segment with that name.
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

    /// Renames segments as [`Opening::fix_names`] does, and also sets aside files whose names are needed,
    /// since recovery now changes the log. Otherwise a segment with the name of a later one would be set
    /// aside when that one is prepared, and be missing at the next opening.
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
                // The other segment gets a temporary name until it is renamed itself. If a crash leaves that
                // name, the header counts.
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
}

/// Removes files of a killed calibration, empty files that were set aside, and an unfinished control file,
/// which is not needed beside the opened one. The caller holds the lock. A file that cannot be removed only
/// takes up space.
///
/// If another process is calibrating in this directory, its file is removed as well. That process notices,
/// and discards its result.
pub(super) fn clear(dir: &Arc<dyn Directory>) {
    for entry in dir.entries().unwrap_or_default() {
        let is_useless = names::is_trial(&entry.name)
            || names::is_set_aside(&entry.name) && entry.len == 0
            || entry.name == names::CONTROL_NEW
            // A torn rename can leave a backup's control file with both of its names.
            || entry.name == names::BACKUP;
        if entry.is_file && is_useless {
            let _ = dir.remove(&entry.name);
        }
    }
}
