//! The log's own writing thread: carries out what nobody waits for in a thread of its own, writes
//! batches that fill up while nobody forces, keeps the promises of policies, and puts down stamps.

use crate::background::location_check::{self, LastLook};
use crate::background::stats_writer::{Due, StatsWriter};
use crate::engine::Engine;
use crate::policy::SyncLevel;
use crate::state::State;
use crate::state::schedule::Job;
use crate::sync::wake::WaitFor;
use logforce_device::sync::thread_local;
use logforce_format::Lsn;
use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

thread_local! {
    /// Whose writing thread this is.
    static SERVES: Cell<*const Engine> = const { Cell::new(std::ptr::null()) };
    /// Whose writing or preparing thread this is.
    static BELONGS_TO: Cell<*const Engine> = const { Cell::new(std::ptr::null()) };
}

/// What the thread remembers of the stamps.
struct Idle {
    /// Number of the last force that was seen, and when.
    forces: u64,
    since: Duration,
    look: LastLook,
}

/// What to do next.
enum Next {
    Run(Job),
    /// Everything below is to be durable by now.
    Force(Lsn),
    /// Callbacks are due.
    Again,
    /// Is the log still where it was opened?
    Look,
    Stamp,
    /// Until then, or until rung.
    Sleep(Option<Duration>),
    End,
}

impl Engine {
    /// The body of the thread `logforce-write`.
    pub(crate) fn write_behind(&self) {
        SERVES.with(|serves| serves.set(self));
        self.adopt_thread();
        let mut idle = Idle {
            forces: 0,
            since: Duration::ZERO,
            look: LastLook::new(&self.location),
        };
        let mut page = StatsWriter::default();
        loop {
            let seen = self.events.writer.observe();
            self.call_back(false);
            let now = self.runtime().now();
            let next = self.next_step(&mut self.state(), now, &mut idle);
            match next {
                // A failure is everybody's to see in the poison.
                Next::Run(job) => {
                    let _ = self.lead(job);
                }
                Next::Force(upto) => {
                    let mut state = self.state();
                    // A stamp may have made it durable without saying so; nobody else would say it.
                    if let Some(outcome) = state.pipeline.catch_up(upto) {
                        self.publish(state, outcome);
                    } else {
                        state.pipeline.request(SyncLevel::Force, upto);
                    }
                }
                Next::Stamp => {
                    if !matches!(self.write_stamp(false), Ok(true)) {
                        // Somebody is writing: look again when that is done, or by the clock.
                        idle.since = now;
                    }
                }
                Next::Sleep(until) => {
                    // Nothing waits to be done: the time for statistics.
                    let until = self.note_statistics(&mut page, now, until);
                    let timeout = until.map(|t| t.saturating_sub(now));
                    let events = &self.events;
                    events
                        .writer
                        .wait(self.runtime(), seen, timeout, WaitFor::WriterWork);
                    events.statistics_are_written.store(false, SeqCst);
                    events.writer_is_idle.store(false, SeqCst);
                    self.location.unpark();
                    self.state().deadlines.writer_wakes = Duration::ZERO;
                }
                Next::Again => {}
                Next::Look => {
                    let _ = self.check_location();
                }
                Next::End => break,
            }
        }
        self.call_back(true);
        // Not where a callback has closed the log: the lock is another opening's by then.
        let closed = self.state().lifecycle.closed.is_some();
        if !closed {
            page.finish(self);
        }
    }

    /// Says that the calling thread is the log's own.
    pub(crate) fn adopt_thread(&self) {
        BELONGS_TO.with(|owner| owner.set(self));
    }

    /// Whether the calling thread is one of the log's own.
    pub(crate) fn is_own_thread(&self) -> bool {
        BELONGS_TO.with(|owner| std::ptr::eq(owner.get(), self))
    }

    /// Whether this is the log's own writing thread, in one of its callbacks.
    pub(crate) fn is_writer_thread(&self) -> bool {
        SERVES.with(|serves| std::ptr::eq(serves.get(), self))
    }

    /// Makes room in the writing thread itself, which would else wait for itself. Says whether it
    /// did.
    pub(crate) fn make_room_here(&self) -> bool {
        if !self.is_writer_thread() {
            return false;
        }
        let job = {
            let mut state = self.state();
            let wanted = state.take();
            wanted.or_else(|| state.take_overflow())
        };
        // A failure is everybody's to see in the poison.
        job.is_some_and(|job| self.lead(job).is_ok())
    }

    /// Writes the page of statistics if it is time to; answers when to wake at the latest.
    fn note_statistics(
        &self,
        page: &mut StatsWriter,
        now: Duration,
        until: Option<Duration>,
    ) -> Option<Duration> {
        // Before the look: what happens after it rings.
        self.events
            .statistics_are_written
            .store(self.config.options.live_stats, SeqCst);
        let due = match page.due(self, now) {
            Due::No => return until,
            Due::At(due) => due,
            Due::Now => {
                page.write(self, now);
                // Look again at once: the write took its time.
                now
            }
        };
        // It wakes by the clock: nobody who commits need wake it.
        self.events.statistics_are_written.store(false, SeqCst);
        Some(until.map_or(due, |t| t.min(due)))
    }

    fn next_step(&self, state: &mut State, now: Duration, idle: &mut Idle) -> Next {
        if state.lifecycle.stopping || self.poison.is_set() {
            return Next::End;
        }
        // First: there may be jobs without end.
        let look = idle.look.due(&state.pipeline, now);
        if look == location_check::Due::Now {
            return Next::Look;
        }
        match (self.next_job(state, now, idle), look) {
            (Next::Sleep(until), location_check::Due::At(due)) => {
                Next::Sleep(Some(until.map_or(due, |t| t.min(due))))
            }
            (Next::Sleep(until), _) => {
                self.location.park();
                Next::Sleep(until)
            }
            (next, _) => next,
        }
    }

    fn next_job(&self, state: &mut State, now: Duration, idle: &mut Idle) -> Next {
        if let Some(upto) = state.deadlines.take_due(now, state.pipeline.durable()) {
            return Next::Force(upto);
        }
        // A claimed one is its claimant's, who is awake or will be woken.
        let wanted = if state.pipeline.leader.is_awaited {
            None
        } else {
            state.take()
        };
        if let Some(job) = wanted.or_else(|| state.take_overflow()) {
            return Next::Run(job);
        }
        if state.has_callback() {
            return Next::Again;
        }
        let deadline = state.deadlines.next();
        let pipeline = &state.pipeline;
        // Whoever closes the log writes the last one.
        if !pipeline.lacks_stamp() || !state.has_space_for_mark() || state.lifecycle.closing {
            self.events.writer_is_idle.store(true, SeqCst);
            state.deadlines.writer_wakes = deadline.unwrap_or(Duration::MAX);
            return Next::Sleep(deadline);
        }
        if pipeline.stamps.forces != idle.forces {
            idle.forces = pipeline.stamps.forces;
            idle.since = now;
        }
        // While appending goes on, each stamp would take along what came since the last.
        let due = idle.since.saturating_add(self.config.options.idle_stamp);
        let quiet = pipeline.in_flight_writes() == 0 && !pipeline.has_pending_sync();
        if quiet && (due <= now || pipeline.stamps.is_due && !state.buffer.has_staged()) {
            return Next::Stamp;
        }
        // Woken by the clock: nobody who commits pays for waking this thread.
        let due = due.max(now.saturating_add(self.config.options.idle_stamp / 4));
        let until = deadline.map_or(due, |o| o.min(due));
        state.deadlines.writer_wakes = until;
        Next::Sleep(Some(until))
    }
}
