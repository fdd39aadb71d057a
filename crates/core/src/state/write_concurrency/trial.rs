//! Trials: is another limit better than the one in use?

use std::ops::RangeInclusive;
use std::time::Duration;

/// How often the limit in use and the other one take turns in a trial. An odd number has a median.
const TURNS: usize = 5;
/// How many of the turns must speak for the other one.
const WINS: usize = 4;
/// A turn has at least so many writes, and some more for each that may be in flight, and takes at least
/// so long: what a few writes in a row take says little.
const WRITES: u32 = 12;
const TURN: Duration = Duration::from_millis(8);
/// What is tried beside the next higher limit, in turns with it, from one write on or gathered ones.
const FAR: usize = 8;
/// By how much more writes in flight must be better: they cost processor time, which others may need. A
/// second one must be better by more: where a device does one after another it is a little, since the
/// device has the next at hand while threads wake up, and others wait the longer.
const UP: f64 = 0.93;
const UP_FROM_ONE: f64 = 0.88;
/// By how much it must be better to gather all: a commit waits for others then.
const GATHERED: f64 = 0.93;
/// By how much fewer may be worse.
const DOWN: f64 = 1.07;
/// By how much a turn must be worse, after so many writes, to end the trial, and what it adds to the
/// pause: where writes wait for each other in the filesystem, each costs ten times as much.
const MUCH_WORSE: f64 = 1.5;
const SOON: u32 = 4;
const LONGER: u32 = 8;
/// Time between two trials: after a change, and at most. A trial that changes nothing doubles it.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time after which another number of commits at once makes the pauses short again.
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);

/// What was measured of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) commits: u64,
    /// Sum of the squares of what its commits waited, seconds squared.
    pub(super) waited: f64,
    /// For how long the log had been busy when it was done: the clock of turns and pauses.
    pub(super) busy: Duration,
}

/// A turn of one limit: what commits waited in it, and how many there were in which time.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    commits: u64,
    waited: f64,
    writes: u32,
    since: Option<Duration>,
    took: Duration,
}

impl Turn {
    /// What a commit waited (the root of the mean square: long waits count for more), times the time
    /// between two commits: a limit that costs processor time makes commits rarer and not slower.
    fn cost(&self) -> f64 {
        let commits = self.commits.max(1) as f64;
        let waited = (self.waited / commits).sqrt();
        (waited * self.took.as_secs_f64() / commits).sqrt()
    }
}

/// The other limit of a trial, and what was measured so far.
#[derive(Debug)]
struct Trial {
    other: usize,
    /// Costs of the limit in use and of the other one.
    costs: Vec<(f64, f64)>,
    /// That of the limit in use, while the other one has its turn.
    first: Option<f64>,
}

impl Trial {
    /// How many turns the other limit has lost to the one in use.
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

/// The limit in use, and trials of others.
#[derive(Debug)]
pub(super) struct Trials {
    limit: usize,
    range: RangeInclusive<usize>,
    trial: Option<Trial>,
    turn: Turn,
    /// Writes of the turn that are not measured: they began, or waited, under the other limit.
    unmeasured: u32,
    era: u32,
    /// When the next trial may begin; `None`: not before the pause.
    next: Option<Duration>,
    pause: Duration,
    /// Whether the next trial is of a higher limit.
    up: bool,
    /// Whether the next trial of a higher one is of one far above.
    far: bool,
    /// How many commits there were at once when pauses became short again, and when that was.
    usual: u32,
    changed: Duration,
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
            pause: PAUSE,
            up: true,
            far: false,
            usual: 0,
            changed: Duration::ZERO,
        }
    }

    /// The limit now: the one in use, or the other one in its turn.
    pub(super) fn limit(&self) -> usize {
        match &self.trial {
            Some(trial) if trial.first.is_some() => trial.other,
            _ => self.limit,
        }
    }

    /// The number of the turn.
    pub(super) fn era(&self) -> u32 {
        self.era
    }

    /// Notes a write that began in the turn `era`, where there are `usual` commits at once.
    pub(super) fn note(&mut self, era: u32, measured: Measured, usual: u32) {
        // One commit at a time waits for no other.
        if usual < 2 {
            self.trial = None;
            return;
        }
        let is_other = usual > 2 * self.usual || 2 * usual < self.usual;
        if is_other && (self.usual == 0 || measured.busy >= self.changed + BETWEEN_CHANGES) {
            // Another load: what was found before need not hold. Not each time where it changes all the
            // time: trials would never cease.
            self.usual = usual;
            self.changed = measured.busy;
            self.pause = PAUSE;
            let soon = measured.busy + PAUSE;
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
        if self.trial.is_none() {
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
        // Two may gain little where eight gain much: then it would stay at one for ever.
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
        self.trial = Some(Trial {
            other,
            costs: Vec::with_capacity(TURNS),
            first: None,
        });
        self.begin_turn();
    }

    fn begin_turn(&mut self) {
        self.era = self.era.wrapping_add(1);
        self.turn = Turn::default();
        self.unmeasured = 2 + self.limit() as u32;
    }

    fn measure(&mut self, measured: Measured) {
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
        let first = self.trial.as_ref().and_then(|trial| trial.first);
        let is_much_worse = |first: f64| turn.cost() > MUCH_WORSE * first;
        if turn.writes >= SOON && first.is_some_and(is_much_worse) {
            let costs = self.limit() > self.limit || self.limit() == 0;
            self.trial = None;
            self.settle(false, if costs { LONGER } else { 2 });
            return;
        }
        let enough = WRITES + 2 * self.limit() as u32;
        if self.turn.writes < enough || self.turn.took < TURN {
            return;
        }
        let cost = self.turn.cost();
        if let Some(trial) = &mut self.trial {
            match trial.first.take() {
                None => trial.first = Some(cost),
                Some(first) => trial.costs.push((first, cost)),
            }
            if trial.costs.len() == TURNS || trial.lost(self.limit) > TURNS - WINS {
                self.end_trial();
                return;
            }
        }
        self.begin_turn();
    }

    fn end_trial(&mut self) {
        let Some(trial) = self.trial.take() else {
            return;
        };
        let lost = trial.lost(self.limit);
        if lost > TURNS - WINS {
            self.settle(false, 2);
            return;
        }
        self.up = trial.other > self.limit;
        self.limit = trial.other;
        self.settle(true, 1);
    }

    /// Goes on with the limit in use, after a trial that has changed it or not: then the next one is of
    /// the limit on the other side, after `longer` the pause.
    fn settle(&mut self, changed: bool, longer: u32) {
        if changed {
            self.pause = PAUSE;
        } else {
            self.far ^= self.up;
            self.up = !self.up;
            self.pause = (self.pause * longer).min(LONGEST_PAUSE);
        }
        self.next = None;
        // Writes that are in flight belong to no turn.
        self.era = self.era.wrapping_add(1);
    }
}
