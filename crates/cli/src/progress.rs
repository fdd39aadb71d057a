//! The progress bar, on standard error and only for a terminal.

use crate::output::is_quiet;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use logforce_measure::progress::Progress;

const STEPS: u64 = 1000;

/// A bar that draws only on progress: nothing runs beside a measurement.
pub struct Bar(ProgressBar);

impl Bar {
    /// Hidden if standard error is no terminal, and by `--quiet`.
    pub fn new() -> Self {
        let target = match is_quiet() {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed}, {eta} left  {msg}")
        {
            bar.set_style(style);
        }
        Bar(bar)
    }

    /// Takes the bar off the screen.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Bytes after which the bar of a walk moves.
const STEP: u64 = 8 << 20;

/// A walk through a log or a page file, as far as it has come.
pub struct Walk {
    bar: Option<Bar>,
    from: u64,
    whole: f64,
    shown: u64,
}

impl Walk {
    /// From one place to another; no bar where what is listed goes to the terminal itself.
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

    /// It has come to this place.
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

impl Progress for Bar {
    fn doing(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn fraction(&self, done: f64) {
        self.0.set_position((done * STEPS as f64) as u64);
    }
}
