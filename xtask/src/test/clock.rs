//! Time limits of a run.

use super::Tier;
use std::time::{Duration, Instant};

/// Time limit of one command, against hangs.
const STAGE: Duration = Duration::from_secs(60 * 60);
/// Returns the time limit of the whole run, against hangs and machines much slower than most.
const fn run(tier: Tier) -> Duration {
    Duration::from_secs(match tier {
        Tier::Change => 60 * 60,
        Tier::Deep { .. } => 3 * 60 * 60,
    })
}

/// Time since the start of the run.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    run: Duration,
}

impl Clock {
    pub fn start(tier: Tier) -> Clock {
        Clock {
            started: Instant::now(),
            run: run(tier),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the time limit of a command that starts now.
    pub fn limit(&self) -> Duration {
        limit(self.run, self.elapsed())
    }
}

fn limit(run: Duration, elapsed: Duration) -> Duration {
    STAGE.min(run.saturating_sub(elapsed))
}

/// Returns a duration as it is printed: `7.2 s`, `3 min 05 s`.
pub fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_stage_gets_what_is_left() {
        let all = run(Tier::Deep { from: 1 });
        let left = Duration::from_secs(5);
        assert_eq!(limit(all, Duration::ZERO), STAGE);
        assert_eq!(limit(all, all - left), left);
        assert_eq!(limit(all, all * 2), Duration::ZERO);
        assert!(Clock::start(Tier::Change).limit() <= STAGE);
    }

    #[test]
    fn durations_are_shown() {
        assert_eq!(shown(Duration::from_millis(7_240)), "7.2 s");
        assert_eq!(shown(Duration::from_secs(185)), "3 min 05 s");
    }
}
