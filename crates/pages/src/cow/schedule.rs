//! When the thread in the background forces.

use std::time::Duration;

/// What asks the thread in the background for a force, and how long one takes.
#[derive(Default)]
pub(crate) struct Schedule {
    /// When it has to begin, by the runtime's clock.
    deadline: Option<Duration>,
    /// Somebody waits, and leaves the force to it.
    is_wanted: bool,
    /// Moving average of what a force takes.
    usual_force: Option<Duration>,
}

impl Schedule {
    /// Whether it has to begin now, and how long it may sleep otherwise.
    pub(crate) fn is_due(&self, now: Duration) -> (bool, Option<Duration>) {
        let is_due = self.is_wanted || self.deadline.is_some_and(|at| at <= now);
        (is_due, self.deadline.map(|at| at.saturating_sub(now)))
    }

    /// Somebody waits. Returns whether the thread has to be told.
    pub(crate) fn want(&mut self) -> bool {
        !std::mem::replace(&mut self.is_wanted, true)
    }

    /// What is committed has to be durable `within` of `now`. Returns whether the thread has to be
    /// told.
    pub(crate) fn force_by(&mut self, now: Duration, within: Duration) -> bool {
        // In time to be done by then. Before the first force nobody knows how long one takes.
        let usual = self.usual_force.unwrap_or(within);
        let lead = usual.saturating_mul(4).min(within / 2);
        let begin = now.saturating_add(within - lead);
        let is_sooner = self.deadline.is_none_or(|deadline| begin < deadline);
        if is_sooner {
            self.deadline = Some(begin);
        }
        is_sooner
    }

    /// Everything that was asked for is being forced, or is durable, or was given up.
    pub(crate) fn clear(&mut self) {
        self.deadline = None;
        self.is_wanted = false;
    }

    /// Adds what a force took to the average.
    pub(crate) fn note_force(&mut self, took: Duration) {
        let usual = self.usual_force.unwrap_or(took);
        self.usual_force = Some((usual * 3 + took) / 4);
    }
}
