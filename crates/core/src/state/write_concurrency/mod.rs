//! How many writes may be in flight: found by trying what commits wait.
//!
//! With one write in flight, a commit waits for the write before it and then for its own. With `n` in
//! flight it waits for about an `n`th of the one before it, if the device carries them out side by side;
//! if it carries out one after another, each takes `n` times as long and costs as much. No property of
//! a device tells which: not its kind, its queue or its filesystem. So while commits wait for each
//! other, `trial` compares the limit in use with the next higher and the next lower one.
//!
//! Where it pays most to have all commits in one write (a device that does one after another, threads
//! that commit again at once), the limit is *none*: no write begins beside another, and the next one
//! waits for those whose commits were just acknowledged, for half of what a write takes at most.
//!
//! A further write begins once its share of the commits waits for it, so that the writes in flight
//! take along about as many each: a committer would else fill all places with single records,
//! and all others would wait for the first of them.

mod trial;

use crate::options::Options;
use logforce_device::Plan;
use std::time::Duration;
use trial::{Measured, Trials};

/// Writes in flight before anything is measured. Small ones cost about as much as the smallest, so that it
/// mostly pays to wait and to write all at once; with every record of 16 KiB sent at once, 16 threads
/// made 0.80 of a log with one write in flight, and with four from 64 KiB on 1.21.
const SMALL_AT_FIRST: usize = 1;
const LARGE_AT_FIRST: usize = 4;

/// How many of the commits that are usually there at once are enough to begin, where it pays to wait for
/// more: some threads do something else.
const MOST_OF: f64 = 7.0 / 8.0;
/// What a write leaves of the number of commits at once that was usual before.
const FORGETS: f64 = 15.0 / 16.0;

/// Commits that one write takes along.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Share {
    commits: u32,
    /// Sums of the times at which they came after the first, seconds, and of their squares.
    after: f64,
    squares: f64,
    /// When the first came, by the log's clock.
    first: Duration,
    /// Whether the write is a large one.
    is_large: bool,
    /// The turn of the limit under which it began.
    era: u32,
}

impl Share {
    /// What its commits waited that are acknowledged at `now`, when the log was busy so long.
    fn measured(&self, now: Duration, busy: Duration) -> Measured {
        let commits = f64::from(self.commits);
        // Of the first; the sum of (longest - after)^2 over all is that of the squares.
        let longest = now.saturating_sub(self.first).as_secs_f64();
        let squares = commits * longest * longest - 2.0 * longest * self.after + self.squares;
        Measured {
            commits: u64::from(self.commits),
            waited: squares.max(0.0),
            busy,
        }
    }
}

/// What is waiting and in flight, and the limit.
#[derive(Debug)]
pub(crate) struct WriteConcurrency {
    /// Commits whose write has not begun.
    waiting: Share,
    /// Commits whose write is in flight.
    in_flight: u32,
    /// How many commits there were lately, waiting or in flight: the maximum, forgotten by and by.
    usual: f64,
    /// The time for which commits were waiting or in flight, before the present stretch of it, and when that
    /// began.
    busy: Duration,
    busy_since: Option<Duration>,
    /// What a small write takes: the moving average.
    usual_write: Duration,
    /// While those come back whose commits were acknowledged last: until when to wait for them.
    gathers_until: Option<Duration>,
    /// Bytes from which on a write is a large one.
    threshold: usize,
    /// The limits while small writes begin, and large ones.
    small: Trials,
    large: Trials,
}

impl WriteConcurrency {
    /// Never more than `most` writes; at first as many small and large ones as `first` says.
    pub(crate) fn new(first: (usize, usize), most: usize, threshold: usize) -> WriteConcurrency {
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

    /// For a method's plan and the caller's options. Where the filesystem `relocates` what is written,
    /// each durable write commits a tree of the filesystem, and one waits for the other: there it begins
    /// with one write.
    ///
    /// A direct write reports its own failure. Through the page cache, Linux reports a failed
    /// write-back once per file description, to the first caller that asks: of two write-through
    /// writes in flight, one would get the other's error, and the failed one would report success
    /// and be acknowledged. Real disk errors have shown this: an acknowledged record was lost.
    pub(crate) fn here(plan: Plan, relocates: bool, options: &Options) -> WriteConcurrency {
        let most = match plan.direct {
            true => options.max_in_flight_writes,
            false => 1,
        };
        let first = match (options.in_flight_at_first, relocates) {
            (Some(first), _) => (first, first),
            (None, true) => (SMALL_AT_FIRST, SMALL_AT_FIRST),
            (None, false) => (SMALL_AT_FIRST, LARGE_AT_FIRST),
        };
        let large = usize::try_from(options.large_write_size).unwrap_or(usize::MAX);
        WriteConcurrency::new(first, most, large)
    }

    /// A commit came at `now` by the log's clock, and its write has not begun.
    pub(crate) fn came(&mut self, now: Duration) {
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

    /// Whether a write may begin beside `writes` in flight, with so many bytes `staged`.
    pub(crate) fn allows(&self, writes: usize, staged: usize) -> bool {
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

    /// Whether it pays to wait for more commits before the next write begins, with so many bytes `staged`:
    /// a small one.
    pub(crate) fn gathers(&self, staged: usize) -> bool {
        self.gathers_until.is_some()
            && staged < self.threshold
            && f64::from(self.waiting.commits) < self.usual * MOST_OF
    }

    /// How long the next write waits for more commits from `now` on, at most. Ends the wait if that is
    /// over.
    pub(crate) fn gathers_for(&mut self, now: Duration) -> Option<Duration> {
        // `now` may be of before a wait for space.
        let most = self.usual_write / 2;
        let left = self.gathers_until?.saturating_sub(now).min(most);
        if left.is_zero() {
            self.gathers_until = None;
        }
        self.gathers_until.map(|_| left)
    }

    /// A write and a barrier begin, with all that wait: no other job is in flight beside them.
    pub(crate) fn begin_barrier(&mut self) -> Share {
        self.waiting = Share::default();
        self.gathers_until = None;
        Share::default()
    }

    /// A write of so many bytes begins, with all that wait.
    pub(crate) fn begin(&mut self, bytes: usize) -> Share {
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

    /// Commits that are waiting or in flight.
    fn all(&self) -> f64 {
        f64::from(self.waiting.commits + self.in_flight)
    }

    fn usual(&self) -> u32 {
        self.usual.round() as u32
    }

    fn trials(&mut self, is_large: bool) -> &mut Trials {
        match is_large {
            true => &mut self.large,
            false => &mut self.small,
        }
    }

    /// The commits of a write that `took` so long are acknowledged at `now`.
    pub(crate) fn acknowledged(&mut self, share: Share, now: Duration, took: Duration) {
        self.in_flight -= share.commits.min(self.in_flight);
        if !share.is_large {
            // A device that hung once must not make commits wait for others as long.
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
