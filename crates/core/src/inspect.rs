//! Looking into a log without opening it for writing: nothing is locked, changed or forced.

use crate::control_file::{ControlFile, LoadedMeta};
use crate::listing::{Found, Listing, list, list_usable, read_header};
use crate::metrics::{self, LiveStats};
use crate::options::OnDamage;
use crate::read_only::check_end;
use crate::reader::Entry;
use crate::recovery::{
    adopt, anchor_state, check_bounds, collect_voids, damage, existing_directory, find_end,
    first_state, gaps, lost_segment,
};
use crate::scan::{Scan, ScanState};
use crate::search::{headers_behind, stamp_behind};
use crate::segments::Segments;
use crate::view::View;
use crate::voids::Voids;
use crate::{Damage, Error, Result, names};
use logforce_device::{Directory, ReadSource, Runtime, System};
use logforce_format::frame::Frames;
use logforce_format::{
    Anchor, BATCH_HEADER_LEN, BatchKind, Case, Control, Decision, EPOCH_HISTORY, Epoch, LogId, Lsn,
    decide,
};
use std::path::Path;
use std::sync::Arc;

/// How often a position in a log that is being written is looked at again before it counts as
/// damaged: the writer may have been in the middle of it.
const LOOK_AGAIN: usize = 5;
/// How often the directory of a log that is being written is listed again.
const LIST_AGAIN: usize = 100;

/// How segments are listed.
type List = fn(&Arc<dyn Directory>, LogId) -> Result<Listing>;

/// A segment, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// File name.
    pub name: String,
    /// Position of its first byte.
    pub start: Lsn,
    /// Size in bytes.
    pub len: u64,
    /// Write unit in bytes.
    pub write_unit: u32,
    /// The opening that prepared it.
    pub epoch: Epoch,
}

/// A batch, as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchInfo {
    /// Where.
    pub lsn: Lsn,
    /// Where the next one begins.
    pub end: Lsn,
    /// In which file.
    pub file: String,
    /// Where in the file, bytes.
    pub offset: u64,
    /// What for.
    pub kind: BatchKind,
    /// The opening that wrote it.
    pub epoch: Epoch,
    /// What was durable when it was sealed.
    pub stamp: Lsn,
    /// Start of what it voids; equal to `lsn` for nothing.
    pub void_from: Lsn,
    /// Records and parts of records in it.
    pub frames: u32,
    /// Bytes of payload.
    pub payload_len: u32,
}

/// What a walk meets, in the log's order.
#[derive(Debug)]
pub enum Visit<'a> {
    /// A batch whose checksums are right.
    Batch(&'a BatchInfo),
    /// A whole record that is part of the log.
    Record {
        /// The record.
        entry: &'a Entry,
        /// A stamp, or a close in order, says that it had become durable.
        proven: bool,
    },
    /// Something that must be there is not.
    Damage(&'a Damage),
}

/// What the directory and the control file say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The log.
    pub log_id: LogId,
    /// Records below are gone.
    pub front: Lsn,
    /// Exclusive end of the prepared segments.
    pub prepared_end: Lsn,
    /// Where the next opening starts to scan.
    pub anchor: Lsn,
    /// Closed in order.
    pub clean: bool,
    /// The latest opening for writing.
    pub epoch: Epoch,
    /// Both slots of the control file are whole.
    pub control_whole: bool,
    /// Bytes of metadata; `None` if it was never set, or is damaged. Then `meta_whole` is false.
    pub meta_len: Option<u64>,
    /// Both slots of the metadata hold the same, or it was never set, and the control file says so.
    /// A crash may leave one slot.
    pub meta_whole: bool,
    /// Somebody has it open for writing.
    pub in_use: bool,
    /// The segments, in order.
    pub segments: Vec<SegmentInfo>,
    /// Files kept for reuse: name, bytes.
    pub spares: Vec<(String, u64)>,
    /// Files named like segments that are not this log's, and why.
    pub strays: Vec<(String, String)>,
}

/// How a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Exclusive end of what was found.
    pub end: Lsn,
    /// Why there.
    pub case: Case,
    /// Highest position that a stamp, or the anchor, proves to have been durable.
    pub proven_to: Lsn,
    /// Whole batches.
    pub batches: u64,
    /// Whole records that are part of the log.
    pub records: u64,
    /// Bytes of those records.
    pub record_bytes: u64,
    /// Records in void ranges.
    pub voided: u64,
    /// Places where something is missing or damaged.
    pub damages: u64,
}

/// A log opened for looking.
pub struct Inspector {
    dir: Arc<dyn Directory>,
    control: Control,
    control_whole: bool,
    meta: LoadedMeta,
    in_use: bool,
    listing: Listing,
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
        check_bounds(&inspector.listing.segments, &inspector.control, path)?;
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
        let listing = loop {
            let mut listing = list(&dir, loaded.control.log_id)?;
            let before = loaded.control;
            loaded = ControlFile::load(&dir)?;
            let is_settled =
                loaded.control.sequence == before.sequence && listing.overtaken.is_none();
            // To wait until nothing comes or goes would be to wait long: to list and open takes
            // longer on some systems than a busy writer needs to truncate. What was truncated is
            // not missed, and of what came the name is known. After another opening a segment of
            // the same name may be another one.
            if is_settled
                || loaded.control.epoch == before.epoch
                    && completed(&mut listing.segments, &dir, &loaded.control)?
                || looked == LIST_AGAIN
            {
                break listing;
            }
            looked += 1;
        };
        adopt(&listing.segments, &mut loaded.control, loaded.both)?;
        let mut meta = LoadedMeta::load(&dir, &loaded.control)?;
        for _ in 0..LOOK_AGAIN {
            // Each slot may be seen in the middle of its change by whoever writes the log.
            if meta.lost(dir.path()).is_none() {
                break;
            }
            meta = LoadedMeta::load(&dir, &loaded.control)?;
        }
        let in_use = is_in_use(&dir)?;
        Ok(Inspector {
            dir,
            control: loaded.control,
            control_whole: loaded.both,
            meta,
            in_use,
            listing,
        })
    }

    /// Opens what there is of a log whose control file is missing or damaged: everything that the
    /// segments hold counts. Of segments that contradict each other one counts, the other is among
    /// the [strays](Inspection::strays).
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
                Ok(Found::Broken(_)) | Err(Error::NewerFormat { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let log_id = log_id.ok_or_else(nothing)?;
        let listing = list_usable(&dir, log_id)?;
        let all = listing.segments.all();
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            return Err(nothing());
        };
        let mut control = Control {
            log_id,
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
            meta,
            in_use,
            listing,
        })
    }

    /// What reading records needs; fails on damage at the end.
    pub(crate) fn into_view(self, runtime: Arc<dyn Runtime>) -> Result<Arc<View>> {
        let control = self.control;
        let segments = self.listing.segments;
        let path = self.dir.path().to_owned();
        if let Some(&(lsn, _)) = gaps(&segments, &control).first() {
            return Err(Error::Damaged(Box::new(lost_segment(
                &self.dir, lsn, &control,
            )?)));
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
        check_end(end.lost, self.in_use)?;
        let durable = if self.in_use {
            end.trusted
        } else {
            end.state.at
        };
        let voids = collect_voids(&segments, &control, end.state.last_void, &path)?;
        Ok(View::of(
            self.dir, runtime, &control, segments, voids, durable,
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
    pub fn summary(&self) -> Inspection {
        let c = &self.control;
        Inspection {
            log_id: c.log_id,
            front: c.front,
            prepared_end: c.prepared_end,
            anchor: c.anchor.lsn,
            clean: c.clean,
            epoch: c.epoch,
            control_whole: self.control_whole,
            meta_len: self.meta.bytes().map(|b| b.len() as u64),
            meta_whole: self.meta.is_whole(),
            in_use: self.in_use,
            segments: self
                .listing
                .segments
                .all()
                .iter()
                .map(|s| SegmentInfo {
                    name: s.name(),
                    start: s.header.start,
                    len: s.header.len,
                    write_unit: s.header.write_unit,
                    epoch: s.header.epoch,
                })
                .collect(),
            spares: self.listing.spares.clone(),
            strays: self.listing.broken.clone(),
        }
    }

    /// What the log's latest opening for writing wrote down about itself, if it did. It may be of
    /// an earlier opening than [`Inspection::epoch`], and of long ago.
    pub fn live(&self) -> Option<LiveStats> {
        metrics::read(&self.dir, self.control.log_id)
    }

    /// Walks the whole log from its first segment on, checking every byte that counts; behind
    /// damage it goes on with the next whole batch. `visit` may answer `false` to stop.
    pub fn walk(&self, visit: &mut dyn FnMut(Visit<'_>) -> bool) -> Result<Finding> {
        let segments = &self.listing.segments;
        let control = &self.control;
        let path = self.dir.path();
        let (proven_to, last_void) = self.proven()?;
        let voids = match collect_voids(segments, control, last_void, path) {
            Err(Error::Damaged(_)) => Voids::default(),
            voids => voids?,
        };
        let mut found = Finding {
            end: control.first_segment,
            case: Case::CleanEnd,
            proven_to,
            batches: 0,
            records: 0,
            record_bytes: 0,
            voided: 0,
            damages: 0,
        };
        let mut walk = Walk {
            voids,
            front: control.front,
            current: None,
            group: Vec::new(),
            found: &mut found,
            visit,
        };
        let mut lost = gaps(segments, control)
            .into_iter()
            .map(|(from, _)| from)
            .collect::<Vec<_>>();
        let mut state = first_state(control);
        let mut looked = 0;
        loop {
            let mut scan = Scan::new(segments, control, ReadSource::Cache, state)?;
            let stop = loop {
                if let Some((_, to)) = walk.voids.covering(scan.state.at)
                    && segments
                        .containing(scan.state.at)
                        .is_none_or(|s| s.header.start == scan.state.at)
                {
                    // A whole segment that is void need not be readable.
                    scan.state = ScanState::unlinked(to);
                    walk.jump();
                }
                match scan.next()? {
                    Ok(batch) => {
                        let end = batch.end;
                        if batch.resumed {
                            walk.jump();
                        }
                        if !walk.batch(segments, batch.header, batch.payload, end) {
                            return Ok(found);
                        }
                        looked = 0;
                    }
                    Err(stop) => break stop,
                }
            };
            state = scan.state;
            if let Some((_, to)) = walk.voids.covering(stop.at) {
                state = ScanState::unlinked(to);
                walk.jump();
                continue;
            }
            let below = stop.at < control.anchor.lsn;
            let closed_here = control.clean && self.control_whole && state.at == control.anchor.lsn;
            let stamp = if closed_here {
                None
            } else {
                stamp_behind(segments, stop.at, control, state.epoch)?
            };
            let case = decide(stop.seen, below || stamp.is_some(), false);
            if case.decision() == Decision::End {
                walk.found.case = case;
                walk.found.end = state.at.max(walk.found.end);
                break;
            }
            if let Some(first) = self.truncated_to()?.filter(|first| stop.at < *first) {
                // Truncated while it was being looked at; what was there may have another life.
                state = ScanState::unlinked(first);
                walk.jump();
                lost.retain(|l| *l >= first);
                continue;
            }
            if looked < LOOK_AGAIN && self.may_have_changed()? {
                looked += 1;
                continue;
            }
            looked = 0;
            let durable_to = proven_to.max(stamp.unwrap_or(Lsn::ORIGIN));
            let what = match case {
                Case::SegmentLost if stop.at < control.prepared_end => {
                    lost.retain(|l| *l != stop.at);
                    lost_segment(&self.dir, stop.at, control)?
                }
                _ => damage(path, segments, &stop, case, durable_to),
            };
            if !walk.damage(&what) {
                return Ok(found);
            }
            // The next whole batch, wherever it is.
            let mut next = None;
            headers_behind(segments, stop.at.plus(1), control, None, &mut |_, h| {
                next = Some(h.lsn);
                false
            })?;
            match next {
                Some(at) => state = ScanState::unlinked(at),
                None => {
                    walk.found.case = case;
                    break;
                }
            }
        }
        if let Some(what) = self.meta.lost(path)
            && !walk.damage(&what)
        {
            return Ok(found);
        }
        for at in lost {
            // Above the last batch: no scan came by.
            let what = lost_segment(&self.dir, at, control)?;
            if walk.voids.covering(at).is_none() && !walk.damage(&what) {
                break;
            }
        }
        Ok(found)
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

    /// What stamps prove, and the latest voiding batch, by a scan from the anchor.
    fn proven(&self) -> Result<(Lsn, Option<Lsn>)> {
        let segments = &self.listing.segments;
        let control = &self.control;
        let mut proven = control.anchor.lsn;
        let state = if self.control_whole || control.sequence > 0 {
            anchor_state(control)
        } else {
            first_state(control)
        };
        let mut scan = Scan::new(segments, control, ReadSource::Cache, state)?;
        while let Ok(batch) = scan.next()? {
            proven = proven.max(batch.header.stamp);
        }
        Ok((proven, scan.state.last_void.or(state.last_void)))
    }
}

/// Puts records together and reports.
struct Walk<'a, 'v> {
    voids: Voids,
    front: Lsn,
    current: Option<Entry>,
    /// Whole records of an atomic append that is not at its end yet, and whether they are proven.
    group: Vec<(Entry, bool)>,
    found: &'a mut Finding,
    visit: &'v mut dyn FnMut(Visit<'_>) -> bool,
}

impl Walk<'_, '_> {
    fn batch(
        &mut self,
        segments: &Segments,
        h: logforce_format::BatchHeader,
        payload: &[u8],
        end: Lsn,
    ) -> bool {
        let segment = segments.containing(h.lsn);
        let info = BatchInfo {
            lsn: h.lsn,
            end,
            file: segment.as_ref().map(|s| s.name()).unwrap_or_default(),
            offset: segment.as_ref().map_or(0, |s| s.offset(h.lsn)),
            kind: h.kind,
            epoch: h.epoch,
            stamp: h.stamp,
            void_from: h.void_from,
            frames: h.frames,
            payload_len: h.payload_len,
        };
        self.found.batches += 1;
        self.found.end = end;
        self.found.proven_to = self.found.proven_to.max(h.stamp);
        if !(self.visit)(Visit::Batch(&info)) {
            return false;
        }
        if h.kind != BatchKind::Data {
            return true;
        }
        for frame in Frames::new(payload, h.lsn.plus(BATCH_HEADER_LEN as u64)).map_while(|f| f.ok())
        {
            if frame.header.first {
                self.current = Some(Entry {
                    start: frame.lsn,
                    end: frame.lsn,
                    data: Vec::new(),
                });
            }
            let Some(entry) = &mut self.current else {
                continue;
            };
            entry.data.extend_from_slice(frame.data);
            if !frame.header.last {
                continue;
            }
            entry.end = frame.end();
            let Some(entry) = self.current.take() else {
                continue;
            };
            let joined = frame.header.joined;
            if entry.start >= self.front {
                let proven = entry.end <= self.found.proven_to;
                self.group.push((entry, proven));
            }
            // A crash may have left the beginning of an append: none of it is part of the log.
            if !joined && !self.hand_out() {
                return false;
            }
        }
        true
    }

    /// Reports the records of an append that is complete, or as complete as damage leaves it.
    fn hand_out(&mut self) -> bool {
        for (entry, proven) in std::mem::take(&mut self.group) {
            if self.voids.covering(entry.start).is_some() {
                self.found.voided += 1;
                continue;
            }
            self.found.records += 1;
            self.found.record_bytes += entry.data.len() as u64;
            if !(self.visit)(Visit::Record {
                entry: &entry,
                proven,
            }) {
                return false;
            }
        }
        true
    }

    /// Passes over a void range: what is begun and not ended before it never will be.
    fn jump(&mut self) {
        self.current = None;
        self.group.clear();
    }

    fn damage(&mut self, what: &Damage) -> bool {
        self.current = None;
        self.found.damages += 1;
        self.hand_out() && (self.visit)(Visit::Damage(what))
    }
}
