//! The preallocator: a thread, or a task of an environment's pool, that prepares segments before appends
//! need them. Preparing a segment within a commit would cause a latency spike.

use crate::background::space_limit::SpaceDecision;
use crate::background::writer::AfterTurn;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::policy::WaitLevel;
use crate::state::State;
use crate::storage::builder::{Fill, Filled, Made, OPEN_AHEAD, SegmentBuilder, Spare};
use crate::storage::segment::Segment;
use crate::storage::zero_fill::Workload;
use crate::sync::wake::{WaitFor, Wake};
use crate::trace;
use logforce_device::ForceBy;
use logforce_format::{Lsn, planted};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

impl Engine {
    /// Runs the thread `logforce-prepare`.
    pub(crate) fn run_preallocator(self: &Arc<Self>) {
        let _own = self.adopt_thread();
        loop {
            let seen = self.events.preallocator.observe();
            match self.preallocator_turn() {
                AfterTurn::Continue => {}
                AfterTurn::Sleep(_) => {
                    self.wait_for_work(seen, None, WaitFor::PreallocatorWork);
                }
                AfterTurn::Stop => return,
            }
        }
    }

    /// Prepares the next segments if they are due. Call it in the preallocator's thread.
    pub(crate) fn preallocator_turn(self: &Arc<Self>) -> AfterTurn {
        self.follow_pins();
        if let Some(next) = self.raise_write_limit() {
            return next;
        }
        let (end, demanded, due, ahead) = {
            let state = self.state();
            if state.lifecycle.stopping || self.poison.is_set() {
                return AfterTurn::Stop;
            }
            let segments = &state.segments;
            // After a failure, tries again only when an append requests space or space was freed.
            let ahead = segments.is_next_due(state.tail()) && !segments.has_failed();
            let demanded = segments.is_requested();
            (
                segments.prepared_end(),
                demanded,
                demanded || ahead,
                segments.upcoming(),
            )
        };
        if !due {
            self.request_before_full(end);
            return AfterTurn::Sleep(None);
        }
        let result = match self.decide_space(end, demanded) {
            SpaceDecision::Ready => {
                let _span = trace::preparing(end);
                self.prepare(end, demanded)
            }
            SpaceDecision::Later => return AfterTurn::Sleep(None),
            SpaceDecision::Full(full) => Err(full),
        };
        if let Err(error) = &result {
            trace::not_prepared(end, error);
        }
        let open_ahead = match self.membership {
            Some(_) => 0,
            None => OPEN_AHEAD.saturating_sub(ahead),
        };
        for segment in result.iter().flatten().skip(open_ahead) {
            // Closes the file now, before the first write to it: a barrier must use the handle that wrote.
            segment.writer_done();
            segment.close_reader();
        }
        self.state().segments.prepared(result);
        self.wake_writers_for_space();
        AfterTurn::Continue
    }

    /// Raises the write limit in the control file before batches reach it. The next opening searches for
    /// written batches only up to that limit; without one it would read all prepared segments. In the
    /// other order, a crash could leave acknowledged batches above the limit, and damage below them would
    /// pass for a torn write. Returns `None` if no raise is due.
    fn raise_write_limit(&self) -> Option<AfterTurn> {
        let limit = {
            let state = self.state();
            let stops = state.lifecycle.stopping || self.poison.is_set();
            let limit = state.segments.next_write_limit(state.tail());
            limit.filter(|_| !stops)?
        };
        if !planted!("write-limit-unannounced")
            && self.update_control(|c| c.write_limit = limit).is_err()
        {
            // `update_control` has failed the log and woken all waiting threads.
            return Some(AfterTurn::Continue);
        }
        self.state().segments.raise_write_limit(limit);
        self.wake_writers_for_space();
        Some(AfterTurn::Continue)
    }

    fn wake_writers_for_space(&self) {
        self.wake_blocked(Wake::SegmentPrepared);
        // The writer may have a stamp to write that waits for prepared space.
        let writer = &self.events.writer;
        writer.notify(self.runtime(), Wake::WriterForSegment);
    }

    /// Pauses between the writes of a fill, so that it ends shortly before the appends need the segment. At
    /// full speed the fill would compete with every commit, and each commit's flush would include the fill's
    /// bytes. Unless it is late, the fill writes for at most half of the time. It leaves the time that the
    /// sync and the announcement of a segment took before. Ends the fill if the workload since `before`
    /// makes filling a loss.
    fn pace(&self, filled: Filled, before: Workload) -> Fill {
        let seen = self.events.preallocator.observe();
        // A fill takes long, and neither the front nor appends that wait for a higher write limit may wait for
        // its end.
        self.follow_pins();
        let _ = self.raise_write_limit();
        let (lead, requested, wanted) = {
            let mut state = self.state();
            state.fill_rate.note(filled.last);
            if !self.filling_pays(&state, state.load().since(before), filled.of) {
                return Fill::Ends;
            }
            let (used, of) = state.used_of_segment();
            let others = self.events.preallocator.task();
            let wanted = others.is_some_and(|task| task.keeps_others_waiting());
            let begun_at = state.segments.prepares_at(of);
            let used = used.saturating_sub(begun_at);
            let lead = lead(filled, used, of - begun_at, state.fill_rate.finish());
            (lead, state.segments.is_requested(), wanted)
        };
        if requested {
            return Fill::InHaste;
        }
        if wanted || lead.is_zero() {
            return Fill::Late;
        }
        if !self.stop.load(Relaxed) {
            let longest = match self.membership {
                Some(_) => LONGEST_PAUSE_OF_A_TASK,
                None => LONGEST_FILL_PAUSE,
            };
            let pause = lead.min(longest).max(filled.last.1);
            self.wait_for_work(seen, Some(pause), WaitFor::FillPause);
        }
        Fill::GoesOn
    }

    /// Returns true if a segment of `len` bytes should be filled after the workload `load`.
    fn filling_pays(&self, state: &State, load: Workload, len: u64) -> bool {
        let small_write = state.pipeline.write_concurrency.usual_write();
        let break_even = state.fill_rate.break_even(small_write);
        self.config.filling.pays(load, len, break_even)
    }

    /// Requests another attempt after a failed one. Does not wait for it.
    pub(crate) fn try_preparing_again(&self) {
        self.state().segments.request_one_more();
        let preallocator = &self.events.preallocator;
        preallocator.notify(self.runtime(), Wake::PreallocatorForSpace);
    }

    /// Prepares one or more segments, the first of which begins at `start`. All share one sync of their
    /// names and one update of the control file, because each of these is a flush for which commits wait.
    fn prepare(&self, start: Lsn, demanded: bool) -> Result<Vec<Arc<Segment>>> {
        // A segment in a directory that was moved away would be lost to the next opening.
        self.check_location()?;
        let many = self.state().pipeline.has_many_unforced();
        if self.config.force.plan.force == ForceBy::None || many {
            // A weak method never syncs; with any other, callers may never request a force. Without this
            // barrier, the list of unforced segments (each with an open file) would grow without bound,
            // and so would the range that the next opening must scan.
            let written = self.state().tail();
            self.wait_until(written, WaitLevel::Barrier)?;
        }
        let (load, lately) = self.state().begin_preparing();
        let paced = Cell::new(None);
        let pace = |filled| {
            let fill = self.pace(filled, load);
            paced.set(Some(self.runtime().now()));
            fill
        };
        let mut builder = SegmentBuilder {
            dir: &self.view.dir,
            log_id: self.view.log_id,
            epoch: self.config.epoch,
            direct: self.config.force.plan.direct,
            fill: false,
            zeroes: &self.config.zeroes,
            needs_blocks: self.config.filling.begins(),
            needs_written: self.config.force.needs_written(),
            stop: Some(&self.stop),
            pace: &pace,
            runtime: self.runtime(),
        };
        let mut made = Vec::new();
        let mut end = start;
        while let Some((len, spare)) = self.next_file(end, demanded, lately, &made) {
            builder.fill = self.filling_pays(&self.state(), lately, len);
            let segment = match builder.make_file(end, len, self.config.unit, spare.as_ref()) {
                Ok(segment) => segment,
                Err(e) if made.is_empty() => {
                    return Err(if e.is_full() { self.no_space(e) } else { e });
                }
                // The next turn reports the error if it persists.
                Err(_) => break,
            };
            end = segment.header.end();
            made.push(Made {
                segment,
                recycled: spare.is_some(),
            });
        }
        let segments: Vec<Arc<Segment>> = made.iter().map(|m| m.segment.clone()).collect();
        builder.sync_names(&segments)?;
        for segment in &segments {
            self.view.segments().insert(segment.clone());
            self.location.add(&self.view.dir, segment);
        }
        let limit = {
            let state = self.state();
            state.segments.write_limit_below(state.tail(), end)
        };
        if !planted!("segment-unannounced") {
            self.update_control(|c| {
                c.prepared_end = end;
                c.write_limit = limit;
            })?;
        }
        let finish = paced
            .get()
            .map(|at| self.runtime().now().saturating_sub(at));
        {
            let mut state = self.state();
            state.segments.raise_write_limit(limit);
            if let Some(finish) = finish {
                state.fill_rate.finished(finish);
            }
        }
        for Made { segment, recycled } in made {
            let header = &segment.header;
            self.config.sizes.prepared(header.len, self.runtime().now());
            self.metrics.prepared(recycled, header.unwritten);
            if header.unwritten {
                self.state().fill_rate.age();
            }
            trace::prepared(header.start, recycled);
        }
        Ok(segments)
    }

    /// Returns the size of the segment to prepare at `end`, and the spare to make it from, if any. `made`:
    /// the segments that this call of `prepare` has made so far. Returns `None` if they are enough.
    fn next_file(
        &self,
        end: Lsn,
        demanded: bool,
        lately: Workload,
        made: &[Made],
    ) -> Option<(u64, Option<Spare>)> {
        // With a cap, ignores the requested size: the cap was checked for a segment of the usual size.
        let requested = match self.config.options.max_log_size {
            None if demanded => {
                let requested = self.state().segments.requested_end();
                requested.0.saturating_sub(end.0)
            }
            _ => 0,
        };
        let wanted = self.next_segment_len(requested);
        let is_first = made.is_empty();
        let alone = self.membership.is_some() || self.stop.load(Relaxed);
        if !is_first && (alone || made.len() >= AT_ONCE || !self.has_room_beside(made)) {
            return None;
        }
        let spare = self.take_spare(wanted);
        let len = spare.as_ref().map_or(wanted, |s| s.len);
        // A second segment that must be filled would double the time until the first is available.
        let costs_little = match &spare {
            Some(spare) => !spare.unwritten,
            None => !self.filling_pays(&self.state(), lately, len),
        };
        if is_first || costs_little {
            return Some((len, spare));
        }
        self.files.spares().extend(spare);
        None
    }

    pub(crate) fn no_space(&self, e: Error) -> Error {
        match e {
            Error::Io { source, .. } => Error::NoSpace {
                path: self.view.path.clone(),
                need: self.next_segment_len(0),
                source,
            },
            other => other,
        }
    }

    /// Takes a spare for a segment of `wanted` bytes. Removes a spare that has become too small, because
    /// it would keep a usable file from becoming a spare.
    fn take_spare(&self, wanted: u64) -> Option<Spare> {
        let (taken, too_small) = {
            let mut spares = self.files.spares();
            let taken = self.config.sizes.take_spare(&mut spares, wanted);
            let small = spares.iter().position(|s| s.len < wanted);
            (taken, small.map(|at| spares.swap_remove(at)))
        };
        if let Some(spare) = too_small {
            // A file that cannot be removed costs only space; the next opening tries again.
            let _ = self.view.dir.remove(&spare.name);
        }
        taken
    }

    fn wait_for_work(&self, seen: u32, timeout: Option<Duration>, what: WaitFor) {
        let preallocator = &self.events.preallocator;
        preallocator.wait(self.runtime(), seen, timeout, what);
    }
}

/// Maximum number of segments that are prepared at a time. More than one only if preparing costs little.
const AT_ONCE: usize = 4;

/// Longest pause between two writes of a fill. It bounds the duration of a fill beside a log with few
/// appends: 64 MiB take 16 s.
const LONGEST_FILL_PAUSE: Duration = Duration::from_millis(32);
/// The same for a log of an environment, whose fill occupies a thread of the pool meanwhile.
const LONGEST_PAUSE_OF_A_TASK: Duration = Duration::from_millis(1);

/// Returns the time by which a fill is ahead of its plan. The plan is an even pace until appends will have
/// used seven eighths of the `of` bytes that they had when the fill became due, or until `finish` before they
/// will have used all, whichever is sooner. They have used `used` so far.
fn lead(filled: Filled, used: u64, of: u64, finish: Duration) -> Duration {
    let elapsed = filled.elapsed.as_nanos();
    let until_needed = elapsed * u128::from(of) / u128::from(used.max(1));
    let until = (until_needed * 7 / 8).min(until_needed.saturating_sub(finish.as_nanos()));
    let due = until * u128::from(filled.done) / u128::from(filled.of);
    Duration::from_nanos(u64::try_from(due.saturating_sub(elapsed)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_is_paced_to_end_when_seven_eighths_are_used() {
        let paced = |done, used, ms, finish| {
            let filled = Filled {
                done,
                of: 64 << 20,
                last: (128 << 10, Duration::ZERO),
                elapsed: Duration::from_millis(ms),
            };
            lead(filled, used, 8 << 20, Duration::from_millis(finish)).as_millis()
        };
        let lead = |done, used, ms| paced(done, used, ms, 0);
        // Half of the fill is due at half of 7 MiB.
        assert_eq!(lead(32 << 20, 7 << 19, 100), 0);
        assert_eq!(lead(32 << 20, 7 << 18, 112), 112);
        assert_eq!(lead(16 << 20, 7 << 19, 100), 0, "it is late");
        assert_eq!(lead(64 << 20, 7 << 20, 100), 0);
        assert!(lead(1 << 20, 0, 1) > 60_000, "nothing is appended");
        assert_eq!(lead(1 << 20, 0, 0), 0);
        // All 8 MiB are used in 800 ms. A finish within the last eighth of them changes nothing.
        assert_eq!(paced(32 << 20, 1 << 20, 100, 100), 250);
        // A finish of 400 ms leaves 400 ms for the fill, spread evenly.
        assert_eq!(paced(32 << 20, 1 << 20, 100, 400), 100);
        assert_eq!(paced(16 << 20, 1 << 20, 100, 400), 0);
        assert_eq!(paced(48 << 20, 1 << 20, 100, 900), 0, "no time is left");
    }
}
