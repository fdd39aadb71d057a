//! The writer: a thread, or a task of an environment's pool. It writes submissions and the batches that
//! fill up while no committer forces, meets the deadlines of policies, and writes stamps.

use crate::background::idle_files::IdleFiles;
use crate::background::stats_writer::{Due, StatsWriter};
use crate::engine::Engine;
use crate::engine::location::{self, LastCheck};
use crate::policy::WaitLevel;
use crate::state::State;
use crate::state::schedule::Job;
use crate::sync::wake::WaitFor;
use logforce_format::Lsn;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// Times of the last force and of the last location check.
struct WriterTimes {
    /// Number of the last force that the thread has seen.
    forces: u64,
    /// Time at which the thread saw that force.
    since: Duration,
    location: LastCheck,
}

/// Next action of the writer.
enum Action {
    Run(Job),
    /// Request a force, because all records below this position must be durable by now.
    Force(Lsn),
    /// Call the callbacks that are due.
    CallBack,
    /// Check that the log is still where it was opened.
    CheckLocation,
    Stamp,
    /// Sleep until this time, or until notified.
    Sleep(Option<Duration>),
    Stop,
}

/// State that the writer keeps between its turns.
pub(crate) struct WriterState {
    times: WriterTimes,
    page: StatsWriter,
    files: IdleFiles,
}

impl WriterState {
    pub(crate) fn new(engine: &Engine) -> Self {
        WriterState {
            times: WriterTimes {
                forces: 0,
                since: Duration::ZERO,
                location: LastCheck::new(&engine.location),
            },
            page: StatsWriter::default(),
            files: IdleFiles::default(),
        }
    }

    pub(crate) fn page(&mut self) -> &mut StatsWriter {
        &mut self.page
    }
}

/// Next step of the writer or the preallocator after a turn.
pub(crate) enum AfterTurn {
    Continue,
    /// Sleep until this time, or until notified.
    Sleep(Option<Duration>),
    Stop,
}

impl Engine {
    /// Runs the thread `logforce-write`.
    pub(crate) fn run_writer(self: &Arc<Self>) {
        let _own = self.adopt_writer_thread();
        let mut writer = WriterState::new(self);
        loop {
            let seen = self.events.writer.observe();
            match self.writer_turn(&mut writer) {
                AfterTurn::Continue => {}
                AfterTurn::Sleep(until) => {
                    let timeout = until.map(|t| t.saturating_sub(self.runtime().now()));
                    let events = &self.events;
                    events
                        .writer
                        .wait(self.runtime(), seen, timeout, WaitFor::WriterWork);
                    self.writer_wakes_up();
                }
                AfterTurn::Stop => break,
            }
        }
        self.end_writer(&mut writer.page);
    }

    /// Notes that the writer runs, so that no thread needs to wake it.
    pub(crate) fn writer_wakes_up(&self) {
        let events = &self.events;
        events.statistics_are_written.store(false, SeqCst);
        events.writer_is_idle.store(false, SeqCst);
        self.location.unpark();
        self.state().deadlines.writer_wakes = Duration::ZERO;
    }

    /// Calls the remaining callbacks and writes the last page of statistics, when the writer stops.
    pub(crate) fn end_writer(&self, page: &mut StatsWriter) {
        self.call_back(true);
        // If a callback has closed the log, the directory belongs to the next opening.
        let closed = self.state().lifecycle.closed.is_some();
        if !closed {
            page.finish(self);
        }
    }

    /// Performs the most urgent action. Call it in the writer's thread.
    pub(crate) fn writer_turn(self: &Arc<Self>, writer: &mut WriterState) -> AfterTurn {
        self.call_back(false);
        let now = self.runtime().now();
        let next = self.next_step(&mut self.state(), now, &mut writer.times);
        match next {
            // If it fails, it has poisoned the log.
            Action::Run(job) => {
                let _ = self.lead(job);
            }
            Action::Force(upto) => {
                let mut state = self.state();
                // A quiet stamp may have made these records durable already; then only the durable LSN
                // must move.
                if let Some(outcome) = state.pipeline.catch_up(upto) {
                    self.publish(state, outcome);
                } else {
                    state.pipeline.request(WaitLevel::Force, upto);
                }
            }
            Action::Stamp => {
                if !matches!(self.write_stamp(false), Ok(true)) {
                    // A write is in flight: tries again when that write is done, or after the next idle
                    // interval.
                    writer.times.since = now;
                }
            }
            Action::Sleep(until) => {
                // No other work is due, so there is time for the statistics.
                let until = self.note_statistics(&mut writer.page, now, until);
                let files = writer.files.look_after(self, now);
                return AfterTurn::Sleep(earlier(until, files));
            }
            Action::CallBack => {}
            Action::CheckLocation => {
                let _ = self.check_location();
            }
            Action::Stop => return AfterTurn::Stop,
        }
        AfterTurn::Continue
    }

    /// Writes the page of statistics if it is due. Returns the latest time at which the writer must wake.
    fn note_statistics(
        &self,
        page: &mut StatsWriter,
        now: Duration,
        until: Option<Duration>,
    ) -> Option<Duration> {
        // Set before the check, so that any activity after the check wakes this thread.
        self.events
            .statistics_are_written
            .store(self.config.options.writes_live_stats(), SeqCst);
        let due = match page.due(self, now) {
            Due::No => return until,
            Due::At(due) => due,
            Due::Now => {
                page.write(self, now);
                // Checks again at once, because the write took some time.
                now
            }
        };
        // The thread wakes by the clock, so no committer needs to wake it.
        self.events.statistics_are_written.store(false, SeqCst);
        earlier(until, Some(due))
    }

    fn next_step(&self, state: &mut State, now: Duration, times: &mut WriterTimes) -> Action {
        if state.lifecycle.stopping || self.poison.is_set() {
            return Action::Stop;
        }
        // Checks the location first: under load there is always a next job.
        let check = times.location.due(&state.pipeline, now);
        if check == location::Due::Now {
            return Action::CheckLocation;
        }
        match (self.next_job(state, now, times), check) {
            (Action::Sleep(until), location::Due::At(due)) => {
                Action::Sleep(earlier(until, Some(due)))
            }
            (Action::Sleep(until), _) => {
                self.location.park();
                Action::Sleep(until)
            }
            (next, _) => next,
        }
    }

    fn next_job(&self, state: &mut State, now: Duration, times: &mut WriterTimes) -> Action {
        if let Some(upto) = state.deadlines.take_due(now, state.pipeline.durable()) {
            return Action::Force(upto);
        }
        // If a committer is the next leader, it takes the job: it is awake or will be woken.
        let job = if state.pipeline.jobs.has_next_leader {
            None
        } else {
            state.take()
        };
        if let Some(job) = job.or_else(|| state.take_overflow()) {
            return Action::Run(job);
        }
        if state.has_callback() {
            return Action::CallBack;
        }
        let deadline = state.deadlines.next();
        let pipeline = &state.pipeline;
        // While the log closes, the closing thread writes the last stamp.
        if !pipeline.lacks_stamp() || !state.has_space_for_empty_batch() || state.lifecycle.closing
        {
            self.events.writer_is_idle.store(true, SeqCst);
            state.deadlines.writer_wakes = deadline.unwrap_or(Duration::MAX);
            return Action::Sleep(deadline);
        }
        if pipeline.stamps.forces != times.forces {
            times.forces = pipeline.stamps.forces;
            times.since = now;
        }
        // Writes a stamp only when the log is idle. Under load, each stamp would force the records that
        // were staged since the last one.
        let due = times
            .since
            .saturating_add(self.config.options.stamps_after());
        let quiet = pipeline.in_flight_writes() == 0 && !pipeline.has_pending_sync();
        if quiet && (due <= now || pipeline.stamps.is_due && !state.buffer.has_staged()) {
            return Action::Stamp;
        }
        // The thread wakes by the clock, so no committer spends time on waking it.
        let due = due.max(now.saturating_add(self.config.options.stamps_after() / 4));
        let until = deadline.map_or(due, |o| o.min(due));
        state.deadlines.writer_wakes = until;
        Action::Sleep(Some(until))
    }
}

/// Returns the earlier of two times; `None` means never.
fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
