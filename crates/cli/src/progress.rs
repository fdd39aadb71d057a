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

impl Progress for Bar {
    fn doing(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn fraction(&self, done: f64) {
        self.0.set_position((done * STEPS as f64) as u64);
    }
}
