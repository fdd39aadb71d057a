//! The preallocator: a thread, or a task of an environment's pool, that prepares segments before appends need them. Preparing one within
//! a commit would be a latency spike.

use crate::background::space_limit::SpaceDecision;
use crate::background::writer::AfterTurn;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::policy::WaitLevel;
use crate::storage::builder::{FILL_PAUSE, OPEN_AHEAD, SegmentBuilder, Spare};
use crate::storage::segment::Segment;
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
            let ahead = segments.upcoming() == 0 && !segments.has_failed();
            let demanded = segments.is_requested();
            (
                segments.prepared_end(),
                demanded,
                demanded || ahead,
                segments.upcoming(),
            )
        };
        if !due {
            self.call_early(end);
            return AfterTurn::Sleep(None);
        }
        let result = match self.decide_space(end, demanded) {
            SpaceDecision::Ready => {
                let _span = trace::preparing(end);
                self.prepare_one(end, demanded)
            }
            SpaceDecision::Later => return AfterTurn::Sleep(None),
            SpaceDecision::Full(full) => Err(full),
        };
        if let Err(error) = &result {
            trace::not_prepared(end, error);
        }
        if let Ok(segment) = &result
            && (ahead >= OPEN_AHEAD || self.membership.is_some())
        {
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
    /// would compete with every commit, and each commit's flush would include its bytes.
    fn pace(&self, done: u64, len: u64, took: Duration) {
        // A fill takes long, and appends must not wait for its end.
        let _ = self.raise_write_limit();
        let seen = self.events.preallocator.observe();
        let early = {
            let state = self.state();
            let (used, of) = state.used_of_segment();
            let others = self.events.preallocator.task();
            let wanted = state.segments.is_requested()
                || others.is_some_and(|task| task.keeps_others_waiting());
            // Fills twice as fast as appends need it.
            !wanted && u128::from(done) * u128::from(of) > 2 * u128::from(used) * u128::from(len)
        };
        if early && !self.stop.load(Relaxed) {
            let pause = took.max(FILL_PAUSE);
            self.wait_for_work(seen, Some(pause), WaitFor::FillPause);
        }
    }

    /// Requests another attempt after a failed one, without waiting for it.
    pub(crate) fn try_preparing_again(&self) {
        self.state().segments.request_one_more();
        let preallocator = &self.events.preallocator;
        preallocator.notify(self.runtime(), Wake::PreallocatorForSpace);
    }

    fn prepare_one(&self, start: Lsn, demanded: bool) -> Result<Arc<Segment>> {
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
        // More than the cap allows is never prepared.
        let requested = match self.config.options.max_log_size {
            None if demanded => self.state().segments.requested_end().since(start),
            _ => 0,
        };
        let wanted = self.next_segment_len(requested);
        let spare = self.take_spare(wanted);
        let recycled = spare.is_some();
        let len = spare.as_ref().map_or(wanted, |s| s.len);
        let builder = SegmentBuilder {
            dir: &self.view.dir,
            log_id: self.view.log_id,
            epoch: self.config.epoch,
            direct: self.config.force.plan.direct,
            fill: self.config.fill,
            stop: Some(&self.stop),
            pace: &|done, len, took| self.pace(done, len, took),
            runtime: self.runtime(),
        };
        let segment = builder
            .make(start, len, self.config.unit, spare.as_ref())
            .map_err(|e| if e.is_full() { self.no_space(e) } else { e })?;
        self.view.segments().insert(segment.clone());
        self.location.add(&self.view.dir, &segment);
        let end = segment.header.end();
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
        self.config.sizes.prepared(len, self.runtime().now());
        self.metrics.prepared(recycled);
        trace::prepared(start, recycled);
        Ok(segment)
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
