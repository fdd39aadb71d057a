//! Compile time of a stage: cargo prints it at the end of each build.

use super::clock;
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// Compile time of the stage that this thread runs.
    static TOOK: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Adds the compile times in a command's output.
pub fn heard(output: &str) {
    let more: Duration = output.lines().filter_map(finished).sum();
    TOOK.set(TOOK.get() + more);
}

/// Returns the compile time in this thread since the last call.
pub fn taken() -> Duration {
    TOOK.take()
}

/// Returns the time as it is printed; empty below one second.
pub fn shown(took: Duration) -> String {
    match took.as_secs() {
        0 => String::new(),
        _ => format!("compiling {}", clock::shown(took)),
    }
}

/// Reads ``Finished `dev` profile [optimized] target(s) in 1m 19s``.
fn finished(line: &str) -> Option<Duration> {
    let rest = line.trim_start().strip_prefix("Finished ")?;
    let (_, time) = rest.rsplit_once("target(s) in ")?;
    let (minutes, seconds) = match time.split_once("m ") {
        Some((minutes, seconds)) => (minutes.parse().ok()?, seconds),
        None => (0, time),
    };
    let seconds: f64 = seconds.strip_suffix('s')?.parse().ok()?;
    let seconds = Duration::try_from_secs_f64(seconds).ok()?;
    Some(Duration::from_secs(60 * minutes) + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says_is_added_up() {
        assert_eq!(taken(), Duration::ZERO);
        heard(
            "   Compiling a v0.1.0\n    Finished `dev` profile [optimized] target(s) in 1m 19s\n",
        );
        heard("    Finished `test` profile [unoptimized] target(s) in 0.25s\nFinished nothing\n");
        assert_eq!(taken(), Duration::from_millis(79_250));
        assert_eq!(taken(), Duration::ZERO);
        assert_eq!(shown(Duration::from_secs(79)), "compiling 1 min 19 s");
        assert_eq!(shown(Duration::from_millis(250)), "");
    }
}
