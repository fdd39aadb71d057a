//! The log's own writing thread: carries out what nobody waits for in a thread of its own, writes
//! batches that fill up while nobody forces, keeps the promises of policies, and puts down stamps.

use crate::commit::How;
use crate::log::Shared;
use crate::metrics::{Due, LivePage};
use crate::stage::Stage;
use crate::watch::{self, LastLook};
use logforce_device::sync::thread_local;
use logforce_format::{Lsn, planted};
use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

thread_local! {
    /// Whose writing thread this is.
    static SERVES: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
    /// Whose writing or preparing thread this is.
    static BELONGS_TO: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
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
    Run(crate::commit::Job),
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

impl Shared {
    /// The body of the thread `logforce-write`.
    pub(crate) fn serve(&self) {
        SERVES.with(|serves| serves.set(self));
        self.adopt_thread();
        let mut idle = Idle {
            forces: 0,
            since: Duration::ZERO,
            look: LastLook::new(&self.watch),
        };
        let mut page = LivePage::default();
        loop {
            let seen = self.work.observe();
            self.call_back(false);
            let now = self.runtime.now();
            let next = self.next_for_service(&mut self.stage(), now, &mut idle);
            let seen = match planted!("late-observe-work") {
                true => self.work.observe(),
                false => seen,
            };
            match next {
                // A failure is everybody's to see in the poison.
                Next::Run(job) => {
                    let _ = self.run(job);
                }
                Next::Force(upto) => {
                    let mut stage = self.stage();
                    // A stamp may have made it durable without saying so; nobody else would say it.
                    if let Some(landed) = stage.line.catch_up(upto) {
                        self.publish(stage, landed);
                    } else {
                        stage.line.want(How::Force, upto);
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
                    self.work.sleep(&*self.runtime, seen, timeout);
                    self.live_parked.store(false, SeqCst);
                    self.service_parked.store(false, SeqCst);
                    self.watch.parked.store(false, SeqCst);
                    self.stage().service_wakes = Duration::ZERO;
                }
                Next::Again => {}
                Next::Look => {
                    let _ = self.look_for_itself();
                }
                Next::End => break,
            }
        }
        self.call_back(true);
        // Not where a callback has closed the log: the lock is another opening's by then.
        let closed = self.stage().closed.is_some();
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
    pub(crate) fn is_served_here(&self) -> bool {
        SERVES.with(|serves| std::ptr::eq(serves.get(), self))
    }

    /// Makes room in the writing thread itself, which would else wait for itself. Says whether it
    /// did.
    pub(crate) fn make_room_here(&self) -> bool {
        if !self.is_served_here() {
            return false;
        }
        let job = {
            let mut stage = self.stage();
            let wanted = stage.take();
            wanted.or_else(|| stage.take_overflow())
        };
        // A failure is everybody's to see in the poison.
        job.is_some_and(|job| self.run(job).is_ok())
    }

    /// Writes the page of statistics if it is time to; answers when to wake at the latest.
    fn note_statistics(
        &self,
        page: &mut LivePage,
        now: Duration,
        until: Option<Duration>,
    ) -> Option<Duration> {
        // Before the look: what happens after it rings.
        self.live_parked.store(self.options.live_stats, SeqCst);
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
        self.live_parked.store(false, SeqCst);
        Some(until.map_or(due, |t| t.min(due)))
    }

    fn next_for_service(&self, stage: &mut Stage, now: Duration, idle: &mut Idle) -> Next {
        if stage.stopping || self.poison.is_set() {
            return Next::End;
        }
        // First: there may be jobs without end.
        let look = idle.look.due(&stage.line, now);
        if look == watch::Due::Now {
            return Next::Look;
        }
        match (self.next_job_for_service(stage, now, idle), look) {
            (Next::Sleep(until), watch::Due::At(due)) => {
                Next::Sleep(Some(until.map_or(due, |t| t.min(due))))
            }
            (Next::Sleep(until), _) => {
                self.park_watch();
                Next::Sleep(until)
            }
            (next, _) => next,
        }
    }

    fn next_job_for_service(&self, stage: &mut Stage, now: Duration, idle: &mut Idle) -> Next {
        if let Some(upto) = stage.take_due(now) {
            return Next::Force(upto);
        }
        // A claimed one is its claimant's, who is awake or will be woken.
        let wanted = if stage.line.claimed {
            None
        } else {
            stage.take()
        };
        if let Some(job) = wanted.or_else(|| stage.take_overflow()) {
            return Next::Run(job);
        }
        if stage.has_callback() {
            return Next::Again;
        }
        let owed = stage.owed.map(|o| o.begin);
        let line = &stage.line;
        // Whoever closes the log writes the last one.
        if !line.lacks_stamp() || !stage.has_space_for_mark() || stage.closing {
            self.service_parked.store(true, SeqCst);
            stage.service_wakes = owed.unwrap_or(Duration::MAX);
            return Next::Sleep(owed);
        }
        if line.forces != idle.forces {
            idle.forces = line.forces;
            idle.since = now;
        }
        // While appending goes on, each stamp would take along what came since the last.
        let due = idle.since.saturating_add(self.options.idle_stamp);
        let quiet = line.flights() == 0 && !line.has_fence();
        if quiet && (due <= now || line.stamp_now && !stage.has_staged()) {
            return Next::Stamp;
        }
        // Woken by the clock: nobody who commits pays for waking this thread.
        let due = due.max(now.saturating_add(self.options.idle_stamp / 4));
        let until = owed.map_or(due, |o| o.min(due));
        stage.service_wakes = until;
        Next::Sleep(Some(until))
    }
}
