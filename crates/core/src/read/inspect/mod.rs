//! Inspecting a log without opening it for writing. Inspection locks, changes and forces nothing.

pub(crate) mod info;
mod report;

use crate::error::{Damage, Error, Result};
use crate::metrics::{self, LiveStats};
use crate::names;
use crate::read::view::View;
use crate::scan::coverage::{
    adopt, check_bounds, check_counters, gaps, lost_segment, reject_misnamed,
};
use crate::scan::end_of_log::{anchor_state, find_end};
use crate::scan::walk::types::{Changed, Walk, WalkInput};
use crate::scan::walk::void_ranges::void_ranges;
use crate::storage::control_file::ControlFile;
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::directory::existing_directory;
use crate::storage::headerless::find_headerless;
use crate::storage::listing::{Listing, list, list_usable};
use crate::storage::segment::Segment;
use crate::storage::segment_header::{HeaderRead, read_header};
use crate::storage::segments::Segments;
use info::{LogSummary, SegmentInfo, VerifyReport, Visit};
use logforce_device::{Directory, Runtime, System};
use logforce_format::{Anchor, Control, EPOCH_HISTORY, Epoch, LogId, Lsn, RecoveryCase};
use report::VerifyReportBuilder;
use std::path::Path;
use std::sync::Arc;

/// Number of times that a position is read again before it counts as damaged, since a writer may have
/// been writing there.
const RETRIES: usize = 5;
/// Number of times that the directory is listed again while a writer changes it.
const LIST_RETRIES: usize = 100;

/// A function that lists the segments.
type List = fn(&Arc<dyn Directory>, LogId) -> Result<Listing>;

/// A log opened for inspection.
pub struct Inspector {
    dir: Arc<dyn Directory>,
    control: Control,
    control_whole: bool,
    bounds_known: bool,
    meta: LoadedMeta,
    in_use: bool,
    listing: Listing,
    /// Prepared segments that the control file does not list yet.
    unlisted: Vec<Arc<Segment>>,
    /// Segments with a damaged header, which were identified by their batches.
    headerless: Vec<Arc<Segment>>,
}

/// Finds by name the segments that a writer has added since the listing. Returns true if the log then
/// has no gaps.
fn find_added(
    segments: &mut Segments,
    dir: &Arc<dyn Directory>,
    control: &Control,
) -> Result<bool> {
    loop {
        match gaps(segments, control).first() {
            None => return Ok(true),
            Some(&(at, _)) if segments.add_by_name(dir, control.log_id, at)? => {}
            Some(_) => return Ok(false),
        }
    }
}

/// Returns true if a process has the log open for writing. An error does not count as "no": otherwise the
/// caller would return records of a running writer that are not durable yet.
///
/// A writer also locks the control file (`Directory::lock_file`), since the lock file may be deleted.
pub(crate) fn is_in_use(dir: &Arc<dyn Directory>) -> Result<bool> {
    for name in [names::LOCK, names::CONTROL] {
        let locked = dir.is_locked(name);
        if locked.map_err(Error::io("check the lock", dir.path().join(name)))? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Inspector {
    /// Opens the log in `path` for inspection.
    #[doc(hidden)]
    pub fn open(system: &dyn System, path: impl AsRef<Path>) -> Result<Inspector> {
        Self::of(existing_directory(system, path.as_ref())?)
    }

    /// Opens the log in `dir` for inspection.
    pub(crate) fn of(dir: Arc<dyn Directory>) -> Result<Inspector> {
        let inspector = Self::listed(dir, list)?;
        let path = inspector.dir.path();
        let control = &inspector.control;
        check_bounds(&inspector.listing.segments, control, path)?;
        check_counters(control, path)?;
        Ok(inspector)
    }

    /// Opens the log with the segments that `list` finds, without checking them against the control
    /// file.
    fn listed(dir: Arc<dyn Directory>, list: List) -> Result<Inspector> {
        let loaded = match ControlFile::load(&dir) {
            Err(e) if e.is_not_found() => {
                let why = match dir.identity_of(names::BACKUP) {
                    Ok(_) => names::UNFINISHED_BACKUP,
                    Err(_) => "it has no 'control' file",
                };
                return Err(Error::NoLog {
                    path: dir.path().to_owned(),
                    why: why.to_owned(),
                });
            }
            other => other?,
        };
        // While a writer runs, the control file may be out of date when the directory is listed: the
        // writer may have added or removed a segment in between.
        let mut loaded = loaded;
        let mut attempts = 0;
        let mut listing = loop {
            let mut listing = list(&dir, loaded.control.log_id)?;
            let before = loaded.control;
            loaded = ControlFile::load(&dir)?;
            let is_unchanged =
                loaded.control.sequence == before.sequence && listing.vanished.is_none();
            // A listing without a change in between could take long: on some systems, listing takes longer
            // than a busy writer needs to truncate again. Truncated segments are not needed, and added
            // ones are found by name. But after another opening, the same name may denote another
            // segment.
            let same = loaded.control.epoch == before.epoch;
            let whole = same && find_added(&mut listing.segments, &dir, &loaded.control)?;
            if is_unchanged || whole || attempts == LIST_RETRIES {
                break listing;
            }
            attempts += 1;
        };
        adopt(&listing.segments, &mut loaded.control, loaded.both, false)?;
        reject_misnamed(&mut listing.segments, &loaded.control, loaded.both);
        // The next opening may replace a segment that the control file does not list. A walk that
        // continued in such a segment would report the change as damage.
        let prepared_end = loaded.control.prepared_end;
        let unlisted = listing.segments.take_from(prepared_end);
        let mut meta = LoadedMeta::load(&dir, &loaded.control)?;
        for _ in 0..RETRIES {
            // A writer may be writing either slot at the moment.
            if meta.lost(dir.path()).is_none() {
                break;
            }
            meta = LoadedMeta::load(&dir, &loaded.control)?;
        }
        let in_use = is_in_use(&dir)?;
        let control = loaded.control;
        let (from, to) = (control.first_segment, control.prepared_end);
        Ok(Inspector {
            headerless: find_headerless(&dir, Some(control.log_id), &listing.segments, from, to)?,
            dir,
            control,
            control_whole: loaded.both,
            bounds_known: true,
            meta,
            in_use,
            listing,
            unlisted,
        })
    }

    /// Opens a log whose control file may be missing or damaged. All segments count. If two segments
    /// contradict each other, one counts, and the other is listed in [strays](LogSummary::strays).
    #[doc(hidden)]
    pub fn salvage(system: &dyn System, path: impl AsRef<Path>) -> Result<Inspector> {
        let path = path.as_ref();
        let dir = existing_directory(system, path)?;
        match Self::listed(dir.clone(), list_usable) {
            Ok(inspector) => return Ok(inspector),
            Err(e @ Error::NewerFormat { .. }) => return Err(e),
            // An I/O error, such as too many open files, must not lead to ignoring the control file.
            Err(e @ Error::Io { .. }) => return Err(e),
            Err(_) => {}
        }
        let nothing = || Error::NoLog {
            path: path.to_owned(),
            why: "it contains no usable segment".to_owned(),
        };
        let mut entries = dir.entries().map_err(Error::io("list", path))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut log_id = None;
        for entry in &entries {
            if !entry.is_file || names::kind(&entry.name) != names::NameKind::Segment {
                continue;
            }
            match read_header(&dir, &entry.name) {
                Ok(HeaderRead::Whole(h)) => {
                    log_id = Some(h.log_id);
                    break;
                }
                Ok(HeaderRead::Broken { .. }) | Err(Error::NewerFormat { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let listing = list_usable(&dir, log_id.unwrap_or_default())?;
        let headerless = find_headerless(&dir, log_id, &listing.segments, Lsn::ORIGIN, Lsn::MAX)?;
        let mut all = listing.segments.all();
        all.extend(headerless.iter().cloned());
        all.sort_by_key(|s| s.header.start);
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            return Err(nothing());
        };
        let mut control = Control {
            log_id: first.header.log_id,
            front: first.header.start,
            first_segment: first.header.start,
            prepared_end: last.header.end(),
            anchor: Anchor {
                lsn: first.header.start,
                ..Anchor::default()
            },
            ..Control::default()
        };
        // The history consists of the epochs of all segment headers, the latest first.
        let mut epochs: Vec<Epoch> = all.iter().map(|s| s.header.epoch).collect();
        epochs.sort_by_key(|e| std::cmp::Reverse(e.counter));
        epochs.dedup();
        epochs.truncate(EPOCH_HISTORY);
        control.epoch = epochs.first().copied().unwrap_or_default();
        control.history = epochs;
        let in_use = is_in_use(&dir)?;
        // The metadata may be valid even if the control file is damaged.
        let meta = LoadedMeta::salvaged(&dir, &control)?;
        Ok(Inspector {
            dir,
            control,
            control_whole: false,
            bounds_known: false,
            meta,
            in_use,
            listing,
            unlisted: Vec::new(),
            headerless,
        })
    }

    /// Returns a view for reading records. Fails on damage at the end of the log.
    pub(crate) fn into_view(self, runtime: Arc<dyn Runtime>) -> Result<Arc<View>> {
        let control = self.control;
        let segments = self.listing.segments;
        let path = self.dir.path().to_owned();
        if let Some(&(lsn, _)) = gaps(&segments, &control).first() {
            return Err(Error::Damaged(Box::new(lost_segment(
                &path, &segments, lsn, &control,
            ))));
        }
        let start = anchor_state(&control);
        let end = find_end(&segments, &control, start, self.control_whole, &path)?;
        check_end(end.lost.as_ref(), self.in_use)?;
        let durable = if self.in_use {
            end.proven
        } else {
            end.state.at
        };
        let input = WalkInput::new(&self.dir, &segments, &control, self.control_whole);
        let voids = void_ranges(input, &end, end.state.last_void)?;
        Ok(View::new(
            self.dir,
            runtime,
            control.log_id,
            segments,
            voids,
            control.front..durable,
        ))
    }

    /// Opens the log in `dir` whose control file is not written yet: a backup.
    pub(crate) fn of_copy(dir: Arc<dyn Directory>, control: Control) -> Result<Inspector> {
        let listing = list(&dir, control.log_id)?;
        check_bounds(&listing.segments, &control, dir.path())?;
        Ok(Inspector {
            headerless: Vec::new(),
            control_whole: true,
            bounds_known: true,
            meta: LoadedMeta::none(),
            in_use: false,
            listing,
            unlisted: Vec::new(),
            dir,
            control,
        })
    }

    /// Returns the position at which a copy of the log can end, and the segments. The position is the last
    /// boundary between appends that readers see. Fails on damage at the end of the log.
    pub(crate) fn end_for_copy(&self) -> Result<(Anchor, Segments)> {
        let segments = self.walk_segments();
        let path = self.dir.path();
        if let Some(&(lsn, _)) = gaps(&segments, &self.control).first() {
            let lost = lost_segment(path, &segments, lsn, &self.control);
            return Err(Error::Damaged(Box::new(lost)));
        }
        let start = anchor_state(&self.control);
        let (control, whole) = (&self.control, self.control_whole);
        let end = find_end(&segments, control, start, whole, path)?;
        check_end(end.lost.as_ref(), self.in_use)?;
        let boundary = match self.in_use {
            true => end.reread_append_boundary,
            false => end.append_boundary,
        };
        let anchor = Anchor {
            lsn: boundary.at,
            prev_crc: boundary.prev_crc.unwrap_or(control.first_prev_crc),
            epoch: boundary.epoch.unwrap_or_default(),
            last_void: boundary.last_void.unwrap_or(Lsn::ORIGIN),
        };
        Ok((anchor, segments))
    }

    /// Runs `read` on the log in `dir`. Runs it again after an error if a writer has changed the log
    /// meanwhile: the writer may have removed the segment that `read` needs.
    pub(crate) fn read_stable<T>(
        dir: &Arc<dyn Directory>,
        mut read: impl FnMut(Inspector) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            let inspector = Self::of(dir.clone())?;
            let before = inspector.control.sequence;
            let e = match read(inspector) {
                Err(e @ (Error::Damaged(_) | Error::Io { .. })) if attempts < RETRIES => e,
                other => return other,
            };
            attempts += 1;
            if ControlFile::load(dir)?.control.sequence == before {
                return Err(e);
            }
        }
    }

    /// Returns the control file; true if both of its slots are valid; the segments; and true if a process
    /// has the log open for writing.
    pub(crate) fn into_parts(self) -> (Control, bool, Segments, bool) {
        let whole = self.control_whole;
        (self.control, whole, self.listing.segments, self.in_use)
    }

    /// Returns the directory, the control file and the segments.
    pub(crate) fn files(&self) -> (&Arc<dyn Directory>, &Control, &Segments) {
        (&self.dir, &self.control, &self.listing.segments)
    }

    /// Returns the metadata; `None` if it was never set. Fails with [`Error::Damaged`] if it is damaged, or
    /// if it is unknown whether it was ever set, which can happen in [salvage](Inspector::salvage).
    pub fn meta(&self) -> Result<Option<Vec<u8>>> {
        let path = self.dir.path();
        match self.meta.lost(path).or_else(|| self.meta.unknown(path)) {
            Some(damage) => Err(Error::Damaged(Box::new(damage))),
            None => Ok(self.meta.bytes().map(<[u8]>::to_vec)),
        }
    }

    /// Returns the contents of the directory and of the control file.
    pub fn summary(&self) -> LogSummary {
        let c = &self.control;
        LogSummary {
            log_id: c.log_id,
            front: c.front,
            prepared_end: c.prepared_end,
            anchor: c.anchor.lsn,
            clean: c.clean && self.control_whole,
            epoch: c.epoch,
            control_whole: self.control_whole,
            bounds_known: self.bounds_known,
            meta_len: self.meta.bytes().map(|b| b.len() as u64),
            meta_whole: self.meta.is_whole(),
            meta_known: self.meta.is_known(),
            in_use: self.in_use,
            segments: self
                .listing
                .segments
                .all()
                .iter()
                .chain(&self.unlisted)
                .map(|s| SegmentInfo {
                    name: s.name(),
                    start: s.header.start,
                    len: s.header.len,
                    write_unit: s.header.write_unit,
                    epoch: s.header.epoch,
                })
                .collect(),
            spares: self.listing.spares.clone(),
            strays: self.listing.segments.rejected.clone(),
        }
    }

    /// Returns the page of statistics of the log's latest writer, if there is one. It may be old, and
    /// belong to an earlier opening than [`LogSummary::epoch`].
    pub fn live(&self) -> Option<LiveStats> {
        metrics::read(&self.dir, self.control.log_id)
    }

    /// Walks the whole log from its first segment on, and checks every byte. After damage, continues with
    /// the next whole batch that was part of the log. `visit` returns `false` to stop the walk.
    pub fn walk(&self, visit: &mut dyn FnMut(Visit<'_>) -> bool) -> Result<VerifyReport> {
        let segments = &self.walk_segments();
        let starts: Vec<Lsn> = self.headerless.iter().map(|s| s.header.start).collect();
        let walk = Walk::new(WalkInput {
            dir: &self.dir,
            segments,
            control: &self.control,
            both_slots: self.control_whole,
            headerless: &starts,
        })?;
        let mut report = VerifyReportBuilder::new(&walk, segments, self.control.front, visit);
        let (mut place, mut attempts) = (None, 0);
        let mut changed = |at: Lsn| -> Result<Changed> {
            attempts = if place == Some(at) { attempts + 1 } else { 0 };
            place = Some(at);
            let first = self.truncated_to()?.filter(|first| at < *first);
            Ok(match first {
                Some(first) => Changed::Truncated(first),
                None if attempts < RETRIES && self.may_have_changed()? => Changed::Something,
                None => Changed::Nothing,
            })
        };
        let ended = walk.run(&mut changed, &mut |event| report.event(event))?;
        if let Some(what) = self.meta.lost(self.dir.path()) {
            report.damage(&what);
        }
        Ok(report.finish(&ended))
    }

    /// Returns the segments that a walk reads, including those whose header is damaged.
    fn walk_segments(&self) -> Segments {
        let mut segments = Segments::default();
        let listed = &self.listing.segments;
        segments.rejected.clone_from(&listed.rejected);
        for segment in listed.all().iter().chain(&self.headerless) {
            segments.insert(segment.clone());
        }
        segments
    }

    /// Returns true if a process may have had the log open since this inspection began. A new opening
    /// overwrites the bytes that the previous one left after a torn batch.
    fn may_have_changed(&self) -> Result<bool> {
        Ok(self.in_use
            || is_in_use(&self.dir)?
            || self
                .control_now()?
                .is_some_and(|now| now.sequence != self.control.sequence))
    }

    /// Returns the current start of the first segment, if a writer may have moved it.
    fn truncated_to(&self) -> Result<Option<Lsn>> {
        let now = self.control_now()?;
        let now = now.filter(|now| now.log_id == self.control.log_id);
        Ok(match now {
            Some(now) if self.may_have_changed()? => Some(now.first_segment),
            _ => None,
        })
    }

    /// Returns the control file as it is now, if it is usable.
    fn control_now(&self) -> Result<Option<Control>> {
        match ControlFile::load(&self.dir) {
            Ok(now) => Ok(Some(now.control)),
            Err(e @ Error::Io { .. }) if !e.is_not_found() => Err(e),
            Err(_) => Ok(None),
        }
    }
}

/// Fails on damage at the end of a log that no process is writing, and always if a segment is missing.
pub(crate) fn check_end(damage: Option<&Damage>, in_use: bool) -> Result<()> {
    match damage {
        // While a writer runs, the end moves, and readers see only the records that stamps prove durable.
        Some(d) if !in_use || d.case == RecoveryCase::SegmentLost => {
            Err(Error::Damaged(Box::new(d.clone())))
        }
        _ => Ok(()),
    }
}
