//! Pacing of retries: exponential, with jitter and a deadline. Time and randomness come from the caller.

use std::time::Duration;

/// Rules for the pauses between the tries of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// Longest pause after the first try.
    pub first: Duration,
    /// Longest pause of all.
    pub longest: Duration,
    /// Time after which no further try begins.
    pub deadline: Duration,
}

impl Default for Pacing {
    /// 50 ms after the first try, 5 s at most, 60 s in total.
    fn default() -> Pacing {
        Pacing {
            first: Duration::from_millis(50),
            longest: Duration::from_secs(5),
            deadline: Duration::from_secs(60),
        }
    }
}

/// Tries of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retries {
    pacing: Pacing,
    began: Duration,
    pause: Duration,
}

impl Pacing {
    /// Begins an operation at `now`, a time of a monotonic clock.
    pub fn begin(self, now: Duration) -> Retries {
        Retries {
            pacing: self,
            began: now,
            pause: self.first,
        }
    }
}

impl Retries {
    /// Returns the pause before the next try; none if it would begin after the deadline.
    ///
    /// `random` is uniform. It chooses from the upper half of the pause, so that many writers whose store
    /// was down do not return at once.
    pub fn next(&mut self, now: Duration, random: u64) -> Option<Duration> {
        let pause = self.pause.min(self.pacing.longest);
        self.pause = pause.saturating_mul(2);
        let half = pause / 2;
        let share = random as f64 / u64::MAX as f64;
        let pause = half + half.mul_f64(share);
        let begins = now.saturating_sub(self.began).saturating_add(pause);
        (begins < self.pacing.deadline).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(pacing: Pacing, random: u64) -> Vec<Duration> {
        let mut now = Duration::from_secs(1000);
        let mut retries = pacing.begin(now);
        let mut pauses = Vec::new();
        while let Some(pause) = retries.next(now, random) {
            now += pause;
            pauses.push(pause);
        }
        pauses
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_end_at_the_deadline() {
        let longest = pauses(Pacing::default(), u64::MAX);
        let seconds: Vec<f64> = longest.iter().map(Duration::as_secs_f64).collect();
        assert_eq!(seconds[..8], [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]);
        assert!(seconds[7..].iter().all(|pause| *pause == 5.0));
        assert_eq!(
            seconds.len(),
            7 + 10,
            "6.35 s, and 5 s ten times, are less than 60 s"
        );
        let shortest = pauses(Pacing::default(), 0);
        assert_eq!(shortest[0], Duration::from_millis(25));
        assert!(shortest.len() > longest.len());
    }

    #[test]
    fn a_deadline_of_zero_permits_no_second_try() {
        let pacing = Pacing {
            deadline: Duration::ZERO,
            ..Pacing::default()
        };
        assert_eq!(pauses(pacing, 0), []);
    }
}
