//! The page of statistics in the log's directory: the writer thread writes it when idle, and other
//! processes read it.

use crate::metrics::counters::Counters;
use crate::metrics::stats::ratio;
use crate::names;
use logforce_commit::metrics::histogram::HistogramSnapshot;
use logforce_device::{Directory, OpenFile, ReadSource};
use logforce_format::{Epoch, LIVE_LEN, Live, LiveReject, LogId, Lsn};
use std::sync::Arc;
use std::time::Duration;

pub use logforce_format::LiveSummary;

/// Maximum number of reads of a page whose writer is writing it.
const READ_ATTEMPTS: usize = 5;

/// Statistics that a log's writer has published, perhaps before it was closed or crashed; see
/// [`Inspector::live`](crate::Inspector::live). Times are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveStats {
    /// Id of the process that wrote the page.
    pub pid: u64,
    /// Epoch of the opening that wrote the page.
    pub epoch: Epoch,
    /// Time of the write, since the beginning of 1970.
    pub written_at: Duration,
    /// Time for which the log had been open then.
    pub open_for: Duration,
    /// Durable LSN then.
    pub durable: Lsn,
    /// Age of the oldest device call in flight then; zero if there was none.
    pub oldest_io_age: Duration,
    /// Counters, as in [`Stats`](crate::Stats).
    pub counters: Counters,
    /// Summary of [`Stats::wait`](crate::Stats::wait), nanoseconds.
    pub wait: LiveSummary,
    /// Summary of [`Stats::commit`](crate::Stats::commit), nanoseconds.
    pub commit: LiveSummary,
    /// Summary of [`Stats::write`](crate::Stats::write), nanoseconds.
    pub write: LiveSummary,
    /// Summary of [`Stats::force`](crate::Stats::force), nanoseconds.
    pub force: LiveSummary,
    /// Summary of [`Stats::submit`](crate::Stats::submit), nanoseconds.
    pub submit: LiveSummary,
    /// Summary of [`Stats::batch_records`](crate::Stats::batch_records).
    pub batch_records: LiveSummary,
}

impl LiveStats {
    /// Returns the ratio of [`Stats::commit_to_force_ratio`](crate::Stats::commit_to_force_ratio).
    pub fn commit_to_force_ratio(&self) -> Option<f64> {
        ratio(self.commit.p50, self.force.p50)
    }

    /// Returns the summaries with their names, in the order of `docs/format.md`. The unit of all but the
    /// last is nanoseconds.
    pub fn summaries(&self) -> [(&'static str, LiveSummary); 6] {
        [
            ("wait", self.wait),
            ("commit", self.commit),
            ("write", self.write),
            ("force", self.force),
            ("submit", self.submit),
            ("batch_records", self.batch_records),
        ]
    }
}

impl From<Live> for LiveStats {
    fn from(live: Live) -> Self {
        let summary = |i: usize| live.summaries.get(i).copied().unwrap_or_default();
        LiveStats {
            pid: live.pid,
            epoch: live.epoch,
            written_at: Duration::from_nanos(live.written_at),
            open_for: Duration::from_nanos(live.open_for),
            durable: live.durable,
            oldest_io_age: Duration::from_nanos(live.oldest_io_age),
            counters: Counters::from_values(&live.counters),
            wait: summary(0),
            commit: summary(1),
            write: summary(2),
            force: summary(3),
            submit: summary(4),
            batch_records: summary(5),
        }
    }
}

pub(crate) fn summary(h: &HistogramSnapshot) -> LiveSummary {
    LiveSummary {
        count: h.count(),
        sum: h.sum(),
        p50: h.quantile(0.5),
        p90: h.quantile(0.9),
        p99: h.quantile(0.99),
        p999: h.quantile(0.999),
        max: h.max(),
    }
}

/// Reads the page of the log `id`; `None` if it cannot be read or belongs to another log.
pub(crate) fn read(dir: &Arc<dyn Directory>, id: LogId) -> Option<LiveStats> {
    let file = dir.open(names::LIVE, OpenFile::READ).ok()?;
    let mut page = [0; LIVE_LEN];
    for _ in 0..READ_ATTEMPTS {
        let read = file.read_at(0, &mut page, ReadSource::Cache).ok()?;
        match Live::decode(&page[..read]) {
            Ok(live) => return (live.log_id == id).then(|| live.into()),
            // The page is half old and half new, because its writer is writing it: reads it again.
            Err(LiveReject::Checksum) => {}
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names in the table behind the marker `name` of `docs/format.md`.
    fn table(name: &str) -> Vec<String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
        let text = std::fs::read_to_string(path).unwrap();
        let marker = format!("<!-- table: {name} -->");
        let rows = text.lines().skip_while(|l| *l != marker).skip(3);
        let rows = rows.take_while(|l| l.starts_with('|'));
        rows.map(|l| l.split('`').nth(1).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_order_is_that_of_the_document() {
        assert_eq!(table("live-counters"), Counters::NAMES);
        let numbers: Vec<u64> = (1..=Counters::NAMES.len() as u64).collect();
        let summary = |i| LiveSummary {
            p50: i,
            ..LiveSummary::default()
        };
        let live = LiveStats::from(Live {
            counters: numbers.clone(),
            summaries: (0..6).map(summary).collect(),
            ..Live::default()
        });
        assert_eq!(live.counters.values(), numbers);
        let (names, values): (Vec<_>, Vec<_>) = live.summaries().into_iter().unzip();
        assert_eq!(table("live-summaries"), names);
        let order: Vec<u64> = values.iter().map(|s| s.p50).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        // An older writer has fewer counters, a newer one has more.
        let few = LiveStats::from(Live {
            counters: vec![7],
            ..Live::default()
        });
        assert_eq!((few.counters.appends, few.counters.records), (7, 0));
    }
}
