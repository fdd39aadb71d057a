//! The preallocator: a thread of its own makes segments ready ahead of the writer. Made in the middle
//! of a commit they would be a latency spike.

use crate::background::space_limit::SpaceDecision;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::policy::SyncLevel;
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
    pub(crate) fn prepare_ahead(self: &Arc<Self>) {
        self.adopt_thread();
        loop {
            let seen = self.events.preallocator.observe();
            self.follow_pins();
            let (end, demanded, due, ahead) = {
                let state = self.state();
                if state.lifecycle.stopping || self.poison.is_set() {
                    return;
                }
                let segments = &state.segments;
                // After a failure only an append that wants space, or space given back, is a
                // reason to try again.
                let ahead = segments.upcoming() == 0 && !segments.has_failed();
                let demanded = segments.is_asked_for();
                (
                    segments.prepared_end(),
                    demanded,
                    demanded || ahead,
                    segments.upcoming(),
                )
            };
            if !due {
                self.call_in_time(end);
                self.wait_for_work(seen, None, WaitFor::PreallocatorWork);
                continue;
            }
            let result = match self.room(end, demanded) {
                SpaceDecision::Ready => {
                    let _span = trace::preparing(end);
                    self.prepare_one(end)
                }
                SpaceDecision::Later => {
                    self.wait_for_work(seen, None, WaitFor::PreallocatorWork);
                    continue;
                }
                SpaceDecision::Full(full) => Err(full),
            };
            if let Err(error) = &result {
                trace::not_prepared(end, error);
            }
            if let Ok(segment) = &result
                && ahead >= OPEN_AHEAD
            {
                // Before anybody writes to it: the handle that wrote is the one that must sync.
                segment.writer_done();
                segment.close_reader();
            }
            self.state().segments.prepared(result);
            self.wake_blocked(Wake::SegmentPrepared);
            // A stamp may have waited for room.
            let writer = &self.events.writer;
            writer.notify(self.runtime(), Wake::WriterForSegment);
        }
    }

    /// Pauses while filling, as long as that is further along than the segment in use: at full speed
    /// it would be every commit's neighbour, and its bytes would be in every commit's flush.
    fn pace(&self, done: u64, len: u64, took: Duration) {
        let seen = self.events.preallocator.observe();
        let early = {
            let state = self.state();
            let (used, of) = state.used_of_segment();
            let wanted = state.segments.is_asked_for();
            // Twice as fast as appending needs it.
            !wanted && u128::from(done) * u128::from(of) > 2 * u128::from(used) * u128::from(len)
        };
        if early && !self.stop.load(Relaxed) {
            let pause = took.max(FILL_PAUSE);
            self.wait_for_work(seen, Some(pause), WaitFor::FillPause);
        }
    }

    /// Asks for another attempt after a failed one, without waiting for it.
    pub(crate) fn try_preparing_again(&self) {
        self.state().segments.ask_again();
        let preallocator = &self.events.preallocator;
        preallocator.notify(self.runtime(), Wake::PreallocatorForSpace);
    }

    fn prepare_one(&self, start: Lsn) -> Result<Arc<Segment>> {
        // A segment that is made where nobody will look for it is none.
        self.check_location()?;
        let many = self.state().pipeline.has_many_unforced();
        if self.config.forcing.plan.force == ForceBy::None || many {
            // Such a method never makes anything durable by itself, and by any other nobody may
            // ask for it: without this the list of unforced segments, each of them open until a
            // barrier has covered it, and what a reopening must scan would grow without end.
            let written = self.state().tail();
            self.wait_until(written, SyncLevel::Barrier)?;
        }
        let spare = self.take_spare(self.config.options.segment_size);
        let recycled = spare.is_some();
        let builder = SegmentBuilder {
            dir: &self.view.dir,
            log_id: self.view.log_id,
            epoch: self.config.epoch,
            direct: self.config.forcing.plan.direct,
            fill: self.config.fill,
            stop: Some(&self.stop),
            pace: &|done, len, took| self.pace(done, len, took),
            runtime: self.runtime(),
        };
        let segment = builder
            .make(
                start,
                self.config.options.segment_size,
                self.config.unit,
                spare.as_ref(),
            )
            .map_err(|e| if e.is_full() { self.no_space(e) } else { e })?;
        self.view.segments().insert(segment.clone());
        self.location.add(&self.view.dir, &segment);
        let end = segment.header.end();
        if !planted!("segment-unannounced") {
            self.update_control(|c| c.prepared_end = end)?;
        }
        self.metrics.prepared(recycled);
        trace::prepared(start, recycled);
        Ok(segment)
    }

    pub(crate) fn no_space(&self, e: Error) -> Error {
        match e {
            Error::Io { source, .. } => Error::NoSpace {
                path: self.view.path.clone(),
                need: self.config.options.segment_size,
                source,
            },
            other => other,
        }
    }

    fn take_spare(&self, len: u64) -> Option<Spare> {
        let mut spares = self.files.spares();
        let at = spares.iter().position(|s| s.len == len)?;
        Some(spares.swap_remove(at))
    }

    fn wait_for_work(&self, seen: u32, timeout: Option<Duration>, what: WaitFor) {
        let preallocator = &self.events.preallocator;
        preallocator.wait(self.runtime(), seen, timeout, what);
    }
}
