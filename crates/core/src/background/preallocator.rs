//! The preallocator: a thread, or a task of an environment's pool, that prepares segments before appends need them. Preparing one within
//! a commit would be a latency spike.

use crate::background::space_limit::SpaceDecision;
use crate::background::writer::AfterTurn;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::policy::WaitLevel;
use crate::storage::builder::{FILL_PAUSE, Fill, Filled, Made, OPEN_AHEAD, SegmentBuilder, Spare};
use crate::storage::segment::Segment;
use crate::storage::zero_fill::Workload;
use crate::sync::wake::{WaitFor, Wake};
use crate::trace;
use logforce_device::ForceBy;
use logforce_format::{Lsn, planted};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

impl Engine {
    /// The body of the thread `logforce-prepare`.
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

    /// Prepares a segment if one is to be prepared. Call it in the preallocator's thread.
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
            // After a failure, tries again only when an append requests space, or space was freed.
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
            // Closed before the first write to it: a barrier must use the handle that wrote.
            segment.writer_done();
            segment.close_reader();
        }
        self.state().segments.prepared(result);
        self.wake_writers_for_space();
        AfterTurn::Continue
    }

    /// Writes down how far batches may reach, before they do. The next opening searches no further for
    /// what was written: without this it would read all that is prepared. In the other order, a crash
    /// could leave acknowledged batches above the limit, and damage below them would pass for a torn
    /// write. `None` if nothing is due.
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
            // It has failed the log, and woken all that wait.
            return Some(AfterTurn::Continue);
        }
        self.state().segments.raise_write_limit(limit);
        self.wake_writers_for_space();
        Some(AfterTurn::Continue)
    }

    fn wake_writers_for_space(&self) {
        self.wake_blocked(Wake::SegmentPrepared);
        // A stamp may wait for prepared space.
        let writer = &self.events.writer;
        writer.notify(self.runtime(), Wake::WriterForSegment);
    }

    /// Pauses between the pieces of a fill while the fill is ahead of the appends. At full speed it
    /// would compete with every commit, and each commit's flush would include its bytes. Ends the
    /// fill if filling does not pay after what was done since `before`.
    fn pace(&self, filled: Filled, before: Workload) -> Fill {
        // A fill takes long, and appends must not wait for its end.
        let _ = self.raise_write_limit();
        let seen = self.events.preallocator.observe();
        let (early, requested) = {
            let state = self.state();
            if !self
                .config
                .filling
                .pays(state.load().since(before), filled.of)
            {
                return Fill::Ends;
            }
            let (used, of) = state.used_of_segment();
            let others = self.events.preallocator.task();
            let requested = state.segments.is_requested();
            let wanted = requested || others.is_some_and(|task| task.keeps_others_waiting());
            let begun_at = state.segments.prepares_at(of);
            (!wanted && is_early(filled, used, of, begun_at), requested)
        };
        if early && !self.stop.load(Relaxed) {
            let pause = filled.took.max(FILL_PAUSE);
            self.wait_for_work(seen, Some(pause), WaitFor::FillPause);
        }
        match requested {
            true => Fill::InHaste,
            false => Fill::GoesOn,
        }
    }

    /// Requests another attempt after a failed one, without waiting for it.
    pub(crate) fn try_preparing_again(&self) {
        self.state().segments.request_one_more();
        let preallocator = &self.events.preallocator;
        preallocator.notify(self.runtime(), Wake::PreallocatorForSpace);
    }

    /// Prepares a segment that begins at `start`, or several, with one sync of their names and one
    /// update of the control file: each of these is a flush for which commits wait.
    fn prepare(&self, start: Lsn, demanded: bool) -> Result<Vec<Arc<Segment>>> {
        // A segment in a directory that was moved away would be lost to the next opening.
        self.check_location()?;
        let many = self.state().pipeline.has_many_unforced();
        if self.config.force.plan.force == ForceBy::None || many {
            // A weak method never syncs, and with any other the callers may never request it.
            // Without this barrier the list of unforced segments, each with an open file, and what
            // the next opening must scan would grow without bound.
            let written = self.state().tail();
            self.wait_until(written, WaitLevel::Barrier)?;
        }
        let (load, lately) = self.state().begin_preparing();
        let pace = |filled| self.pace(filled, load);
        let mut builder = SegmentBuilder {
            dir: &self.view.dir,
            log_id: self.view.log_id,
            epoch: self.config.epoch,
            direct: self.config.force.plan.direct,
            fill: false,
            needs_blocks: self.config.filling.begins(),
            needs_written: self.config.force.needs_written(),
            stop: Some(&self.stop),
            pace: &pace,
            runtime: self.runtime(),
        };
        let mut made = Vec::new();
        let mut end = start;
        while let Some((len, spare)) = self.next_file(end, demanded, lately, &made) {
            builder.fill = self.config.filling.pays(lately, len);
            let segment = match builder.make_file(end, len, self.config.unit, spare.as_ref()) {
                Ok(segment) => segment,
                Err(e) if made.is_empty() => {
                    return Err(if e.is_full() { self.no_space(e) } else { e });
                }
                // The next turn meets it again, if it lasts.
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
        self.state().segments.raise_write_limit(limit);
        for Made { segment, recycled } in made {
            let header = &segment.header;
            self.config.sizes.prepared(header.len, self.runtime().now());
            self.metrics.prepared(recycled, header.unwritten);
            trace::prepared(header.start, recycled);
        }
        Ok(segments)
    }

    /// The size of the segment that is prepared at `end`, behind those that were `made` at this time, and
    /// the file to use again for it. `None` if those are enough.
    fn next_file(
        &self,
        end: Lsn,
        demanded: bool,
        lately: Workload,
        made: &[Made],
    ) -> Option<(u64, Option<Spare>)> {
        // More than the cap allows is never prepared.
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
        // Each filled one would be filled in the time of one.
        let costs_little = match &spare {
            Some(spare) => !spare.unwritten,
            None => !self.config.filling.pays(lately, len),
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

    /// Takes a spare for a segment of `wanted` bytes. Removes those that are too small by now: they
    /// would keep others from being kept.
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

/// How many segments are prepared at a time at most, where that costs little.
const AT_ONCE: usize = 4;

/// Whether a fill is ahead of the appends, which have used `used` bytes `of` those of the current segment.
/// It begins when `begun_at` bytes are used, and is to be done when half of the rest is.
fn is_early(filled: Filled, used: u64, of: u64, begun_at: u64) -> bool {
    let since = u128::from(used.saturating_sub(begun_at));
    let until = u128::from((of - begun_at) / 2);
    u128::from(filled.done) * until > since * u128::from(filled.of)
}
