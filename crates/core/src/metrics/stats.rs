use crate::metrics::counters::Counters;
use crate::metrics::recorder::Metrics;
use logforce_commit::metrics::histogram::HistogramSnapshot;
use logforce_format::Lsn;
use std::fmt;
use std::time::Duration;

/// Statistics of a log since it was opened; see [`Log::stats`](crate::Log::stats).
///
/// Times are nanoseconds. `{stats}` prints a summary of a few lines.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    /// Time since the log was opened; in a difference, the time between the two.
    pub open_for: Duration,
    /// Durable LSN.
    pub durable: Lsn,
    /// Replicated LSN; [`Lsn::ORIGIN`] without a replica. The difference to `durable` is the replica's lag,
    /// bytes.
    pub replicated_to: Lsn,
    /// Age of the oldest write, barrier or directory change in flight; zero if there is none. A value of
    /// seconds means that the device hangs.
    pub oldest_io_age: Duration,
    /// Counters.
    pub counters: Counters,
    /// Duration of the waits in a commit, a force or a submission's `wait`, nanoseconds. Calls that need
    /// not wait are not included.
    pub wait: HistogramSnapshot,
    /// Duration of a commit by [`Policy::Force`](crate::Policy::Force), from the call to its return,
    /// nanoseconds. `wait` includes these.
    pub commit: HistogramSnapshot,
    /// Duration of a commit by [`Policy::Replicated`](crate::Policy::Replicated), from the call to its
    /// return, nanoseconds. `wait` does not include these.
    pub replicated: HistogramSnapshot,
    /// Duration of a device write of a batch, nanoseconds.
    pub write: HistogramSnapshot,
    /// Duration of a job that forces, from its beginning until its records are durable, nanoseconds.
    pub force: HistogramSnapshot,
    /// Age of the oldest submission in such a job, from its acceptance until it is durable, nanoseconds.
    pub submit: HistogramSnapshot,
    /// Number of records that end in a batch with records.
    pub batch_records: HistogramSnapshot,
}

impl Metrics {
    pub(crate) fn read(&self, now: Duration, durable: Lsn, replicated_to: Lsn) -> Stats {
        let commit = self.commit.snapshot();
        let mut wait = self.wait.snapshot();
        wait.merge(&commit);
        Stats {
            open_for: now.saturating_sub(self.opened),
            durable,
            replicated_to,
            oldest_io_age: self.calls.oldest(now),
            counters: self.counted.read(),
            wait,
            commit,
            replicated: self.replicated.snapshot(),
            write: self.write.snapshot(),
            force: self.force.snapshot(),
            submit: self.submit.snapshot(),
            batch_records: self.batch_records.snapshot(),
        }
    }
}

impl Stats {
    /// Returns the overhead of the log over the raw device: the median duration of blocking commits, divided
    /// by the median duration of the jobs that forced them. 1.0 means that the log adds nothing. With many
    /// committing threads it is between 1 and 2, because a commit may arrive while the previous job is in
    /// flight. `None` before the first commit.
    pub fn commit_to_force_ratio(&self) -> Option<f64> {
        ratio(self.commit.quantile(0.5), self.force.quantile(0.5))
    }

    /// Returns the mean number of records per batch with records; `None` before the first batch.
    pub fn records_per_batch(&self) -> Option<f64> {
        ratio(self.batch_records.sum(), self.batch_records.count())
    }

    /// Returns the share of padding in the written bytes, 0 to 1; `None` if no padding was written.
    pub fn padding_share(&self) -> Option<f64> {
        ratio(self.counters.padding_bytes, self.counters.batch_bytes)
    }

    /// Returns the statistics since `earlier`, for a program that samples intervals. `durable` and
    /// `oldest_io_age` keep their values.
    pub fn difference(&self, earlier: &Stats) -> Stats {
        Stats {
            open_for: self.open_for.saturating_sub(earlier.open_for),
            durable: self.durable,
            replicated_to: self.replicated_to,
            oldest_io_age: self.oldest_io_age,
            counters: self.counters.difference(&earlier.counters),
            wait: self.wait.difference(&earlier.wait),
            commit: self.commit.difference(&earlier.commit),
            replicated: self.replicated.difference(&earlier.replicated),
            write: self.write.difference(&earlier.write),
            force: self.force.difference(&earlier.force),
            submit: self.submit.difference(&earlier.submit),
            batch_records: self.batch_records.difference(&earlier.batch_records),
        }
    }
}

pub(super) fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0 && a > 0).then(|| a as f64 / b as f64)
}

/// A count with its unit: `1 record`, `2 records`.
struct Count(u64, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(n, one) = self;
        match n {
            1 => write!(f, "1 {one}"),
            n if one.ends_with("ch") => write!(f, "{n} {one}es"),
            n => write!(f, "{n} {one}s"),
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.counters;
        writeln!(
            f,
            "open for {:.1} s, durable to LSN {}",
            self.open_for.as_secs_f64(),
            self.durable
        )?;
        writeln!(
            f,
            "{} with {} in {} of {:.1} records; {} written, {:.1} % padding",
            Count(c.records, "record"),
            Count(c.record_bytes, "byte"),
            Count(c.batches, "batch"),
            self.records_per_batch().unwrap_or(0.0),
            Count(c.batch_bytes, "byte"),
            100.0 * self.padding_share().unwrap_or(0.0)
        )?;
        writeln!(
            f,
            "{}, {} ({} through), {}, {}",
            Count(c.forces, "force"),
            Count(c.writes, "write"),
            c.through_writes,
            Count(c.barriers, "barrier"),
            Count(c.stamps, "stamp")
        )?;
        for (name, h) in [
            ("wait", &self.wait),
            ("replica", &self.replicated),
            ("write", &self.write),
            ("force", &self.force),
            ("submit", &self.submit),
        ] {
            if h.count() == 0 {
                continue;
            }
            let micros = |ns: u64| ns as f64 / 1e3;
            writeln!(
                f,
                "{name:<7} p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} µs ({})",
                micros(h.quantile(0.5)),
                micros(h.quantile(0.99)),
                micros(h.quantile(0.999)),
                micros(h.max()),
                Count(h.count(), "time")
            )?;
        }
        if let Some(distance) = self.commit_to_force_ratio() {
            writeln!(f, "a commit takes {distance:.2} times its force")?;
        }
        write!(
            f,
            "appends waited {} for buffer space, {} for a segment; {} prepared, {} of them recycled, {} not filled",
            Count(c.buffer_waits, "time"),
            Count(c.segment_waits, "time"),
            Count(c.segments_prepared, "segment"),
            c.segments_recycled,
            c.segments_unfilled
        )?;
        if self.oldest_io_age > Duration::ZERO {
            let age = self.oldest_io_age.as_secs_f64();
            write!(
                f,
                "\
a device call has been in flight for {age:.6} s"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn one_is_one() {
        let text = |n, one| Count(n, one).to_string();
        assert_eq!(text(1, "record"), "1 record");
        assert_eq!(text(1, "batch"), "1 batch");
        assert_eq!(text(2, "batch"), "2 batches");
        assert_eq!(text(0, "byte"), "0 bytes");
    }
}
