//! Metrics in the text format of Prometheus.

use super::record::Start;
use logforce_device::Runtime;
use logforce_measure::watch::{BOUNDS, Totals};
use std::fmt::Write;
use std::sync::Arc;

/// Source of the metrics of one watch.
pub struct Source {
    /// Lines that stay the same.
    about: String,
    totals: Arc<Totals>,
    clock: Arc<dyn Runtime>,
}

impl Source {
    /// Makes the source.
    pub fn new(start: &Start, totals: Arc<Totals>, clock: Arc<dyn Runtime>) -> Source {
        let labels = [
            ("dir", &*start.dir),
            ("filesystem", &start.machine.filesystem),
            (
                "device",
                start.machine.device.as_deref().unwrap_or_default(),
            ),
            ("method", start.method),
            ("guarantee", start.guarantee),
            ("version", env!("CARGO_PKG_VERSION")),
        ];
        let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let mut about = String::new();
        let what = "The watched directory, and the commits that are made there.";
        head(&mut about, "info", "gauge", what);
        let _ = writeln!(about, "logforce_watch_info{{{}}} 1", labels.join(","));
        let what = "Duration from which a commit counts as a stall.";
        head(&mut about, "stall_threshold_seconds", "gauge", what);
        let threshold = start.stall_seconds;
        let _ = writeln!(about, "logforce_watch_stall_threshold_seconds {threshold}");
        Source {
            about,
            totals,
            clock,
        }
    }

    /// Returns the present metrics.
    pub fn text(&self) -> String {
        let now = self.clock.now();
        let scrape = self.totals.scrape();
        let mut text = self.about.clone();
        // Writing to a string cannot fail.
        let what = "Durations of durable commits.";
        head(&mut text, "commit_duration_seconds", "histogram", what);
        let name = "logforce_watch_commit_duration_seconds";
        let mut total = 0;
        for (index, count) in scrape.buckets.iter().enumerate() {
            total += count;
            let bound = BOUNDS.get(index).map(|us| (*us as f64 / 1e6).to_string());
            let bound = bound.as_deref().unwrap_or("+Inf");
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(text, "{name}_sum {}", scrape.sum.as_secs_f64());
        let _ = writeln!(text, "{name}_count {total}");
        let what = "Commits that took as long as the threshold or longer.";
        head(&mut text, "stalls_total", "counter", what);
        let _ = writeln!(text, "logforce_watch_stalls_total {}", scrape.stalls);
        let what = "Sum of the durations of all stalls.";
        head(&mut text, "stalled_seconds_total", "counter", what);
        let stalled = scrape.stalled.as_secs_f64();
        let _ = writeln!(text, "logforce_watch_stalled_seconds_total {stalled}");
        let what = "End of the last commit, in seconds since 1970; 0 before the first.";
        head(&mut text, "last_commit_timestamp_seconds", "gauge", what);
        let last = scrape.last.map_or(0.0, |last| last.as_secs_f64());
        let _ = writeln!(text, "logforce_watch_last_commit_timestamp_seconds {last}");
        let what = "Time since the start of the commit that has not ended; 0 if there is none.";
        head(&mut text, "commit_in_progress_seconds", "gauge", what);
        let since = scrape.in_progress.map(|c| now.saturating_sub(c.since));
        let since = since.unwrap_or_default().as_secs_f64();
        let _ = writeln!(text, "logforce_watch_commit_in_progress_seconds {since}");
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, what: &str) {
    let _ = writeln!(text, "# HELP logforce_watch_{name} {what}");
    let _ = writeln!(text, "# TYPE logforce_watch_{name} {kind}");
}

/// Returns a label's value with backslashes, quotes and line feeds escaped.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
