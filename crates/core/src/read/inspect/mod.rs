//! Looking into a log without opening it for writing: nothing is locked, changed or forced.

pub(crate) mod answers;
mod report;

use crate::error::{Damage, Error, Result};
use crate::metrics::{self, LiveStats};
use crate::names;
use crate::options::OnDamage;
use crate::read::view::View;
use crate::scan::coverage::{adopt, check_bounds, check_counters, gaps, lost_segment};
use crate::scan::end_of_log::{anchor_state, find_end};
use crate::scan::walk::ground::{Changed, Ground, Walk};
use crate::scan::walk::void_ranges::void_ranges;
use crate::storage::control_file::ControlFile;
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::directory::existing_directory;
use crate::storage::listing::{Listing, list, list_usable};
use crate::storage::regained::regain;
use crate::storage::segment::Segment;
use crate::storage::segment_header::{Found, read_header};
use crate::storage::segments::Segments;
use answers::{LogSummary, SegmentInfo, VerifyReport, Visit};
use logforce_device::{Directory, Runtime, System};
use logforce_format::{Anchor, Control, EPOCH_HISTORY, Epoch, LogId, Lsn, RecoveryCase};
use report::Report;
use std::path::Path;
use std::sync::Arc;

/// How often a position in a log that is being written is looked at again before it counts as
/// damaged: the writer may have been in the middle of it.
const LOOK_AGAIN: usize = 5;
/// How often the directory of a log that is being written is listed again.
const LIST_AGAIN: usize = 100;

/// How segments are listed.
type List = fn(&Arc<dyn Directory>, LogId) -> Result<Listing>;

/// A log opened for looking.
pub struct Inspector {
    dir: Arc<dyn Directory>,
    control: Control,
    control_whole: bool,
    bounds_known: bool,
    meta: LoadedMeta,
    in_use: bool,
    listing: Listing,
    /// Segments that were prepared, and are not in the control file yet.
    unannounced: Vec<Arc<Segment>>,
    /// Segments whose header is damaged, by what their batches say of them.
    regained: Vec<Arc<Segment>>,
}

/// Looks up segments by their names that came since the others were listed. Says whether all are
/// there then.
fn completed(segments: &mut Segments, dir: &Arc<dyn Directory>, control: &Control) -> Result<bool> {
    loop {
        match gaps(segments, control).first() {
            None => return Ok(true),
            Some(&(at, _)) if segments.learn(dir, control.log_id, at)? => {}
            Some(_) => return Ok(false),
        }
    }
}

/// Whether somebody has the log open for writing. An error is no answer: what is not proven yet would
/// be shown beside a writer.
fn is_in_use(dir: &Arc<dyn Directory>) -> Result<bool> {
    let path = dir.path().join(names::LOCK);
    dir.is_locked(names::LOCK)
        .map_err(Error::io("look at the lock", path))
}

impl Inspector {
    /// Opens the log in `path` for looking.
    pub fn open(system: &dyn System, path: impl AsRef<Path>) -> Result<Inspector> {
        Self::of(existing_directory(system, path.as_ref())?)
    }

    /// Opens the log in `dir` for looking.
    pub(crate) fn of(dir: Arc<dyn Directory>) -> Result<Inspector> {
        let inspector = Self::listed(dir, list)?;
        let path = inspector.dir.path();
        let control = &inspector.control;
        check_bounds(&inspector.listing.segments, control, path)?;
        check_counters(control, path)?;
        Ok(inspector)
    }

    /// With the segments that `list` finds, whatever the control file says of them.
    fn listed(dir: Arc<dyn Directory>, list: List) -> Result<Inspector> {
        let loaded = match ControlFile::load(&dir) {
            Err(e) if e.is_not_found() => {
                return Err(Error::NoLog {
                    path: dir.path().to_owned(),
                    why: "it has no 'control' file".to_owned(),
                });
            }
            other => other?,
        };
        // What the slots say of a log in use may be overtaken by the time the directory is listed:
        // a segment may come or go in between.
        let mut loaded = loaded;
        let mut looked = 0;
        let mut listing = loop {
            let mut listing = list(&dir, loaded.control.log_id)?;
            let before = loaded.control;
            loaded = ControlFile::load(&dir)?;
            let is_settled =
                loaded.control.sequence == before.sequence && listing.overtaken.is_none();
            // To wait until nothing comes or goes would be to wait long: to list and open takes
            // longer on some systems than a busy writer needs to truncate. What was truncated is
            // not missed, and of what came the name is known. After another opening a segment of
            // the same name may be another one.
            let same = loaded.control.epoch == before.epoch;
            let whole = same && completed(&mut listing.segments, &dir, &loaded.control)?;
            if is_settled || whole || looked == LIST_AGAIN {
                break listing;
            }
            looked += 1;
        };
        adopt(&listing.segments, &mut loaded.control, loaded.both)?;
        // Whoever opens the log next may put another segment in the place of one that is not
        // announced: a walk that went on there would take that for damage.
        let prepared_end = loaded.control.prepared_end;
        let unannounced = listing.segments.take_from(prepared_end);
        let mut meta = LoadedMeta::load(&dir, &loaded.control)?;
        for _ in 0..LOOK_AGAIN {
            // Each slot may be seen in the middle of its change by whoever writes the log.
            if meta.lost(dir.path()).is_none() {
                break;
            }
            meta = LoadedMeta::load(&dir, &loaded.control)?;
        }
        let in_use = is_in_use(&dir)?;
        let control = loaded.control;
        let (from, to) = (control.first_segment, control.prepared_end);
        Ok(Inspector {
            regained: regain(&dir, Some(control.log_id), &listing.segments, from, to)?,
            dir,
            control,
            control_whole: loaded.both,
            bounds_known: true,
            meta,
            in_use,
            listing,
            unannounced,
        })
    }

    /// Opens what there is of a log whose control file is missing or damaged: everything that the
    /// segments hold counts. Of segments that contradict each other one counts, the other is among
    /// the [strays](LogSummary::strays).
    pub fn salvage(system: &dyn System, path: impl AsRef<Path>) -> Result<Inspector> {
        let path = path.as_ref();
        let dir = existing_directory(system, path)?;
        match Self::listed(dir.clone(), list_usable) {
            Ok(inspector) => return Ok(inspector),
            Err(e @ Error::NewerFormat { .. }) => return Err(e),
            // Not for the lack of a descriptor: what the control file says would be forgotten.
            Err(e @ Error::Io { .. }) => return Err(e),
            Err(_) => {}
        }
        let nothing = || Error::NoLog {
            path: path.to_owned(),
            why: "no segment in it is usable".to_owned(),
        };
        let mut entries = dir.entries().map_err(Error::io("list", path))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut log_id = None;
        for entry in &entries {
            if !entry.is_file || names::kind(&entry.name) != names::NameKind::Segment {
                continue;
            }
            match read_header(&dir, &entry.name) {
                Ok(Found::Whole(h)) => {
                    log_id = Some(h.log_id);
                    break;
                }
                Ok(Found::Broken { .. }) | Err(Error::NewerFormat { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let listing = list_usable(&dir, log_id.unwrap_or_default())?;
        let regained = regain(&dir, log_id, &listing.segments, Lsn::ORIGIN, Lsn::MAX)?;
        let mut all = listing.segments.all();
        all.extend(regained.iter().cloned());
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
        // Any epoch that has left a whole header counts.
        let mut epochs: Vec<Epoch> = all.iter().map(|s| s.header.epoch).collect();
        epochs.sort_by_key(|e| std::cmp::Reverse(e.counter));
        epochs.dedup();
        epochs.truncate(EPOCH_HISTORY);
        control.epoch = epochs.first().copied().unwrap_or_default();
        control.history = epochs;
        let in_use = is_in_use(&dir)?;
        // Whatever is whole in a control file that is not.
        let meta = LoadedMeta::salvaged(&dir, &control)?;
        Ok(Inspector {
            dir,
            control,
            control_whole: false,
            bounds_known: false,
            meta,
            in_use,
            listing,
            unannounced: Vec::new(),
            regained,
        })
    }

    /// What reading records needs; fails on damage at the end.
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
        let end = find_end(
            &segments,
            &control,
            start,
            self.control_whole,
            &path,
            OnDamage::Truncate,
        )?;
        check_end(end.lost.as_ref(), self.in_use)?;
        let durable = if self.in_use {
            end.trusted
        } else {
            end.state.at
        };
        let ground = Ground {
            dir: &self.dir,
            segments: &segments,
            control: &control,
            both_slots: self.control_whole,
            regained: &[],
        };
        let voids = void_ranges(ground, &end, end.state.last_void)?;
        Ok(View::new(
            self.dir,
            runtime,
            control.log_id,
            segments,
            voids,
            control.front..durable,
        ))
    }

    /// What `look` finds in the log in `dir`. A writer may change it meanwhile, and take away the
    /// very segment that is looked at: then it looks again.
    pub(crate) fn look<T>(
        dir: &Arc<dyn Directory>,
        mut look: impl FnMut(Inspector) -> Result<T>,
    ) -> Result<T> {
        let mut looked = 0;
        loop {
            let inspector = Self::of(dir.clone())?;
            let before = inspector.control.sequence;
            let e = match look(inspector) {
                Err(e @ (Error::Damaged(_) | Error::Io { .. })) if looked < LOOK_AGAIN => e,
                other => return other,
            };
            looked += 1;
            if ControlFile::load(dir)?.control.sequence == before {
                return Err(e);
            }
        }
    }

    /// The control file and whether both of its slots are whole; the segments; whether somebody
    /// writes the log.
    pub(crate) fn into_parts(self) -> (Control, bool, Segments, bool) {
        let whole = self.control_whole;
        (self.control, whole, self.listing.segments, self.in_use)
    }

    /// Where the log is, what its control file says, and its segments.
    pub(crate) fn place(&self) -> (&Arc<dyn Directory>, &Control, &Segments) {
        (&self.dir, &self.control, &self.listing.segments)
    }

    /// Segments whose header is damaged, by what their batches say of them.
    pub(crate) fn regained(&self) -> &[Arc<Segment>] {
        &self.regained
    }

    /// The metadata; `None` if it was never set. [`Error::Damaged`] if it cannot be believed, or if
    /// nothing is left that says whether there was any, as in [salvage](Inspector::salvage).
    pub fn meta(&self) -> Result<Option<Vec<u8>>> {
        let path = self.dir.path();
        match self.meta.lost(path).or_else(|| self.meta.unknown(path)) {
            Some(damage) => Err(Error::Damaged(Box::new(damage))),
            None => Ok(self.meta.bytes().map(<[u8]>::to_vec)),
        }
    }

    /// What the directory and the control file say.
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
                .chain(&self.unannounced)
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

    /// What the log's latest opening for writing wrote down about itself, if it did. It may be of
    /// an earlier opening than [`LogSummary::epoch`], and of long ago.
    pub fn live(&self) -> Option<LiveStats> {
        metrics::read(&self.dir, self.control.log_id)
    }

    /// Walks the whole log from its first segment on, checking every byte that counts; behind
    /// damage it goes on with the next whole batch that was part of the log. `visit` may answer
    /// `false` to stop.
    pub fn walk(&self, visit: &mut dyn FnMut(Visit<'_>) -> bool) -> Result<VerifyReport> {
        let segments = &self.walked();
        let starts: Vec<Lsn> = self.regained.iter().map(|s| s.header.start).collect();
        let walk = Walk::new(Ground {
            dir: &self.dir,
            segments,
            control: &self.control,
            both_slots: self.control_whole,
            regained: &starts,
        })?;
        let mut report = Report::new(&walk, segments, self.control.front, visit);
        let (mut place, mut looked) = (None, 0);
        let mut changed = |at: Lsn| -> Result<Changed> {
            looked = if place == Some(at) { looked + 1 } else { 0 };
            place = Some(at);
            let first = self.truncated_to()?.filter(|first| at < *first);
            Ok(match first {
                Some(first) => Changed::Truncated(first),
                None if looked < LOOK_AGAIN && self.may_have_changed()? => Changed::Something,
                None => Changed::Nothing,
            })
        };
        let ended = walk.run(&mut changed, &mut |met| report.met(met))?;
        if let Some(what) = self.meta.lost(self.dir.path()) {
            report.damage(&what);
        }
        Ok(report.finding(&ended))
    }

    /// The segments that a walk reads: also those whose header is damaged.
    fn walked(&self) -> Segments {
        let mut segments = Segments::default();
        let listed = &self.listing.segments;
        segments.cuts.clone_from(&listed.cuts);
        segments.rejected.clone_from(&listed.rejected);
        for segment in listed.all().iter().chain(&self.regained) {
            segments.insert(segment.clone());
        }
        segments
    }

    /// Whether somebody has had the log open since this began to look. Nobody may have had it
    /// then: an opening that came since writes over what the last one left behind a torn batch.
    fn may_have_changed(&self) -> Result<bool> {
        Ok(self.in_use
            || is_in_use(&self.dir)?
            || self
                .control_now()?
                .is_some_and(|now| now.sequence != self.control.sequence))
    }

    /// Where the first segment begins now, if somebody has had the log open and may have moved it.
    fn truncated_to(&self) -> Result<Option<Lsn>> {
        let now = self.control_now()?;
        let now = now.filter(|now| now.log_id == self.control.log_id);
        Ok(match now {
            Some(now) if self.may_have_changed()? => Some(now.first_segment),
            _ => None,
        })
    }

    /// What the control file says now, if it says anything.
    fn control_now(&self) -> Result<Option<Control>> {
        match ControlFile::load(&self.dir) {
            Ok(now) => Ok(Some(now.control)),
            Err(e @ Error::Io { .. }) if !e.is_not_found() => Err(e),
            Err(_) => Ok(None),
        }
    }
}

/// Refuses damage at the end of a log that nobody is writing.
pub(crate) fn check_end(damage: Option<&Damage>, in_use: bool) -> Result<()> {
    match damage {
        // Beside a writer the end is moving; only what stamps prove is shown.
        Some(d) if !in_use || d.case == RecoveryCase::SegmentLost => {
            Err(Error::Damaged(Box::new(d.clone())))
        }
        _ => Ok(()),
    }
}
