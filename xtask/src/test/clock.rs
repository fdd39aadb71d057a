//! How long a run may take.

use std::time::{Duration, Instant};

/// What one command may take: a limit for what hangs.
const STAGE: Duration = Duration::from_secs(60 * 60);
/// What all of it may take.
const RUN: Duration = Duration::from_secs(85 * 60);

/// The time since the start of the run.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        Clock {
            started: Instant::now(),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// What a command that starts now may take.
    pub fn limit(&self) -> Duration {
        limit(self.elapsed())
    }
}

fn limit(elapsed: Duration) -> Duration {
    STAGE.min(RUN.saturating_sub(elapsed))
}

/// A duration as it is printed: `7.2 s`, `3 min 05 s`.
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
        assert_eq!(limit(Duration::ZERO), STAGE);
        assert_eq!(limit(RUN - Duration::from_secs(5)), Duration::from_secs(5));
        assert_eq!(limit(RUN * 2), Duration::ZERO);
        assert!(Clock::start().limit() <= STAGE);
    }

    #[test]
    fn durations_are_shown() {
        assert_eq!(shown(Duration::from_millis(7_240)), "7.2 s");
        assert_eq!(shown(Duration::from_secs(185)), "3 min 05 s");
    }
}
