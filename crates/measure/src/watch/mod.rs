//! One small durable commit at a fixed interval, for weeks: the latencies of each minute, and the stalls.
//!
//! - [`Watch::run`] commits in one thread, and passes each [`Event`] to a function that must not block.
//! - [`Totals`] is the state that other threads read meanwhile, under a lock that is never held over I/O.
//!
//! Memory does not grow: there is one histogram of the minute and one of the whole time.

mod clocks;
mod commit_file;
mod event;
mod minute;
#[cfg(test)]
mod tests;
mod totals;

pub use commit_file::CommitFile;
pub use event::{ClockChange, Event, Late, Minute, Stall};
pub use totals::{BOUNDS, Buckets, InProgress, Scrape, Summary, Totals};

use crate::counters::{CounterSource, Delta, Reading};
use crate::{Interrupt, MeasureError};
use clocks::Clocks;
use logforce_device::Runtime;
use minute::Window;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Longest sleep, so that an interrupt is noticed soon.
const NAP: Duration = Duration::from_millis(200);

/// Delay of a commit's start from which the program, not the disk, counts as held up.
const LATE: Duration = Duration::from_secs(1);

/// Intervals and limits of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Time from the start of one commit to the start of the next.
    pub interval: Duration,
    /// Duration from which a commit counts as a stall.
    pub stall: Duration,
}

/// A watch, ready to run.
pub struct Watch<'a> {
    /// Intervals and limits.
    pub settings: Settings,
    /// Clock and sleeping.
    pub runtime: Arc<dyn Runtime>,
    /// Counters of the device below the file.
    pub counters: &'a dyn CounterSource,
    /// Flag that ends the watch.
    pub interrupt: &'a Interrupt,
    /// State that other threads read.
    pub totals: &'a Totals,
}

impl Watch<'_> {
    /// Commits until the interrupt. `tell` receives each event and must return at once.
    ///
    /// # Errors
    /// The error of the first commit that fails: the contents of the file are unknown from then on.
    pub fn run(
        &self,
        file: &mut CommitFile,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), MeasureError> {
        let mut seen = self.clocks();
        let mut device = self.counters.read();
        let mut window = Window::begin(seen, device);
        let mut next = seen.monotonic;
        let mut result = Ok(());
        while result.is_ok() && self.sleep_until(next) {
            let start = self.clocks();
            if let Some(change) = start.change_since(seen) {
                window.end(seen, device, &mut *tell);
                device = self.counters.read();
                window = Window::begin(start, device);
                tell(Event::Clock(change));
            } else if let Some(late) = start.late(next, LATE) {
                tell(Event::Late(late));
            }
            let before = self.counters.read();
            self.totals.begin(start);
            let committed = file.commit();
            let end = self.clocks();
            device = self.counters.read();
            if committed.is_ok() {
                let stall = self.count(start, end, &mut window, written(before, device));
                stall.into_iter().for_each(&mut *tell);
            }
            self.totals.end();
            result = committed;
            seen = end;
            if window.is_over(seen) {
                window.end(seen, device, &mut *tell);
                window = Window::begin(seen, device);
                result = result.and_then(|()| file.check_exists());
            }
            next = after(next, self.settings.interval, seen.monotonic);
        }
        window.end(seen, device, tell);
        result
    }

    /// Counts a commit, unless a clock was changed or the machine was suspended meanwhile. Returns the event
    /// that it causes.
    fn count(
        &self,
        start: Clocks,
        end: Clocks,
        window: &mut Window,
        device_bytes: Option<u64>,
    ) -> Option<Event> {
        if let Some(change) = end.change_since(start) {
            return Some(Event::Clock(change));
        }
        let took = end.monotonic.saturating_sub(start.monotonic);
        let is_stall = took >= self.settings.stall;
        window.record(took, is_stall);
        self.totals.record(start, end, is_stall);
        is_stall.then_some(Event::Stall(Stall {
            at: start.wall,
            lasted: took,
            device_bytes,
        }))
    }

    /// Sleeps until this time. Returns false after an interrupt.
    fn sleep_until(&self, time: Duration) -> bool {
        let word = AtomicU32::new(0);
        loop {
            let left = time.saturating_sub(self.runtime.now());
            if self.interrupt.is_raised() {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            self.runtime.wait(&word, 0, Some(left.min(NAP)));
        }
    }

    fn clocks(&self) -> Clocks {
        Clocks {
            monotonic: self.runtime.now(),
            wall: self.runtime.wall_clock(),
        }
    }
}

/// Returns the bytes that the device wrote between two readings; `None` if it does not count them.
fn written(before: Option<Reading>, after: Option<Reading>) -> Option<u64> {
    Some(Delta::between(before?, after?).bytes)
}

/// Returns the start of the next commit. Leaves out the commits that would have begun before `now`, so that
/// a stall is not followed by a burst.
fn after(last: Duration, interval: Duration, now: Duration) -> Duration {
    let missed = now.saturating_sub(last).as_nanos() / interval.as_nanos().max(1);
    let steps = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
    last.saturating_add(interval.saturating_mul(steps))
}
