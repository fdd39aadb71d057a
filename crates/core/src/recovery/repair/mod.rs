//! Repair: ends a log before the damage that an opening refuses, offline, so that it opens again.
//!
//! The order of the steps makes every crash in between safe:
//! 1. Copies everything that is removed, and makes the file of the segment in which the log continues. Both
//!    may fail for lack of space.
//! 2. Moves the anchor to the end of the log, so that an opening after a crash finds the damage again.
//! 3. Writes a batch to the new segment, behind all others. It voids the removed part.
//! 4. Makes empty segments in place of missing ones. Before step 3, a crash in between would hide the loss.
//! 5. Writes zeroes over the start of the removed parts. Otherwise they would come back if that batch is lost
//!    later.
//!
//! No LSN that may have been read is used again.

mod copies;
mod end;
mod scan;

use crate::error::{Damage, Error, Result};
use crate::options::{OpenMode, Options};
use crate::recovery::{Locked, lock_log};
use crate::scan::coverage::{check_counters, lost_segment};
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::directory::check_path;
use copies::Copies;
use end::can_fill;
use logforce_device::{Guarantee, System, Verdict};
use logforce_format::Lsn;
use scan::control_of_copies;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of a [repair](repair).
#[derive(Debug, Clone, Default)]
pub struct RepairOptions {
    aside: Option<PathBuf>,
    dry_run: bool,
    not_below: Lsn,
}

impl RepairOptions {
    /// Returns the default options: the copies are made beside the log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the parent directory of the directory with the copies. Default: the parent of the log's
    /// directory. Set another one if that is full or cannot be written. The log's own filesystem still needs
    /// space for one segment.
    pub fn aside(mut self, parent: impl Into<PathBuf>) -> Self {
        self.aside = Some(parent.into());
        self
    }

    /// Reports what a repair would do, and changes nothing. The dry run takes the log's lock. Default: false.
    pub fn dry_run(mut self, dry: bool) -> Self {
        self.dry_run = dry;
        self
    }

    /// Refuses to end the log below `applied`, because the owner's data file needs the log from there on.
    #[doc(hidden)]
    pub fn not_below(mut self, applied: Lsn) -> Self {
        self.not_below = applied;
        self
    }
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Part that was removed from the log; `None` if the log did not end at damage.
    pub cut: Option<Cut>,
    /// Damage for which the metadata was given up: the log now has none. `None` if the metadata is intact.
    pub lost_meta: Option<Damage>,
    /// Directory with copies of the changed files. It contains everything that was removed, and `salvage`
    /// reads it. It may begin with records that the log still has. `None` if nothing had to be repaired.
    pub aside: Option<PathBuf>,
    /// Size of the copies in bytes.
    pub bytes: u64,
    /// Number of bytes that could not be read. The copies contain zeroes instead.
    pub unread: u64,
    /// Directories with copies that existed before. If a repair was interrupted, or its report was lost, one
    /// of them contains what it removed.
    pub earlier: Vec<PathBuf>,
}

/// A part that was removed from a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut {
    /// Start of the removed part. All records below are still in the log, except those that a
    /// `truncate_back` had voided whose own batch is in the removed part.
    pub from: Lsn,
    /// Exclusive end of the removed part, at which the log continues. In a dry run, the end of the prepared
    /// segments.
    pub to: Lsn,
    /// Damage that made the log end.
    pub damage: Damage,
    /// Number of removed records that can still be read whole, from the copies. Others may be lost.
    pub records: u64,
}

/// Repairs a log that an opening refuses: ends it before the damage, after copying everything that it
/// removes. Does not change a log that opens. After a crash, or an error, call it again.
#[doc(hidden)]
pub fn repair(system: &dyn System, path: &Path, options: &RepairOptions) -> Result<RepairReport> {
    check_path(path)?;
    // A repair must be possible on any filesystem and device. It forces its writes with barriers.
    let any = Options::new()
        .require(Guarantee::Nothing)
        .require_verdict(Verdict::Contradicted)
        .calibrate(false);
    let locked = lock_log(system, path, OpenMode::OpenExisting, any, false)?;
    let repaired = locked.repair(system, options);
    repaired.map_err(|e| match e {
        Error::Damaged(mut damage) => {
            // The error must not recommend the repair that has just failed.
            damage.repairable = false;
            Error::Damaged(damage)
        }
        Error::Poisoned { cause, .. } => Arc::unwrap_or_clone(cause),
        // `NoSpace` advises to truncate the log, which is possible only in an open log.
        Error::NoSpace { path, source, .. } => {
            let doing = "create the segment in which the log continues, in";
            Error::Io {
                doing,
                path,
                source,
            }
        }
        e => e,
    })
}

impl Locked {
    fn repair(self, system: &dyn System, options: &RepairOptions) -> Result<RepairReport> {
        let Locked {
            opening,
            loaded,
            lock: _lock,
            ..
        } = self;
        let path = opening.dir.path().to_owned();
        check_counters(&loaded.control, &path)?;
        let meta = LoadedMeta::load(&opening.dir, &loaded.control)?;
        let lost_meta = meta.lost(&path);
        let (mut control, both_slots) = (loaded.control.clone(), loaded.both);
        let found = opening.scan_to_damage(&mut control, both_slots)?;
        let parent = options.aside.as_deref();
        let mut report = RepairReport {
            cut: None,
            lost_meta,
            aside: None,
            bytes: 0,
            unread: 0,
            earlier: copies::earlier(system, &path, parent, control.log_id),
        };
        let lost = found.end.lost.clone();
        if lost.is_none() && report.lost_meta.is_none() && found.gaps.is_empty() {
            return Ok(report);
        }
        if let Some((lsn, _)) = found.gaps.iter().find(|(from, to)| !can_fill(*from, *to)) {
            let mut damage = lost_segment(&path, &found.segments, *lsn, &control);
            damage.found += "; no empty segment can replace it";
            return Err(Error::Damaged(Box::new(damage)));
        }
        // An append that the damage has cut off is voided as a whole. The copies begin at the last batch
        // boundary at which no append is unfinished, because batches are read from such a boundary.
        let (from, begin) = match lost {
            Some(_) => (found.cut_from(), found.end.append_boundary.at),
            None => {
                let gap = found.gaps.first().map_or(Lsn::MAX, |gap| gap.0);
                (gap, gap)
            }
        };
        if let Some(damage) = lost.as_ref().filter(|_| from < options.not_below) {
            return Err(Error::Damaged(Box::new(Damage {
                needed_from: Some(options.not_below),
                ..damage.clone()
            })));
        }
        let files = opening.files_from(&found, begin)?;
        let lsn = Some(from)
            .filter(|from| *from < Lsn::MAX)
            .unwrap_or_default();
        let target = copies::path_for(system, &path, parent, control.log_id, lsn)?;
        if options.dry_run {
            if let Some(damage) = lost {
                report.cut = Some(Cut {
                    from,
                    to: control.prepared_end,
                    damage,
                    records: copies::records(system, &path, from)?,
                });
            }
            report.bytes = opening.bytes_of(&files)?;
            report.aside = Some(target);
            return Ok(report);
        }
        let its_control = control_of_copies(&control, &found, begin, meta.bytes().is_some())?;
        let Copies {
            path: aside,
            bytes,
            unread,
        } = copies::copy(
            system,
            &opening.dir,
            &files,
            &target,
            &its_control,
            meta.bytes(),
        )?;
        let to = opening.end_log(loaded, control, found, &meta, report.lost_meta.is_some())?;
        if let Some(damage) = lost {
            report.cut = Some(Cut {
                from,
                to,
                damage,
                records: copies::records(system, &aside, from)?,
            });
        }
        Ok(RepairReport {
            aside: Some(aside),
            bytes,
            unread,
            ..report
        })
    }
}
