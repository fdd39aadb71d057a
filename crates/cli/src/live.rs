//! Statistics that a log wrote about itself, for `stat`.

use logforce::{
    inspect::LogSummary,
    stats::{Counters, LiveStats, LiveSummary},
};
use logforce_terminal::numbers::{bytes, count, short};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The opening that wrote the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The log that is open for writing now.
    Running,
    /// Its latest opening, which is over.
    LastRun,
    /// An opening before that; the latest one wrote no statistics.
    EarlierRun,
}

impl Source {
    /// Determines it from the control file.
    pub fn of(live: &LiveStats, summary: &LogSummary) -> Source {
        match (live.epoch == summary.epoch, summary.in_use) {
            (true, true) => Source::Running,
            (true, false) => Source::LastRun,
            (false, _) => Source::EarlierRun,
        }
    }
}

/// The statistics, as JSON.
#[derive(Debug, Serialize)]
pub struct LiveInfo {
    /// The opening that wrote them.
    source: Source,
    /// Id of the process.
    pid: u64,
    /// Time at which they were written, in seconds since 1970.
    written_at: f64,
    /// Age in seconds; null if the clock says that they are from the future.
    age_seconds: Option<f64>,
    /// Seconds for which the log had been open then.
    open_seconds: f64,
    /// Durable LSN at that time.
    durable: u64,
    /// Seconds for which the oldest device call had been in flight then; 0 for none.
    oldest_io_age_seconds: f64,
    /// Time of a commit divided by the device's time for its force.
    commit_to_force_ratio: Option<f64>,
    #[serde(serialize_with = "counters")]
    counters: Counters,
    #[serde(serialize_with = "summaries")]
    histograms: Vec<(&'static str, LiveSummary)>,
}

/// Writes names and values; the names are those of `docs/format.md`.
fn counters<S: Serializer>(counters: &Counters, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(Counters::NAMES.iter().zip(counters.values()))
}

#[derive(Serialize)]
struct Summary {
    count: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

fn mean(s: &LiveSummary) -> f64 {
    s.sum as f64 / s.count.max(1) as f64
}

fn summaries<S: Serializer>(all: &[(&'static str, LiveSummary)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(all.len()))?;
    for (name, s) in all {
        let summary = Summary {
            count: s.count,
            mean: mean(s),
            p50: s.p50,
            p90: s.p90,
            p99: s.p99,
            p999: s.p999,
            max: s.max,
        };
        // The unit is part of the name. All but one are times.
        let unit = if *name == "batch_records" { "" } else { "_ns" };
        map.serialize_entry(&format!("{name}{unit}"), &summary)?;
    }
    map.end()
}

impl LiveInfo {
    /// Builds it from what was read.
    pub fn new(live: &LiveStats, source: Source) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let age = now.unwrap_or_default().checked_sub(live.written_at);
        LiveInfo {
            source,
            pid: live.pid,
            written_at: live.written_at.as_secs_f64(),
            age_seconds: age.map(|age| age.as_secs_f64()),
            open_seconds: live.open_for.as_secs_f64(),
            durable: live.durable.0,
            oldest_io_age_seconds: live.oldest_io_age.as_secs_f64(),
            commit_to_force_ratio: live.commit_to_force_ratio(),
            counters: live.counters,
            histograms: live.summaries().to_vec(),
        }
    }

    /// Returns lines of a name and a value.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let c = &self.counters;
        let who = match self.source {
            Source::Running => "of the running log",
            Source::LastRun => "of its last run, which is over",
            Source::EarlierRun => "of an earlier run, which is over",
        };
        let age = match self.age_seconds {
            Some(age) => format!("{} ago", time(age)),
            None => "at a time in the future".to_owned(),
        };
        let mut lines = vec![(
            "statistics",
            format!(
                "{who}: written {age} by process {}, open for {} then",
                self.pid,
                time(self.open_seconds)
            ),
        )];
        lines.push((
            "  appended",
            format!(
                "{} ({}) in {}",
                count(c.records, "record"),
                bytes(c.record_bytes),
                count(c.appends, "append")
            ),
        ));
        let padding = 100.0 * c.padding_bytes as f64 / c.batch_bytes.max(1) as f64;
        lines.push((
            "  written",
            format!(
                "{} ({}, {padding:.0} % padding) in {}, {} by write-through",
                count(c.batches, "batch"),
                bytes(c.batch_bytes),
                count(c.writes, "write"),
                c.through_writes
            ),
        ));
        lines.push((
            "  forced",
            format!(
                "{}, {}, {}",
                count(c.forces, "time"),
                count(c.barriers, "barrier"),
                count(c.stamps, "stamp")
            ),
        ));
        for (name, s) in &self.histograms {
            let name = match *name {
                "wait" => "  a wait",
                "write" => "  a device write",
                "force" => "  a force",
                "submit" => "  a submission",
                _ => continue,
            };
            if s.count > 0 {
                lines.push((
                    name,
                    format!(
                        "{} median, {} p99, {} p99.9, {} at most",
                        nanos(s.p50),
                        nanos(s.p99),
                        nanos(s.p999),
                        nanos(s.max)
                    ),
                ));
            }
        }
        if let Some(ratio) = self.commit_to_force_ratio {
            lines.push((
                "  a commit",
                format!("takes {ratio:.2} times its force (medians)"),
            ));
        }
        if c.buffer_waits + c.segment_waits > 0 {
            lines.push((
                "  appends waited",
                format!(
                    "{} for buffer space, {} for a prepared segment",
                    count(c.buffer_waits, "time"),
                    count(c.segment_waits, "time")
                ),
            ));
        }
        if self.oldest_io_age_seconds > 0.0 {
            lines.push((
                "  in flight",
                format!("a device call for {}", time(self.oldest_io_age_seconds)),
            ));
        }
        lines
    }
}

fn nanos(ns: u64) -> String {
    time(Duration::from_nanos(ns).as_secs_f64())
}

/// Formats a time with a suitable unit.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 600.0 => (s, "s"),
        s if s < 36_000.0 => (s / 60.0, "min"),
        s => (s / 3600.0, "h"),
    };
    format!("{} {unit}", short(value, 1))
}
