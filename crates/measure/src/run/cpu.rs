//! Contention for the processors: the time in which something was ready to run and had to wait. Known on Linux
//! only.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Percentages of a run from which on its note calls the processors the problem. A commit that waits for a flush
/// gives up its processor; beside a busy program it gets it back at the next tick of the scheduler.
const BUSY: [f64; 3] = [20.0, 5.0, 2.0];

/// Beginning of the note on contention.
pub const BUSY_NOTE: &str = "The processors were busy";

/// Contention for the processors during a run, in percent of its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuLoad {
    /// Time in which some task of the computer waited for a processor.
    pub pressure_percent: Option<f64>,
    /// Time in which the thread that measures waited for a processor.
    pub wait_percent: Option<f64>,
    /// Processor time that the hypervisor gave to other machines.
    pub steal_percent: Option<f64>,
}

/// Counters of the system at one time.
#[derive(Debug, Clone, Copy)]
pub struct CpuCounters {
    at: Instant,
    /// Time in which some task waited.
    pressure: Option<Duration>,
    /// Time in which this thread waited.
    wait: Option<Duration>,
    /// Stolen time and all time of all processors, in the same unit.
    steal: Option<(u64, u64)>,
}

impl CpuCounters {
    /// Reads the counters.
    pub fn now() -> CpuCounters {
        CpuCounters {
            at: Instant::now(),
            pressure: read("/proc/pressure/cpu").and_then(|text| pressure(&text)),
            wait: thread_wait(),
            steal: read("/proc/stat").and_then(|text| steal(&text)),
        }
    }

    /// Returns the contention from an earlier reading, by the same thread, to this one. Returns `None` if nothing
    /// is known about it.
    pub fn since(&self, before: &CpuCounters) -> Option<CpuLoad> {
        let time = self.at.duration_since(before.at);
        let part = |after: Option<Duration>, before: Option<Duration>| {
            percent(after?.checked_sub(before?)?, time)
        };
        let stolen = |after: (u64, u64), before: (u64, u64)| {
            let all = after.1.checked_sub(before.1).filter(|all| *all > 0)?;
            Some(after.0.checked_sub(before.0)? as f64 / all as f64 * 100.0)
        };
        let load = CpuLoad {
            pressure_percent: part(self.pressure, before.pressure),
            wait_percent: part(self.wait, before.wait),
            steal_percent: self.steal.zip(before.steal).and_then(|(a, b)| stolen(a, b)),
        };
        (load != CpuLoad::default()).then_some(load)
    }
}

impl CpuLoad {
    /// Describes the contention if it was large enough to change the figures.
    pub fn note(&self) -> Option<String> {
        let known = [self.pressure_percent, self.wait_percent, self.steal_percent];
        let is_busy = |(percent, most): (Option<f64>, f64)| percent.is_some_and(|p| p >= most);
        if !known.into_iter().zip(BUSY).any(is_busy) {
            return None;
        }
        let words = [
            "% of the run some task waited for a processor",
            "% the measuring thread did",
            "% of the processor time went to other virtual machines",
        ];
        let parts = known.into_iter().zip(words);
        let parts = parts.filter_map(|(percent, words)| Some(format!("{:.0} {words}", percent?)));
        Some(format!(
            "{BUSY_NOTE}: {}. Then the figures also show how long a commit waits for a processor \
             after the disk has answered. Stop other programs, or measure longer.",
            parts.collect::<Vec<_>>().join(", ")
        ))
    }
}

/// Returns the time for which this thread was ready to run and waited for a processor since it began; `None` if
/// the system does not tell.
pub fn thread_wait() -> Option<Duration> {
    read("/proc/thread-self/schedstat").and_then(|text| wait(&text))
}

/// Returns a part of a time in percent.
pub fn percent(part: Duration, of: Duration) -> Option<f64> {
    let of = of.as_secs_f64();
    (of > 0.0).then(|| part.as_secs_f64() / of * 100.0)
}

fn read(path: &str) -> Option<String> {
    match cfg!(target_os = "linux") {
        true => std::fs::read_to_string(path).ok(),
        false => None,
    }
}

/// Returns the total of the line `some` of a pressure file, which is in microseconds.
fn pressure(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

/// Returns the second number of a `schedstat`: the nanoseconds on a run queue.
fn wait(text: &str) -> Option<Duration> {
    let ns = text.split_whitespace().nth(1)?;
    ns.parse().ok().map(Duration::from_nanos)
}

/// Returns the stolen time and all time of all processors. Time of guests is contained in user time.
fn steal(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times: Option<Vec<u64>> = line
        .split_whitespace()
        .take(8)
        .map(|word| word.parse().ok())
        .collect();
    let times = times.filter(|times| times.len() == 8)?;
    let all = times
        .iter()
        .try_fold(0_u64, |sum, time| sum.checked_add(*time))?;
    Some((times[7], all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_system_are_read() {
        let text =
            "some avg10=48.42 avg60=45.41 avg300=64.31 total=8413620236\nfull avg10=0.00 total=1\n";
        assert_eq!(pressure(text), Some(Duration::from_micros(8_413_620_236)));
        assert_eq!(
            wait("131416 223747 3\n"),
            Some(Duration::from_nanos(223_747))
        );
        let text = "cpu  890 745 710 522 67 0 24 29 5 0\ncpu0 1 2 3\n";
        assert_eq!(steal(text), Some((29, 2987)));
        for text in ["", "some", "some total=x", "cpu", "cpu -1 2 3", "1", "1 -2"] {
            assert_eq!(
                (pressure(text), wait(text), steal(text)),
                (None, None, None),
                "{text}"
            );
        }
        for text in ["cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(steal(text), None, "{text}");
        }
        let full = format!("cpu  {} 1 2 3 4 5 6 7", u64::MAX);
        assert_eq!(steal(&full), None);
    }

    #[test]
    fn the_load_is_what_happened_between_two_readings() {
        let at = Instant::now();
        let of = |seconds, pressure: u64, wait: u64, steal| CpuCounters {
            at: at + Duration::from_secs(seconds),
            pressure: Some(Duration::from_secs(pressure)),
            wait: Some(Duration::from_secs(wait)),
            steal: Some(steal),
        };
        let load = of(20, 105, 7, (30, 1400))
            .since(&of(10, 100, 5, (10, 400)))
            .unwrap();
        assert_eq!(load.pressure_percent, Some(50.0));
        assert_eq!(load.wait_percent, Some(20.0));
        assert_eq!(load.steal_percent, Some(2.0));
        let words = load.note().unwrap();
        for part in [
            "50 % of the run",
            "20 % the measuring",
            "2 % of the processor time",
        ] {
            assert!(words.contains(part), "{words}");
        }
        // A counter that ran backwards, as after a move to another computer, is unknown.
        let odd = of(20, 99, 7, (1, 1400))
            .since(&of(10, 100, 5, (10, 400)))
            .unwrap();
        assert_eq!((odd.pressure_percent, odd.steal_percent), (None, None));
        let quiet = CpuLoad {
            pressure_percent: Some(3.0),
            wait_percent: Some(0.5),
            steal_percent: None,
        };
        assert_eq!(quiet.note(), None);
        let nothing = CpuCounters {
            pressure: None,
            wait: None,
            steal: None,
            ..of(1, 0, 0, (0, 0))
        };
        assert_eq!(nothing.since(&nothing), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_tells_how_long_this_thread_waited() {
        let Some(before) = thread_wait() else {
            return logforce_testkit::skip!("this kernel counts no waits of a thread");
        };
        assert!(thread_wait().unwrap() >= before);
    }
}
