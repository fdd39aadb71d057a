//! Progress bars, on standard error and only for a terminal.

use crate::output::{complain, is_quiet, terminal_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use logforce_terminal::layout::wrap;
use logforce_terminal::progress::Progress;
use std::fmt::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const STEPS: u64 = 1000;

/// A bar that draws only on progress, so that no thread disturbs a measurement.
pub struct Bar(ProgressBar);

impl Bar {
    /// Creates a bar. It is hidden by `--quiet`, or if standard error is not a terminal.
    pub fn new() -> Self {
        let target = match is_quiet() {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed}{left}  {msg}")
        {
            let left = |state: &ProgressState, out: &mut dyn Write| {
                let told = left(state.elapsed(), f64::from(state.fraction()));
                let _ = out.write_str(&told);
            };
            bar.set_style(style.with_key("left", left));
        }
        Bar(bar)
    }

    /// Removes the bar from the screen.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Returns the remaining time as text, if work goes on at the average speed so far. Most bars use the
/// average of the last steps, which is far off in the first seconds; most of our runs end by then.
fn left(elapsed: Duration, done: f64) -> String {
    if done < 0.02 {
        return String::new();
    }
    let rest = elapsed.mul_f64((1.0 - done).max(0.0) / done).as_secs_f64();
    let rest = Duration::from_secs(rest.ceil() as u64);
    format!(", {} left", humantime::format_duration(rest))
}

/// Number of bytes after which the bar of a walk moves.
const STEP: u64 = 8 << 20;

/// Progress of a walk through a log or a page file.
pub struct Walk {
    bar: Option<Bar>,
    from: u64,
    whole: f64,
    shown: u64,
}

impl Walk {
    /// Begins a walk from one position to another. There is no bar if the listing goes to the terminal.
    pub fn begin(doing: &str, from: u64, to: u64, is_shown: bool) -> Walk {
        let bar = is_shown.then(Bar::new);
        if let Some(bar) = &bar {
            bar.doing(doing);
        }
        Walk {
            bar,
            from,
            whole: to.saturating_sub(from).max(1) as f64,
            shown: from,
        }
    }

    /// Reports that the walk has reached this position.
    pub fn at(&mut self, place: u64) {
        if place.saturating_sub(self.shown) < STEP {
            return;
        }
        self.shown = place;
        if let Some(bar) = &self.bar {
            bar.fraction(place.saturating_sub(self.from) as f64 / self.whole);
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.clear();
        }
    }
}

/// Interval at which a countdown moves. It is long, so that its thread does not disturb a measurement.
const TICK: Duration = Duration::from_millis(250);

/// A bar for work that reports no progress but has a known longest duration.
pub struct Countdown {
    /// Sender that ends the countdown when it is dropped.
    until: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Countdown {
    /// Begins a countdown of this duration. Work that ends at once shows no bar.
    pub fn begin(doing: &str, whole: Duration) -> Countdown {
        let doing = doing.to_owned();
        Countdown::with(whole, TICK, move || {
            let bar = Bar::new();
            bar.doing(&doing);
            bar
        })
    }

    fn with<P: Shown>(
        whole: Duration,
        tick: Duration,
        bar: impl FnOnce() -> P + Send + 'static,
    ) -> Countdown {
        let (until, over) = channel::<()>();
        let began = Instant::now();
        let count = move || {
            let is_over = || !matches!(over.recv_timeout(tick), Err(RecvTimeoutError::Timeout));
            if is_over() {
                return;
            }
            let bar = bar();
            loop {
                let part = began.elapsed().as_secs_f64() / whole.as_secs_f64().max(1e-3);
                // The bar is full only when the work has ended.
                bar.fraction(part.min(0.999));
                if is_over() {
                    return bar.gone();
                }
            }
        };
        Countdown {
            until: Some(until),
            // Without a thread there is no bar, but the work is done.
            thread: std::thread::Builder::new().spawn(count).ok(),
        }
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A bar that a countdown moves.
trait Shown: Progress {
    /// Removes it from the screen.
    fn gone(self);
}

impl Shown for Bar {
    fn gone(self) {
        self.clear();
    }
}

impl Progress for Bar {
    fn doing(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn fraction(&self, done: f64) {
        self.0.set_position((done * STEPS as f64) as u64);
    }

    fn announce(&self, words: &str) {
        complain(wrap(words, terminal_width(true), 2).trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn the_rest_takes_as_long_as_the_beginning_did() {
        let at = |ms, done| left(Duration::from_millis(ms), done);
        assert_eq!(at(1000, 0.25), ", 3s left");
        assert_eq!(at(90_000, 0.5), ", 1m 30s left");
        assert_eq!(at(90_000, 1.0), ", 0s left");
        assert_eq!(at(100, 0.0), "", "nothing is known yet");
    }

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<f64>>>);

    impl Progress for Seen {
        fn doing(&self, _: &str) {}
        fn fraction(&self, done: f64) {
            self.0.lock().unwrap().push(done);
        }
    }

    impl Shown for Seen {
        fn gone(self) {
            self.fraction(2.0);
        }
    }

    /// Returns what a countdown of `whole` shows until `enough` returns true.
    fn shown(whole: Duration, enough: impl Fn(&[f64]) -> bool) -> Vec<f64> {
        let seen = Seen::default();
        let bar = seen.clone();
        let countdown = Countdown::with(whole, Duration::from_millis(1), || bar);
        while !enough(&seen.0.lock().unwrap()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(countdown);
        let mut seen = seen.0.lock().unwrap().clone();
        assert_eq!(
            seen.pop(),
            Some(2.0),
            "the bar is removed when the work ends"
        );
        seen
    }

    #[test]
    fn a_countdown_moves_on_and_ends_with_its_work() {
        let hour = shown(Duration::from_secs(3600), |seen| seen.len() > 2);
        assert!(hour.is_sorted() && hour[0] < *hour.last().unwrap());
        assert!(hour.iter().all(|part| *part < 0.999), "{hour:?}");
        // The bar of work that takes longer than expected is not full before the work ends.
        let late = shown(Duration::ZERO, |seen| seen.len() > 2);
        assert!(late.iter().all(|part| *part == 0.999), "{late:?}");
    }

    #[test]
    fn work_that_is_done_at_once_shows_nothing() {
        let seen = Seen::default();
        let bar = seen.clone();
        let hour = Duration::from_secs(3600);
        drop(Countdown::with(hour, hour, || bar));
        assert_eq!(seen.0.lock().unwrap().len(), 0);
    }
}
