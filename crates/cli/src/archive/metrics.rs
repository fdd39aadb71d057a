//! Metrics of `logforce archive run`, in the text format of Prometheus.

use super::state::State;
use std::fmt::Write;

/// Returns the metrics.
pub fn text(state: &State) -> String {
    let mut text = String::new();
    let is_failing = u8::from(state.trouble.is_some());
    let metrics: [(&str, &str, &str, &dyn std::fmt::Display); 7] = [
        (
            "behind_seconds",
            "gauge",
            "Time for which the oldest record that is not archived has waited.",
            &state.behind_seconds,
        ),
        (
            "behind_bytes",
            "gauge",
            "Bytes of durable log that are not archived.",
            &state.behind_bytes,
        ),
        (
            "archived_lsn",
            "gauge",
            "LSN below which everything is archived.",
            &state.archived,
        ),
        (
            "durable_lsn",
            "gauge",
            "LSN below which all records are durable in the log.",
            &state.durable,
        ),
        (
            "chunks_total",
            "counter",
            "Chunks archived by this process.",
            &state.chunks,
        ),
        (
            "log_bytes_total",
            "counter",
            "Bytes of log archived by this process.",
            &state.bytes,
        ),
        (
            "store_failing",
            "gauge",
            "1 while the store fails and is tried again.",
            &is_failing,
        ),
    ];
    for (name, kind, help, value) in metrics {
        let name = format!("logforce_archive_{name}");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
    }
    text
}
