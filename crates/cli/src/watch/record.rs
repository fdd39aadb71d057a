//! Records of the CSV and JSON files.

use logforce_device::{Assessment, Method};
use logforce_measure::machine::Machine;
use logforce_measure::watch::{Event, InProgress, Settings, Summary};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// First line of a JSON file: the watch that writes it.
#[derive(Debug, Clone, Serialize)]
pub struct Start {
    pub schema: &'static str,
    pub version: u32,
    pub event: &'static str,
    pub time: String,
    pub command: String,
    pub dir: String,
    pub machine: Machine,
    pub method: &'static str,
    pub bytes: u64,
    pub interval_seconds: f64,
    pub stall_seconds: f64,
    pub guarantee: &'static str,
    pub verdict: &'static str,
    pub evidence: String,
}

/// Returns a time since 1970 in the form `2026-11-28T06:15:23.412Z`.
pub fn utc(since_1970: Duration) -> String {
    // Years after 9999 cannot be formatted.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let time = UNIX_EPOCH + since_1970.min(LAST);
    humantime::format_rfc3339_millis(time).to_string()
}

/// Returns the time since 1970 by the system's clock.
pub fn wall_clock() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

impl Start {
    /// Describes a watch.
    pub fn new(
        command: String,
        dir: &Path,
        machine: Machine,
        method: Method,
        bytes: u64,
        settings: Settings,
        assessment: &Assessment,
    ) -> Start {
        Start {
            schema: "logforce-watch",
            version: 1,
            event: "start",
            time: utc(wall_clock()),
            command,
            dir: std::path::absolute(dir)
                .unwrap_or_else(|_| dir.to_owned())
                .display()
                .to_string(),
            machine,
            method: method.name(),
            bytes,
            interval_seconds: settings.interval.as_secs_f64(),
            stall_seconds: settings.stall.as_secs_f64(),
            guarantee: assessment.granted().name(),
            verdict: assessment.verdict.name(),
            evidence: assessment.evidence.clone(),
        }
    }
}

/// Every other line of a JSON file, and every line of a CSV file. A field that an event does not have is
/// null, or empty in CSV.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Record {
    pub event: &'static str,
    pub time: String,
    pub seconds: Option<f64>,
    pub commits: Option<u64>,
    pub p50_us: Option<f64>,
    pub p90_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p999_us: Option<f64>,
    pub max_us: Option<f64>,
    pub stalls: Option<u64>,
    pub device_bytes: Option<u64>,
    pub lost_events: Option<u64>,
}

impl Record {
    fn new(event: &'static str, at: Duration, seconds: f64) -> Record {
        Record {
            event,
            time: utc(at),
            seconds: Some(seconds),
            ..Record::default()
        }
    }

    /// Returns the record of an event.
    pub fn of(event: &Event) -> Record {
        match event {
            Event::Minute(m) => Record {
                commits: Some(m.commits),
                p50_us: Some(m.p50_us),
                p90_us: Some(m.p90_us),
                p99_us: Some(m.p99_us),
                max_us: Some(m.max_us),
                stalls: Some(m.stalls),
                device_bytes: m.device_bytes,
                ..Record::new("minute", m.at, m.lasted.as_secs_f64())
            },
            Event::Stall(s) => Record {
                device_bytes: s.device_bytes,
                ..Record::new("stall", s.at, s.lasted.as_secs_f64())
            },
            Event::Clock(c) => Record::new("clock", c.at, c.by_seconds),
            Event::Late(l) => Record::new("late", l.at, l.lasted.as_secs_f64()),
        }
    }

    /// Returns the record of a commit that has not ended for this time.
    pub fn hang(commit: InProgress, lasting: Duration) -> Record {
        Record::new("hang", commit.at, lasting.as_secs_f64())
    }

    /// Returns the last record of a watch that lasted this long.
    pub fn end(
        at: Duration,
        lasted: Duration,
        summary: Option<&Summary>,
        lost_events: u64,
    ) -> Record {
        Record {
            commits: Some(summary.map_or(0, |s| s.commits)),
            p50_us: summary.map(|s| s.p50_us),
            p90_us: summary.map(|s| s.p90_us),
            p99_us: summary.map(|s| s.p99_us),
            p999_us: summary.map(|s| s.p999_us),
            max_us: summary.map(|s| s.max_us),
            stalls: Some(summary.map_or(0, |s| s.stalls)),
            lost_events: Some(lost_events),
            ..Record::new("end", at, lasted.as_secs_f64())
        }
    }
}
