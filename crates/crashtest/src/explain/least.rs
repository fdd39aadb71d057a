//! The smallest set of lost writes with which the check fails, in a replayed state.

use super::minimise::minimise;
use super::place::{Files, Region};
use crate::acks::Line;
use crate::disk::{Event, EventKind, Piece, SECTOR};
use crate::parts::Rehearsal;
use crate::replay::ReplayedDisk;
use crate::stage::{Checked, Promised, Stage};
use crate::states;
use crate::subject::{self, Subject};
use crate::testbed::Filesystem;
use anyhow::Result;
use serde::Serialize;
use std::ops::Range;

/// The recorded run and the cut of a state.
type Origin<'a> = subject::Origin<'a, Line>;

/// States that are minimised; that with the fewest lost writes is reported.
const TRIED: u64 = 5;
/// Checks of one of them.
const BUDGET: u32 = 60;
/// States that are built, most of all.
const MOST_STATES: u64 = 100;
/// Length of the timeline before the cut, microseconds, and its largest number of marks.
const SHOWN: u64 = 50_000;
const MOST_MARKS: usize = 120;

/// The smallest loss that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Least {
    /// The filesystem.
    pub filesystem: Filesystem,
    /// Acknowledged lines before the cut.
    pub acked: u64,
    /// Last line of the check.
    pub message: String,
    /// Lost writes. Empty if the check fails although everything survives that the disk was given: then what is missing
    /// had not been written to the disk.
    pub lost: Vec<LostWrite>,
    /// Differences that the loss makes to the files, in words.
    pub differences: Vec<String>,
    /// Events before the cut.
    pub timeline: Vec<Mark>,
}

/// A range of the disk that a write would have changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostWrite {
    /// Place of the range in the filesystem.
    #[serde(flatten)]
    pub region: Region,
    /// Offset on the disk, bytes.
    pub disk_offset: u64,
    /// Length, bytes.
    pub bytes: u64,
    /// Microseconds from the write to the cut. 0 for the write during which the power goes.
    pub before_cut: u64,
    /// Microseconds from the last flush before the write to the write.
    pub after_flush: Option<u64>,
    /// Acknowledgements between the write and the cut.
    pub acks_since: u64,
}

/// An event of the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// Microseconds before the cut.
    pub before_cut: u64,
    /// The event.
    pub kind: MarkKind,
}

/// Kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// An acknowledgement.
    Ack,
    /// A write to the disk.
    Write,
    /// A write that has a part in the smallest loss.
    LostWrite,
    /// A flush of the disk.
    Flush,
}

/// Searches the states of recorded runs for the smallest loss. `None` if no state failed.
pub(super) fn least(stage: &Stage<'_>, rehearsal: &Rehearsal) -> Result<Option<Least>> {
    let (mut found, mut tried, mut built) = (None::<Least>, 0, 0);
    let seed = stage.plan.seed;
    let recordings = rehearsal.recordings(MOST_STATES);
    states::states(stage, &recordings, seed, &mut |case| {
        built += 1;
        let failed = matches!(case.checked, Checked::Failed(..)) && !case.promised.acked.is_empty();
        if let Some(origin) = case.origin.filter(|_| failed) {
            tried += 1;
            let one = of_state(stage, &origin, case.promised)?;
            let is_smaller = |known: &Least| size(&one) < size(known);
            if found.as_ref().is_none_or(is_smaller) {
                found = Some(one);
            }
        }
        Ok(tried < TRIED && built < MOST_STATES)
    })?;

    Ok(found)
}

/// Returns the order of losses: any write of the disk says more than none.
fn size(least: &Least) -> (bool, usize, u64) {
    let bytes = least.lost.iter().map(|w| w.bytes).sum();
    (least.lost.is_empty(), least.lost.len(), bytes)
}

/// A cut of a recorded run.
struct CutAt<'a> {
    stage: &'a Stage<'a>,
    promised: &'a Promised,
    disk: ReplayedDisk,
    event: &'a Event,
    grain: u64,
}

impl CutAt<'_> {
    /// Checks the state in which of all pieces only `lost` are lost. Returns the message of a failure.
    fn fails(&self, lost: &[Piece]) -> Result<Option<String>> {
        let keep = &mut |piece| !lost.contains(&piece);
        let left = self.disk.cut_keeping(self.event, self.grain, keep)?;
        Ok(match self.stage.check_image(left, self.promised)?.0 {
            Checked::Failed(_, message) => Some(message),
            Checked::Survived | Checked::FilesystemLost(_) => None,
        })
    }
}

fn of_state(stage: &Stage<'_>, origin: &Origin<'_>, promised: &Promised) -> Result<Least> {
    let mut disk = ReplayedDisk::new(origin.start)?;
    let (before, event) = (
        &origin.events[..origin.number],
        &origin.events[origin.number],
    );
    for event in before {
        disk.apply(event)?;
    }
    let grain = origin.survival.grain.max(SECTOR);
    let (mut lost, mut choice) = (Vec::new(), origin.survival.choice());
    disk.cut_keeping(event, grain, &mut |piece| {
        let is_kept = choice(piece);
        lost.extend((!is_kept).then_some(piece));
        is_kept
    })?;
    let cut = CutAt {
        stage,
        promised,
        disk,
        event,
        grain,
    };
    let (lost, message) = match cut.fails(&[])? {
        Some(message) => (Vec::new(), message),
        None => {
            let lost = smallest(lost, &mut |lost| Ok(cut.fails(lost)?.is_some()))?;
            let message = cut.fails(&lost)?.unwrap_or_default();
            (lost, message)
        }
    };
    let files = |lost: &[Piece]| {
        let keep = &mut |piece| !lost.contains(&piece);
        let left = cut.disk.cut_keeping(event, grain, keep)?;
        Files::of(stage.filesystem, left, stage.home)
    };
    let whole = files(&[])?;
    let differences = match lost.is_empty() {
        true => Vec::new(),
        false => files(&lost)?.differences(&whole),
    };
    Ok(Least {
        filesystem: stage.filesystem,
        acked: promised.acked.len() as u64,
        message,
        lost: lost_writes(origin, &lost, &whole),
        differences,
        timeline: timeline(origin, &lost),
    })
}

/// Minimises first the writes, then their pieces.
fn smallest(
    lost: Vec<Piece>,
    fails: &mut dyn FnMut(&[Piece]) -> Result<bool>,
) -> Result<Vec<Piece>> {
    let mut budget = BUDGET;
    let writes: Vec<Vec<Piece>> = lost
        .chunk_by(|a, b| a.write == b.write)
        .map(<[_]>::to_vec)
        .collect();
    let writes = minimise(writes, &mut budget, &mut |writes| fails(&writes.concat()))?;
    minimise(writes.concat(), &mut budget, fails)
}

fn is_write(event: &Event) -> bool {
    matches!(event.kind, EventKind::Write | EventKind::WriteHeld)
}

/// Returns the lost pieces as parts of files, and when each was written.
fn lost_writes(origin: &Origin<'_>, lost: &[Piece], files: &Files) -> Vec<LostWrite> {
    let event = &origin.events[origin.number];
    let writes: Vec<&Event> = origin.events.iter().filter(|e| is_write(e)).collect();
    let last_flush = |until: u64| {
        let flushes = origin.events.iter().filter(|e| e.kind == EventKind::Flush);
        flushes.map(|e| e.at).take_while(|at| *at <= until).last()
    };
    let acks = |lines: Range<u64>| {
        let (before, until) = (lines.start as usize, lines.end as usize);
        let since = origin.entries[0].iter().take(until).skip(before);
        since.filter(|line| !line.begun).count() as u64
    };
    let mut regions = Vec::new();
    for piece in lost {
        let write = writes[piece.write as usize];
        for (region, disk_offset, bytes) in files.split(piece.offset, piece.len) {
            let one = LostWrite {
                region,
                disk_offset,
                bytes,
                before_cut: event.at - write.at,
                after_flush: last_flush(write.at).map(|at| write.at - at),
                acks_since: acks(write.counters[0]..event.counters[0]),
            };
            push_joined(&mut regions, one);
        }
    }
    regions
}

/// Adds a range, as one with the last if it continues that.
pub(crate) fn push_joined(regions: &mut Vec<LostWrite>, next: LostWrite) {
    if let Some(last) = regions.last_mut()
        && last.before_cut == next.before_cut
        && last.disk_offset + last.bytes == next.disk_offset
        && last.region.continues_with(&next.region, last.bytes)
    {
        last.bytes += next.bytes;
        return;
    }
    regions.push(next);
}

/// Returns the events shortly before the cut, and the lost writes.
fn timeline(origin: &Origin<'_>, lost: &[Piece]) -> Vec<Mark> {
    let cut = origin.events[origin.number].at;
    let mut marks = Vec::new();
    let mut add = |at: u64, kind| {
        marks.push(Mark {
            before_cut: cut - at,
            kind,
        });
    };
    let mut numbers: Vec<u64> = lost.iter().map(|piece| piece.write).collect();
    numbers.dedup();
    let writes = origin.events.iter().filter(|e| is_write(e)).enumerate();
    for (number, write) in writes.take_while(|(_, w)| w.at <= cut) {
        match numbers.contains(&(number as u64)) {
            true => add(write.at, MarkKind::LostWrite),
            false => add(write.at, MarkKind::Write),
        }
    }
    for event in &origin.events[..origin.number] {
        if event.kind == EventKind::Flush {
            add(event.at, MarkKind::Flush);
        }
    }
    let acked = origin.entries[0].iter().filter(|l| !l.begun && l.at <= cut);
    acked.for_each(|line| add(line.at, MarkKind::Ack));
    shown(marks)
}

/// Returns the marks that a timeline shows: lost writes, and the last of the others.
pub(crate) fn shown(mut marks: Vec<Mark>) -> Vec<Mark> {
    marks.retain(|m| m.before_cut <= SHOWN || m.kind == MarkKind::LostWrite);
    marks.sort_by_key(|m| std::cmp::Reverse(m.before_cut));
    let surplus = marks.len().saturating_sub(MOST_MARKS);
    let mut number = 0;
    marks.retain(|m| {
        number += 1;
        number > surplus || m.kind == MarkKind::LostWrite
    });
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::COUNTERS;
    use crate::disk::Survival;
    use crate::testbed::Image;

    #[test]
    fn a_lost_write_is_told_with_its_flush_and_what_was_acknowledged_since() {
        let event = |kind, at, acked| {
            let mut counters = [0; COUNTERS];
            counters[0] = acked;
            Event {
                kind,
                id: at,
                offset: 0,
                data: vec![1; 512],
                counters,
                at,
            }
        };
        let events = [
            event(EventKind::Flush, 100, 0),
            event(EventKind::Write, 200, 1),
            event(EventKind::Flush, 300, 1),
            event(EventKind::Write, 400, 1),
            event(EventKind::Flush, 500, 4),
        ];
        let line = |at, begun| Line {
            text: String::new(),
            begun,
            at,
        };
        let entries = [vec![
            line(150, false),
            line(410, true),
            line(420, false),
            line(430, false),
            line(600, false),
        ]];
        let start = Image::new(4096).unwrap();
        let origin = Origin {
            start: &start,
            events: &events,
            entries: &entries,
            number: 4,
            survival: Survival {
                seed: 0,
                grain: 512,
                keep: 0,
            },
        };
        let lost = [Piece {
            write: 1,
            offset: 0,
            len: 512,
        }];
        let told = lost_writes(&origin, &lost, &Files::default());
        let told = told
            .iter()
            .map(|w| (w.before_cut, w.after_flush, w.acks_since));
        assert_eq!(told.collect::<Vec<_>>(), [(100, Some(100), 2)]);
        let marks = timeline(&origin, &lost);
        let marks: Vec<_> = marks.iter().map(|m| (m.before_cut, m.kind)).collect();
        let wanted = [
            (400, MarkKind::Flush),
            (350, MarkKind::Ack),
            (300, MarkKind::Write),
            (200, MarkKind::Flush),
            (100, MarkKind::LostWrite),
            (80, MarkKind::Ack),
            (70, MarkKind::Ack),
        ];
        assert_eq!(marks, wanted);
    }
}
