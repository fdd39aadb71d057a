//! State of an archive that is being written, for people and programs.

use super::times;
use logforce::Lsn;
use logforce_archive::Status;
use logforce_terminal::numbers::{bytes, count, short};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// One line of the JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct State {
    pub schema: &'static str,
    pub version: u32,
    /// `state`, or `end` for the last line.
    pub event: &'static str,
    /// Time of the line, RFC 3339.
    pub time: String,
    pub log: String,
    pub url: String,
    pub epoch: u64,
    /// Everything below is in the archive.
    pub archived: u64,
    /// End of the durable records of the log.
    pub durable: u64,
    pub behind_bytes: u64,
    /// Time for which the oldest record that is not archived has waited.
    pub behind_seconds: f64,
    pub chunks: u64,
    pub bytes: u64,
    /// Bytes up to the end of the last append that the log did not prove durable in time, at the end.
    pub unproven_bytes: u64,
    /// True if a killed program has left them: only an opening of the log decides on them.
    #[serde(skip)]
    pub was_killed: bool,
    /// Failure for which the archive tries again.
    pub trouble: Option<String>,
    /// Failure for which segments are not made.
    pub segments_trouble: Option<String>,
}

impl State {
    /// Updates the state. `live` is the durable end that the log's own statistics report.
    pub fn update(&mut self, event: &'static str, status: &Status, live: Option<Lsn>) {
        let is_behind = status.behind_for > Duration::ZERO;
        // While the store fails, nothing is read. Otherwise the statistics also count bytes without records.
        let live = live.filter(|_| is_behind).unwrap_or_default();
        let durable = status.durable.max(live).max(status.archived);
        self.event = event;
        self.time = times::date(times::now_nanoseconds());
        self.archived = status.archived.0;
        self.durable = durable.0;
        self.behind_bytes = durable.since(status.archived);
        self.behind_seconds = status.behind_for.as_secs_f64();
        self.chunks = status.chunks;
        self.bytes = status.bytes;
        self.trouble = status.trouble.clone();
        self.segments_trouble = status.segments.clone();
    }

    /// Returns a line for people.
    pub fn text(&self) -> String {
        let behind = match self.behind_bytes {
            0 if self.unproven_bytes > 0 => {
                format!(
                    "{} behind: {}",
                    bytes(self.unproven_bytes),
                    unproven_text(self.was_killed)
                )
            }
            0 => "nothing is missing".to_owned(),
            n => format!(
                "{} and {} s behind",
                bytes(n),
                short(self.behind_seconds, 1)
            ),
        };
        let trouble = match &self.trouble {
            Some(trouble) => format!("; tries again: {trouble}"),
            None => String::new(),
        };
        format!(
            "{} archived up to LSN {}, {behind}; {} in {}{trouble}",
            self.time,
            self.archived,
            bytes(self.bytes),
            count(self.chunks, "chunk")
        )
    }
}

/// Returns the reason why whole appends are not archived, and the remedy.
pub fn unproven_text(was_killed: bool) -> &'static str {
    match was_killed {
        // No later write proves them.
        true => {
            "the program that wrote the log was killed, so its last commits are not proven durable; open the \
             log once, by the program, and archive it again"
        }
        false => {
            "written since, or not proven durable yet by the program that has the log open; the next run \
             archives them"
        }
    }
}

/// Returns the durable end that a running log reports about itself.
pub fn live_durable(dir: &Path) -> Option<Lsn> {
    let inspector = logforce::inspect::open(dir).ok()?;
    let summary = inspector.summary();
    let live = inspector.live()?;
    (live.epoch == summary.epoch && summary.in_use).then_some(live.durable)
}
