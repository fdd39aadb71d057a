//! Recorder of what happens inside the commit loop: commits, time, latencies and device counters.

use crate::run::counters::{CounterSource, Delta};
use crate::run::cpu;
use crate::{Interrupt, MeasureError};
use hdrhistogram::Histogram;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Largest latency that is recorded, nanoseconds: one hour. Longer ones are recorded as this value.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies of commits: a histogram with three significant digits, and the exact maximum.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    longest_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are valid");
        Latencies {
            histogram,
            longest_ns: 0,
        }
    }
}

impl Latencies {
    /// Records one commit.
    pub fn record(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos())
            .unwrap_or(LONGEST_NS)
            .clamp(1, LONGEST_NS);
        self.longest_ns = self.longest_ns.max(ns);
        self.histogram.saturating_record(ns);
    }

    /// Adds the latencies of another thread or slice.
    pub fn merge(&mut self, other: &Latencies) {
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        if self.histogram.add(&other.histogram).is_err() {
            unreachable!("all histograms have the same bounds");
        }
    }

    /// Returns the number of recorded commits.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the latency that the share `quantile` (0 to 1) of the commits did not exceed, microseconds.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.histogram
            .value_at_quantile(quantile)
            .min(self.longest_ns) as f64
            / 1e3
    }

    /// Returns the number of commits that took longer than `limit`.
    pub fn count_above(&self, limit: Duration) -> u64 {
        let ns = u64::try_from(limit.as_nanos()).unwrap_or(LONGEST_NS);
        if self.longest_ns <= ns {
            return 0;
        }
        self.count() - self.histogram.count_between(0, ns)
    }

    /// Returns the longest latency, microseconds.
    pub fn max_us(&self) -> f64 {
        self.longest_ns as f64 / 1e3
    }
}

/// One slice of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// Number of commits.
    pub commits: u64,
    /// Time in the timed parts.
    pub time: Duration,
}

/// Maximum length of one slice. It ends at whichever limit comes first, but contains at least one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Number of commits.
    pub commits: u64,
    /// Time in the timed parts; `None` for no limit.
    pub time: Option<Duration>,
}

/// Totals of the timed parts of one row.
pub struct Recorder {
    latencies: Latencies,
    slices: Vec<Slice>,
    device: Option<Delta>,
    cpu_wait: Option<Duration>,
    log_bytes: u64,
    counters: Rc<dyn CounterSource>,
    interrupt: Interrupt,
}

impl Recorder {
    /// Creates an empty recorder.
    pub fn new(counters: Rc<dyn CounterSource>, interrupt: Interrupt) -> Self {
        Recorder {
            latencies: Latencies::default(),
            slices: Vec::new(),
            device: None,
            cpu_wait: None,
            log_bytes: 0,
            counters,
            interrupt,
        }
    }

    /// Begins a slice. The schedule calls this.
    pub fn begin_slice(&mut self) {
        self.slices.push(Slice::default());
    }

    /// Returns the current slice.
    pub fn slice(&self) -> Slice {
        self.slices.last().copied().unwrap_or_default()
    }

    /// Returns all slices so far.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Returns whether the current slice may continue.
    pub fn more(&self, limit: &Limit) -> bool {
        !self.interrupt.is_raised() && within(self.slice(), limit)
    }

    /// Returns the flag that ends every loop.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Times `body`, which commits on this thread, and reads the device's counters before and after it.
    /// May be called several times in a slice, with untimed work in between. After an error, the commits
    /// that `body` recorded still count.
    pub fn timed(
        &mut self,
        body: impl FnOnce(&mut Laps) -> Result<(), MeasureError>,
    ) -> Result<(), MeasureError> {
        let waited = cpu::thread_wait();
        let before = self.counters.read();
        let start = Instant::now();
        let mut laps = Laps {
            latencies: &mut self.latencies,
            slice: self.slices.last().copied().unwrap_or_default(),
            interrupt: &self.interrupt,
            last: start,
        };
        let result = body(&mut laps);
        let slice = laps.slice;
        self.store(slice);
        self.count_device(before);
        if let Some((before, after)) = waited.zip(cpu::thread_wait()) {
            self.count_cpu_wait(after.saturating_sub(before));
        }
        result
    }

    /// Runs `body`, which commits on several threads, and reads the device's counters before and after it.
    /// `body` returns the time from the first start to the last end, and each thread's latencies.
    pub fn parallel(
        &mut self,
        body: impl FnOnce() -> Result<(Duration, Vec<Latencies>), MeasureError>,
    ) -> Result<(), MeasureError> {
        let before = self.counters.read();
        let (time, threads) = body()?;
        self.count_device(before);
        let mut slice = self.slice();
        slice.time += time;
        for latencies in &threads {
            slice.commits += latencies.count();
            self.latencies.merge(latencies);
        }
        self.store(slice);
        Ok(())
    }

    /// Returns the latencies of all slices.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Returns the work of the device in all timed parts; `None` without counters.
    pub fn device(&self) -> Option<Delta> {
        self.device
    }

    /// Adds time for which the only committing thread waited for a processor.
    pub fn count_cpu_wait(&mut self, wait: Duration) {
        *self.cpu_wait.get_or_insert_default() += wait;
    }

    /// Returns the time for which the only committing thread waited for a processor; `None` with several threads,
    /// or if the system does not tell.
    pub fn cpu_wait(&self) -> Option<Duration> {
        self.cpu_wait
    }

    /// Adds the bytes that commits occupy in their file, headers and padding included.
    pub fn count_log_bytes(&mut self, bytes: u64) {
        self.log_bytes += bytes;
    }

    /// Returns the bytes that all commits occupy in their file.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// Returns the number of commits of all slices.
    pub fn commits(&self) -> u64 {
        self.slices.iter().map(|s| s.commits).sum()
    }

    /// Returns the time in all timed parts.
    pub fn time(&self) -> Duration {
        self.slices.iter().map(|s| s.time).sum()
    }

    fn store(&mut self, slice: Slice) {
        match self.slices.last_mut() {
            Some(last) => *last = slice,
            None => self.slices.push(slice),
        }
    }

    fn count_device(&mut self, before: Option<crate::run::counters::Reading>) {
        if let Some((before, after)) = before.zip(self.counters.read()) {
            let delta = Delta::between(before, after);
            self.device = Some(self.device.map_or(delta, |d| d.plus(delta)));
        }
    }
}

fn within(slice: Slice, limit: &Limit) -> bool {
    slice.commits == 0
        || (slice.commits < limit.commits && limit.time.is_none_or(|t| slice.time < t))
}

/// The clock inside a timed part. It is read once per commit, so that the latencies add up to the total.
pub struct Laps<'a> {
    latencies: &'a mut Latencies,
    slice: Slice,
    interrupt: &'a Interrupt,
    last: Instant,
}

impl Laps<'_> {
    /// Records a commit. Its latency is the time since the last commit, or since the start.
    pub fn commit(&mut self) {
        let now = Instant::now();
        let took = now - self.last;
        self.last = now;
        self.latencies.record(took);
        self.slice.commits += 1;
        self.slice.time += took;
    }

    /// Does work between two commits that does not count, such as making the next bytes to write.
    pub fn untimed(&mut self, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        self.last += start.elapsed();
    }

    /// Returns whether the slice may continue.
    pub fn more(&self, limit: &Limit) -> bool {
        !self.interrupt.is_raised() && within(self.slice, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::counters::NoCounters;

    fn recorder() -> Recorder {
        Recorder::new(Rc::new(NoCounters), Interrupt::new())
    }

    #[test]
    fn stops_by_count_and_by_time_but_never_before_one() {
        let mut r = recorder();
        for limit in [
            Limit {
                commits: 3,
                time: None,
            },
            Limit {
                commits: 0,
                time: None,
            },
            Limit {
                commits: 9,
                time: Some(Duration::ZERO),
            },
        ] {
            r.begin_slice();
            r.timed(|laps| {
                while laps.more(&limit) {
                    laps.commit();
                }
                Ok(())
            })
            .unwrap();
            assert!(!r.more(&limit));
        }
        assert_eq!(
            r.slices().iter().map(|s| s.commits).collect::<Vec<_>>(),
            [3, 1, 1]
        );
        assert_eq!((r.commits(), r.latencies().count()), (5, 5));
    }

    #[test]
    fn an_interrupt_stops_at_once() {
        let mut r = recorder();
        r.begin_slice();
        r.interrupt().raise();
        assert!(!r.more(&Limit {
            commits: 1,
            time: None
        }));
    }

    #[test]
    fn untimed_work_takes_no_time() {
        let mut r = recorder();
        r.begin_slice();
        let pause = Duration::from_millis(20);
        r.timed(|laps| {
            for _ in 0..3 {
                laps.untimed(|| std::thread::sleep(pause));
                laps.commit();
            }
            Ok(())
        })
        .unwrap();
        assert!(r.time() < pause, "{:?}", r.time());
        assert!(r.latencies().max_us() < 20_000.0);
    }

    #[test]
    fn the_maximum_is_exact_and_bounds_the_quantiles() {
        let mut l = Latencies::default();
        for us in 1..=1000 {
            l.record(Duration::from_nanos(us * 1000 + 7));
        }
        assert_eq!(l.max_us(), 1000.007);
        assert!(l.quantile_us(1.0) <= l.max_us());
        assert!(
            (l.quantile_us(0.5) - 500.0).abs() < 2.0,
            "{}",
            l.quantile_us(0.5)
        );
    }

    #[test]
    fn commits_above_a_limit_are_counted() {
        let mut l = Latencies::default();
        assert_eq!(l.count_above(Duration::ZERO), 0);
        for ms in [1, 9, 10, 11, 500] {
            l.record(Duration::from_millis(ms));
        }
        for (ms, above) in [
            (0, 5),
            (9, 3),
            (10, 2),
            (11, 1),
            (499, 1),
            (500, 0),
            (501, 0),
        ] {
            assert_eq!(l.count_above(Duration::from_millis(ms)), above, "{ms} ms");
        }
    }

    #[test]
    fn threads_are_merged_and_time_is_not_added_up() {
        let mut r = recorder();
        r.begin_slice();
        let mut l = Latencies::default();
        l.record(Duration::from_micros(10));
        r.parallel(|| Ok((Duration::from_micros(11), vec![l.clone(), l])))
            .unwrap();
        assert_eq!((r.commits(), r.time()), (2, Duration::from_micros(11)));
    }
}
