//! State of a [`SimRuntime`](super::SimRuntime): its threads, their waits, and the choice of the next thread.

use crate::Rng;
use std::any::Any;
use std::fmt::Write as _;

/// Number of the thread that called `SimRuntime::run`.
pub(super) const MAIN: usize = 0;

/// Simulated time that a scheduling point takes.
const POINT_NANOS: u64 = 1_000;

/// State of a thread for the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doing {
    /// Runs when it has the token.
    Running,
    /// Waits on the word at this address, at most until this time.
    Waiting { word: usize, until: Option<u64> },
    /// Waits for the end of another thread.
    Joining(usize),
    /// The closure of `run` has returned; waits for all other threads.
    Finishing,
    /// Ended.
    Ended { panicked: bool },
}

pub(super) struct Thread {
    pub name: String,
    pub doing: Doing,
    /// The real thread, which parks while it does not have the token; `None` until it has begun.
    pub real: Option<std::thread::Thread>,
}

pub(super) struct Schedule {
    pub rng: Rng,
    /// Generator of the runtime's random bits. It is separate from `rng`, so that requests do not change the
    /// schedule.
    pub random: Rng,
    /// Simulated time in nanoseconds.
    pub now: u64,
    pub threads: Vec<Thread>,
    /// The thread that has the token.
    pub current: usize,
    /// Reason why the run was given up (deadlock, no end). Only the main thread continues then.
    pub given_up: Option<String>,
    /// The first panic of a thread.
    pub panic: Option<Box<dyn Any + Send>>,
    pub tolerate_panics: bool,
    pub steps: u64,
    pub step_limit: u64,
    /// Number of waits since the run was given up.
    pub idle_waits: u64,
    /// Threads switch at every Nth point on average. The number depends on the seed, because some bugs need
    /// many switches, and others a few at the right time.
    switch_one_in: u64,
    /// True if some waits end without a reason. False for half of the seeds, because a spurious wake-up hides
    /// a lost one.
    pub spurious: bool,
}

impl Schedule {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let switch_one_in = rng.pick(&[1, 2, 4, 16, 64]);
        let spurious = rng.one_in(2);
        let random = Rng::new(rng.bits());
        let main = Thread {
            name: "main".to_owned(),
            doing: Doing::Running,
            real: Some(std::thread::current()),
        };
        Schedule {
            rng,
            random,
            now: 0,
            threads: vec![main],
            current: MAIN,
            given_up: None,
            panic: None,
            tolerate_panics: false,
            steps: 0,
            step_limit: 50_000_000,
            idle_waits: 0,
            switch_one_in,
            spurious,
        }
    }

    /// Counts a scheduling point and advances the clock. Returns true if the thread must switch here.
    pub fn tick(&mut self) -> bool {
        self.steps += 1;
        self.now += POINT_NANOS;
        self.expire();
        if self.spurious && self.threads.len() > 1 && self.rng.one_in(256) {
            self.wake_spuriously();
        }
        self.rng.one_in(self.switch_one_in)
    }

    /// Makes threads runnable whose wait has timed out.
    fn expire(&mut self) {
        let now = self.now;
        for t in &mut self.threads {
            if matches!(t.doing, Doing::Waiting { until: Some(at), .. } if at <= now) {
                t.doing = Doing::Running;
            }
        }
    }

    fn wake_spuriously(&mut self) {
        let fixture = self.rng.below(self.threads.len() as u64) as usize;
        if matches!(self.threads[fixture].doing, Doing::Waiting { .. }) {
            self.threads[fixture].doing = Doing::Running;
        }
    }

    /// Gives the token to a runnable thread, after advancing the clock if there is none. The error is the
    /// reason why no thread will ever be runnable.
    pub fn choose(&mut self) -> Result<(), String> {
        if self.steps > self.step_limit {
            return Err(format!("no end after {} scheduling points", self.steps));
        }
        loop {
            let running = |t: &Thread| t.doing == Doing::Running;
            let count = self.threads.iter().filter(|t| running(t)).count() as u64;
            if count > 0 {
                let nth = self.rng.below(count) as usize;
                let chosen = self
                    .threads
                    .iter()
                    .enumerate()
                    .filter(|(_, t)| running(t))
                    .nth(nth);
                self.current = chosen.expect("counted just now").0;
                return Ok(());
            }
            let others_ended = self.threads[1..]
                .iter()
                .all(|t| matches!(t.doing, Doing::Ended { .. }));
            if self.threads[MAIN].doing == Doing::Finishing && others_ended {
                self.current = MAIN;
                return Ok(());
            }
            let next = self.threads.iter().filter_map(|t| match t.doing {
                Doing::Waiting { until, .. } => until,
                _ => None,
            });
            match next.min() {
                Some(at) => {
                    // Counts a step, so that the limit catches threads that poll the clock for ever.
                    self.steps += 1;
                    if self.steps > self.step_limit {
                        return Err(format!("no end after {} scheduling points", self.steps));
                    }
                    self.now = self.now.max(at);
                    self.expire();
                }
                None => {
                    return Err("deadlock: no thread can run, and none waits with a timeout".into());
                }
            }
        }
    }

    /// Makes threads runnable that wait on the word: all of them, or one that the seed chooses.
    pub fn wake(&mut self, word: usize, all: bool) {
        let waits = |t: &Thread| matches!(t.doing, Doing::Waiting { word: w, .. } if w == word);
        if all {
            self.threads
                .iter_mut()
                .filter(|t| waits(t))
                .for_each(|t| t.doing = Doing::Running);
            return;
        }
        let count = self.threads.iter().filter(|t| waits(t)).count() as u64;
        let nth = self.rng.below(count) as usize;
        if let Some(t) = self.threads.iter_mut().filter(|t| waits(t)).nth(nth) {
            t.doing = Doing::Running;
        }
    }

    /// Marks a thread as ended and makes the threads runnable that join it.
    pub fn end(&mut self, me: usize, panicked: bool) {
        self.threads[me].doing = Doing::Ended { panicked };
        for t in &mut self.threads {
            if t.doing == Doing::Joining(me) {
                t.doing = Doing::Running;
            }
        }
    }

    /// Describes every thread that has not ended, with its name and state.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "at simulated time {:?}:",
            std::time::Duration::from_nanos(self.now)
        );
        for t in &self.threads {
            let _ = match &t.doing {
                Doing::Running => write!(text, "\n  {}: can run", t.name),
                Doing::Waiting { word, until: None } => {
                    write!(
                        text,
                        "\n  {}: waits on word {word:#x}, no thread woke it",
                        t.name
                    )
                }
                Doing::Waiting {
                    word,
                    until: Some(at),
                } => {
                    let at = std::time::Duration::from_nanos(*at);
                    write!(text, "\n  {}: waits on word {word:#x} until {at:?}", t.name)
                }
                Doing::Joining(other) => {
                    write!(text, "\n  {}: joins {}", t.name, self.threads[*other].name)
                }
                Doing::Finishing => write!(text, "\n  {}: has ended, waits for the rest", t.name),
                Doing::Ended { panicked: true } => write!(text, "\n  {}: panicked", t.name),
                Doing::Ended { panicked: false } => Ok(()),
            };
        }
        text
    }
}
