//! Trials: measurements that compare the limit in use with another one.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Number of comparisons in a trial. In each, the current limit and the other one have one turn. An odd
/// number has a median.
const TURNS: usize = 5;
/// Number of comparisons that the other limit must win.
const WINS: usize = 4;
/// Minimum number of writes in a turn; two more for each write that may be in flight. Fewer writes are
/// noise.
const WRITES: u32 = 12;
/// Minimum duration of a turn. Shorter turns are noise.
const TURN: Duration = Duration::from_millis(8);
/// Minimum duration of a turn, as a multiple of the longest wait, if much time passes in waits that are longer
/// than `TURN`. A volume with a limit of requests executes them at full speed for a while and then none for a
/// while. Each turn must contain several times both.
const STALLS: u32 = 4;
/// Fraction of the time that is much time.
const MUCH: u32 = 4;
/// Longest wait that counts for that. A hang of a second is an exception.
const LONGEST_STALL: Duration = Duration::from_millis(200);
/// Limit that is tried alternately with the next higher one, while the current limit is zero or one.
const FAR: usize = 8;
/// Ratio of costs below which a higher limit wins. More writes in flight cost processor time, which other
/// threads may need.
const UP: f64 = 0.93;
/// As `UP`, if the current limit is one. It is stricter because two writes in flight are always a little
/// better, even if the device executes one after another: the device has the next write at hand while
/// threads wake up. But other commits then wait longer.
const UP_FROM_ONE: f64 = 0.88;
/// Ratio of costs below which the limit zero wins, with which a commit waits for others.
const GATHERED: f64 = 0.93;
/// Ratio of costs below which a lower limit wins. It may be a little worse, because it costs less processor
/// time.
const DOWN: f64 = 1.07;
/// Ratio of costs above which a turn ends the trial early. If writes wait for each other in the filesystem,
/// each may cost ten times as much.
const MUCH_WORSE: f64 = 1.5;
/// Number of writes after which a turn can end the trial early.
const SOON: u32 = 4;
/// Factor for the pause after a trial of a higher limit, or of zero, that ended early.
const LONGER: u32 = 8;
/// Time between two trials after a change, in turns. A trial that changes nothing doubles it.
const PAUSE: u32 = 12;
/// Maximum time between two trials.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Minimum time between two resets of the pause because the number of concurrent commits has changed.
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);

/// Measurement of one write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) commits: u64,
    /// Sum of the squares of the commits' waiting times, in seconds squared.
    pub(super) waited: f64,
    /// Longest waiting time of a commit.
    pub(super) longest: Duration,
    /// Busy time of the log when the write was done. It is the clock for turns and pauses.
    pub(super) busy: Duration,
}

/// A turn of one limit: the number of its commits, their waiting times, and its duration.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    commits: u64,
    waited: f64,
    writes: u32,
    since: Option<Duration>,
    took: Duration,
}

impl Turn {
    /// Returns the cost of the turn: the geometric mean of the waiting time of a commit and of the time
    /// between two commits. The waiting time is the root of the mean square, so that long waits count more.
    /// The time between commits counts because a limit that costs processor time makes commits rarer, not
    /// slower.
    fn cost(&self) -> f64 {
        let commits = self.commits.max(1) as f64;
        let waited = (self.waited / commits).sqrt();
        (waited * self.took.as_secs_f64() / commits).sqrt()
    }
}

/// The other limit of a trial, and the measurements so far.
#[derive(Debug)]
struct Trial {
    other: usize,
    /// Costs of the current limit and of the other one, for each comparison.
    costs: Vec<(f64, f64)>,
    /// Cost of the current limit, while the other one has its turn.
    first: Option<f64>,
    /// Minimum duration of a turn.
    least: Duration,
}

impl Trial {
    /// Returns the number of comparisons that the other limit has lost to the current one.
    fn lost(&self, limit: usize) -> usize {
        let needed = match (limit, self.other) {
            (0, 1) => 1.0,
            (0, _) => UP,
            (_, 0) => GATHERED,
            (1, _) => UP_FROM_ONE,
            (own, other) if other > own => UP,
            _ => DOWN,
        };
        let lost = |&&(own, other): &&(f64, f64)| other >= own * needed;
        self.costs.iter().filter(lost).count()
    }
}

/// The current limit, and trials of others.
#[derive(Debug)]
pub(super) struct Trials {
    limit: usize,
    range: RangeInclusive<usize>,
    trial: Option<Trial>,
    turn: Turn,
    /// Number of writes of the turn that are not measured, because they began, or waited, under the other
    /// limit.
    unmeasured: u32,
    era: u32,
    /// Time at which the next trial may begin; `None` if the pause has not begun.
    next: Option<Duration>,
    pause: Duration,
    /// True if the next trial is of a higher limit.
    up: bool,
    /// True if the next trial of a higher limit is of `FAR`.
    far: bool,
    /// Number of concurrent commits at the last reset of the pause.
    usual: u32,
    /// Time of the last reset of the pause.
    changed: Duration,
    /// Waits longer than `TURN` since the pause began: their sum, and the longest one.
    stalls: (Duration, Duration),
}

impl Trials {
    pub(super) fn new(limit: usize, range: RangeInclusive<usize>) -> Trials {
        Trials {
            limit,
            range,
            trial: None,
            turn: Turn::default(),
            unmeasured: 0,
            era: 0,
            next: None,
            pause: TURN * PAUSE,
            up: true,
            far: false,
            usual: 0,
            changed: Duration::ZERO,
            stalls: Default::default(),
        }
    }

    /// Returns the limit that applies now: the current one, or the other one in its turn.
    pub(super) fn limit(&self) -> usize {
        match &self.trial {
            Some(trial) if trial.first.is_some() => trial.other,
            _ => self.limit,
        }
    }

    /// Returns the number of the turn.
    pub(super) fn era(&self) -> u32 {
        self.era
    }

    /// Notes a write that began in the turn `era`, while `usual` commits are concurrent.
    pub(super) fn note(&mut self, era: u32, measured: Measured, usual: u32) {
        // A single commit at a time never waits for another one.
        if usual < 2 {
            self.trial = None;
            return;
        }
        let is_other = usual > 2 * self.usual || 2 * usual < self.usual;
        if is_other && (self.usual == 0 || measured.busy >= self.changed + BETWEEN_CHANGES) {
            // The load has changed, so earlier results may be wrong. `BETWEEN_CHANGES` limits the resets:
            // otherwise trials would never end under a load that changes all the time.
            self.usual = usual;
            self.changed = measured.busy;
            self.pause = TURN * PAUSE;
            self.stalls = Default::default();
            let soon = measured.busy + self.pause;
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
        if self.trial.is_none() {
            let stall = measured.longest.min(LONGEST_STALL);
            if stall > TURN {
                let (all, longest) = self.stalls;
                self.stalls = (all + stall, longest.max(stall));
            }
            let next = *self.next.get_or_insert(measured.busy + self.pause);
            if measured.busy >= next {
                self.begin_trial();
            }
            return;
        }
        if era == self.era {
            self.measure(measured);
        }
    }

    fn begin_trial(&mut self) {
        // Two writes in flight may gain little, while eight gain much. Without `FAR` the limit would stay at
        // one forever.
        let higher = match (self.limit, self.far) {
            (0 | 1, true) => FAR,
            (limit, _) => (limit * 2).max(1),
        };
        let higher = higher.min(*self.range.end());
        let lower = (self.limit / 2).max(*self.range.start());
        let other = match (self.up, higher > self.limit, lower < self.limit) {
            (true, true, _) | (false, true, false) => higher,
            (_, _, true) => lower,
            (_, false, false) => return,
        };
        let (all, longest) = std::mem::take(&mut self.stalls);
        let least = match all * MUCH >= self.pause {
            true => longest * STALLS,
            false => TURN,
        };
        self.trial = Some(Trial {
            other,
            costs: Vec::with_capacity(TURNS),
            first: None,
            least: least.max(TURN),
        });
        self.begin_turn();
    }

    fn begin_turn(&mut self) {
        self.era = self.era.wrapping_add(1);
        self.turn = Turn::default();
        self.unmeasured = 2 + self.limit() as u32;
    }

    fn measure(&mut self, measured: Measured) {
        let (limit, tried) = (self.limit, self.limit());
        let Some(trial) = &mut self.trial else {
            return;
        };
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            self.turn.since = Some(measured.busy);
            return;
        }
        let turn = &mut self.turn;
        turn.commits += measured.commits;
        turn.waited += measured.waited;
        turn.writes += 1;
        turn.took = measured.busy.saturating_sub(turn.since.unwrap_or_default());
        let cost = turn.cost();
        let is_much_worse = trial.first.is_some_and(|first| cost > MUCH_WORSE * first);
        if is_much_worse && turn.writes >= SOON && trial.least == TURN {
            self.trial = None;
            let costs = tried > limit || tried == 0;
            self.settle(false, TURN, if costs { LONGER } else { 2 });
            return;
        }
        if turn.writes < WRITES + 2 * tried as u32 || turn.took < trial.least {
            return;
        }
        match trial.first.take() {
            None => trial.first = Some(cost),
            Some(first) => trial.costs.push((first, cost)),
        }
        if trial.costs.len() == TURNS || trial.lost(limit) > TURNS - WINS {
            self.end_trial();
        } else {
            self.begin_turn();
        }
    }

    fn end_trial(&mut self) {
        let Some(trial) = self.trial.take() else {
            return;
        };
        let lost = trial.lost(self.limit);
        if lost > TURNS - WINS {
            self.settle(false, trial.least, 2);
            return;
        }
        self.up = trial.other > self.limit;
        self.limit = trial.other;
        self.settle(true, trial.least, 1);
    }

    /// Ends a trial with turns of at least `turn`. If it has `changed` the limit, resets the pause. Otherwise the
    /// next trial is in the other direction, after a pause that is `longer` times as long.
    fn settle(&mut self, changed: bool, turn: Duration, longer: u32) {
        if changed {
            self.pause = turn * PAUSE;
        } else {
            self.far ^= self.up;
            self.up = !self.up;
            self.pause = (self.pause * longer).min(LONGEST_PAUSE);
        }
        self.next = None;
        // Writes of the ended turn that are still in flight count for no other turn.
        self.era = self.era.wrapping_add(1);
    }
}
