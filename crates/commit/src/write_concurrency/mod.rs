//! Limit of the number of writes in flight, found by measuring the latency of commits.
//!
//! With one write in flight, a commit waits for the previous write, and then for its own. With `n` writes
//! in flight, it waits for about one `n`th of the previous write, if the device executes writes in
//! parallel. If the device executes them one after another, each write takes `n` times as long and costs as
//! much. No property of a device tells which one is true: not its kind, its queue or its filesystem. So
//! while commits wait for each other, `trial` compares the current limit with the next higher and the next
//! lower one.
//!
//! The limit is *zero* if it is best to have all commits in one write, because the device executes one write
//! after another and threads commit again at once. Then no write begins beside another. The next write waits
//! for the threads whose commits were just acknowledged, for at most half the duration of a write.
//!
//! Another write begins only when its share of the waiting commits has accumulated, so that all writes in
//! flight contain about the same number. Otherwise one committer would fill all slots with writes of a single
//! record, and all others would wait for the first of them.

mod trial;

use logforce_device::Plan;
use std::time::Duration;
use trial::{Measured, Trials};

/// Limit of small writes in flight before the first measurement. All small writes cost about the same, so it
/// mostly pays to wait and to write all commits at once. When every 16-KiB record was sent at once, 16
/// threads reached 0.80 times the throughput of one write in flight.
const SMALL_AT_FIRST: usize = 1;
/// Limit of large writes in flight before the first measurement. With four writes of at least 64 KiB in
/// flight, throughput was 1.21 times that of one.
const LARGE_AT_FIRST: usize = 4;

/// Fraction of the usual number of concurrent commits that suffices to begin, while the log waits for more
/// commits. Some threads do other work and do not commit again soon.
const MOST_OF: f64 = 7.0 / 8.0;
/// Factor by which each write reduces the remembered number of concurrent commits.
const FORGETS: f64 = 15.0 / 16.0;

/// Limits of the number of writes in flight that the caller sets.
#[derive(Debug, Clone, Copy)]
pub struct WriteLimits {
    /// Maximum number of writes in flight.
    pub most: usize,
    /// Limit before the first measurement; `None` for the default.
    pub at_first: Option<usize>,
    /// Size at and above which a write counts as large, bytes.
    pub large: u64,
}

/// Commits in one write.
#[derive(Debug, Clone, Copy, Default)]
pub struct Share {
    commits: u32,
    /// Sum of the times between the first commit and each other one, in seconds.
    after: f64,
    /// Sum of the squares of those times, in seconds squared.
    squares: f64,
    /// Time of the first commit, by the log's clock.
    first: Duration,
    /// True if the write is a large one.
    is_large: bool,
    /// Number of the turn in which the write began.
    era: u32,
}

impl Share {
    /// Returns the waiting times of the commits, which are acknowledged at `now`. `busy` is the log's busy
    /// time.
    #[inline]
    fn measured(&self, now: Duration, busy: Duration) -> Measured {
        let commits = f64::from(self.commits);
        // The first commit waited longest. The sum of the squares is that of (longest - after)^2.
        let first = now.saturating_sub(self.first);
        let longest = first.as_secs_f64();
        let squares = commits * longest * longest - 2.0 * longest * self.after + self.squares;
        Measured {
            commits: u64::from(self.commits),
            waited: squares.max(0.0),
            longest: first,
            busy,
        }
    }
}

/// The commits that wait or are in flight, and the limits of the number of writes in flight.
#[derive(Debug)]
pub struct WriteConcurrency {
    /// Commits whose write has not begun.
    waiting: Share,
    /// Number of commits whose write is in flight.
    in_flight: u32,
    /// Recent maximum of the number of commits that wait or are in flight. It decays with each write.
    usual: f64,
    /// Total time in which commits were waiting or in flight, before `busy_since`.
    busy: Duration,
    /// Start of the current busy period.
    busy_since: Option<Duration>,
    /// Moving average of the duration of a small write.
    usual_write: Duration,
    /// Time until which the next write waits for threads whose commits were acknowledged last.
    gathers_until: Option<Duration>,
    /// Size from which on a write is a large one, bytes.
    threshold: usize,
    /// Limit for small writes.
    small: Trials,
    /// Limit for large writes.
    large: Trials,
}

impl WriteConcurrency {
    /// Creates limits of at most `most` writes. `first` contains the initial limits for small and large
    /// writes. A write of at least `threshold` bytes is a large one.
    pub fn new(first: (usize, usize), most: usize, threshold: usize) -> WriteConcurrency {
        let most = most.max(1);
        WriteConcurrency {
            waiting: Share::default(),
            in_flight: 0,
            usual: 0.0,
            busy: Duration::ZERO,
            busy_since: None,
            usual_write: Duration::ZERO,
            gathers_until: None,
            threshold,
            small: Trials::new(first.0.min(most), 0..=most),
            large: Trials::new(first.1.clamp(1, most), 1..=most),
        }
    }

    /// Creates the limits for a method's plan and the caller's `limits`. If the filesystem `relocates` written
    /// blocks, each durable write commits a tree of the filesystem, and the writes wait for each other. Then
    /// the initial limit is one write.
    ///
    /// A direct write reports its own failure. Through the page cache, only one write may be in flight. Linux
    /// reports a failed write-back once per file description, to the first caller that asks. Of two
    /// write-through writes in flight, one would get the other's error, and the failed one would report
    /// success and be acknowledged. Real disk errors have shown this: an acknowledged record was lost.
    pub fn here(plan: Plan, relocates: bool, limits: WriteLimits) -> WriteConcurrency {
        let most = match plan.direct {
            true => limits.most,
            false => 1,
        };
        let first = match (limits.at_first, relocates) {
            (Some(first), _) => (first, first),
            (None, true) => (SMALL_AT_FIRST, SMALL_AT_FIRST),
            (None, false) => (SMALL_AT_FIRST, LARGE_AT_FIRST),
        };
        let large = usize::try_from(limits.large).unwrap_or(usize::MAX);
        WriteConcurrency::new(first, most, large)
    }

    /// Notes a commit at `now`, by the log's clock, whose write has not begun.
    #[inline]
    pub fn came(&mut self, now: Duration) {
        self.busy_since.get_or_insert(now);
        let waiting = &mut self.waiting;
        if waiting.commits == 0 {
            waiting.first = now;
        }
        let after = now.saturating_sub(waiting.first).as_secs_f64();
        waiting.commits += 1;
        waiting.after += after;
        waiting.squares += after * after;
        self.usual = self.all().max(self.usual);
    }

    /// Returns true if a write may begin while `writes` are in flight and `staged` bytes wait.
    #[inline]
    pub fn allows(&self, writes: usize, staged: usize) -> bool {
        if writes == 0 {
            return true;
        }
        if staged >= self.threshold {
            return writes < self.large.limit();
        }
        let limit = self.small.limit().max(1);
        let waiting = self.waiting.commits;
        writes < limit && waiting > 0 && waiting as usize * limit >= self.usual() as usize
    }

    /// Returns true if a write of `bytes` for a single commit, which comes `now`, may begin while `writes` are
    /// in flight. False while other commits wait, or are expected: they share one force.
    pub fn allows_alone(&self, writes: usize, bytes: usize, now: Duration) -> bool {
        if self.waiting.commits > 0 {
            return false;
        }
        if writes == 0 {
            return self.gathers_until.is_none_or(|until| until <= now);
        }
        let limit = match bytes >= self.threshold {
            true => self.large.limit(),
            false => self.small.limit(),
        };
        let concurrent = self.usual().max(self.in_flight + 1);
        writes < limit && limit >= concurrent as usize
    }

    /// Returns true if the next write should wait for more commits, while `staged` bytes wait. Large writes
    /// never wait.
    #[inline]
    pub fn gathers(&self, staged: usize) -> bool {
        self.gathers_until.is_some()
            && staged < self.threshold
            && f64::from(self.waiting.commits) < self.usual * MOST_OF
    }

    /// Returns the moving average of the duration of a small write; zero before the first one.
    pub fn usual_write(&self) -> Duration {
        self.usual_write
    }

    /// Returns the maximum time that the next write waits for more commits, from `now` on. Ends the wait, and
    /// returns `None`, if that time is over.
    #[inline]
    pub fn gathers_for(&mut self, now: Duration) -> Option<Duration> {
        // `now` may be from before a wait for space.
        let most = self.usual_write / 2;
        let left = self.gathers_until?.saturating_sub(now).min(most);
        if left.is_zero() {
            self.gathers_until = None;
        }
        self.gathers_until.map(|_| left)
    }

    /// Notes that a write and a barrier begin, with all waiting commits. No other job is in flight.
    #[inline]
    pub fn begin_barrier(&mut self) -> Share {
        self.waiting = Share::default();
        self.gathers_until = None;
        Share::default()
    }

    /// Notes that a write of `bytes` begins, with all waiting commits.
    #[inline]
    pub fn begin(&mut self, bytes: usize) -> Share {
        self.usual = self.all().max(self.usual * FORGETS);
        self.in_flight += self.waiting.commits;
        self.gathers_until = None;
        let share = std::mem::take(&mut self.waiting);
        let is_large = bytes >= self.threshold;
        Share {
            is_large,
            era: self.trials(is_large).era(),
            ..share
        }
    }

    /// Returns the number of commits that wait or are in flight.
    #[inline]
    fn all(&self) -> f64 {
        f64::from(self.waiting.commits + self.in_flight)
    }

    #[inline]
    fn usual(&self) -> u32 {
        self.usual.round() as u32
    }

    #[inline]
    fn trials(&mut self, is_large: bool) -> &mut Trials {
        match is_large {
            true => &mut self.large,
            false => &mut self.small,
        }
    }

    /// Notes that the commits of a write, which took `took`, are acknowledged at `now`.
    #[inline]
    pub fn acknowledged(&mut self, share: Share, now: Duration, took: Duration) {
        self.in_flight -= share.commits.min(self.in_flight);
        if !share.is_large {
            // After a device has hung once, commits must not wait that long for others.
            let took = match self.usual_write {
                Duration::ZERO => took,
                usual => took.min(usual * 2),
            };
            self.usual_write = (self.usual_write * 7 + took) / 8;
        }
        let gathers =
            !share.is_large && self.small.limit() == 0 && self.in_flight == 0 && self.usual() > 1;
        self.gathers_until = gathers.then(|| now + self.usual_write / 2);
        let busy = self.busy + now.saturating_sub(self.busy_since.unwrap_or(now));
        if self.in_flight == 0 && self.waiting.commits == 0 {
            self.busy = busy;
            self.busy_since = None;
        }
        if share.commits == 0 {
            return;
        }
        let usual = self.usual();
        let measured = share.measured(now, busy);
        let trials = self.trials(share.is_large);
        trials.note(share.era, measured, usual);
    }
}

#[cfg(test)]
mod tests;
