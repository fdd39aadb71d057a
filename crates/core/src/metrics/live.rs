//! The page of statistics in the log's directory: written by the log's writing thread when it has
//! nothing else to do, read by whoever looks.

use super::stats::ratio;
use super::{Counters, HistogramSnapshot, Stats, nanos};
use crate::log::Shared;
use crate::names;
use logforce_device::{AlignedBuf, Directory, File, OpenFile, ReadSource, Write};
use logforce_format::{Epoch, LIVE_LEN, Live, LiveReject, LogId, Lsn};
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use logforce_format::LiveSummary;

/// A page is not written again before this has passed.
const EVERY: Duration = Duration::from_secs(1);
/// How often a page is read again that was being written.
const LOOKS: usize = 5;

/// What a log wrote down about itself: now, or when it last ran; see
/// [`Inspector::live`](crate::Inspector::live). Times are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveStats {
    /// The process that wrote it.
    pub pid: u64,
    /// The opening that wrote it.
    pub epoch: Epoch,
    /// When it was written: time since the beginning of 1970.
    pub written_at: Duration,
    /// For how long the log had been open then.
    pub open_for: Duration,
    /// The durable LSN then.
    pub durable: Lsn,
    /// For how long the oldest device call under way then had been under way; zero for none.
    pub oldest_io_age: Duration,
    /// As in [`Stats`].
    pub counters: Counters,
    /// As [`Stats::wait`], nanoseconds.
    pub wait: LiveSummary,
    /// As [`Stats::commit`], nanoseconds.
    pub commit: LiveSummary,
    /// As [`Stats::write`], nanoseconds.
    pub write: LiveSummary,
    /// As [`Stats::force`], nanoseconds.
    pub force: LiveSummary,
    /// As [`Stats::submit`], nanoseconds.
    pub submit: LiveSummary,
    /// As [`Stats::batch_records`].
    pub batch_records: LiveSummary,
}

impl LiveStats {
    /// As [`Stats::commit_to_force_ratio`].
    pub fn commit_to_force_ratio(&self) -> Option<f64> {
        ratio(self.commit.p50, self.force.p50)
    }

    /// The summaries with their names, in the order of `docs/format.md`. All but the last are of
    /// nanoseconds.
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

fn summary(h: &HistogramSnapshot) -> LiveSummary {
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

/// Reads the page of the log `id`. What cannot be read, or is another log's, is not there.
pub(crate) fn read(dir: &Arc<dyn Directory>, id: LogId) -> Option<LiveStats> {
    let file = dir.open(names::LIVE, OpenFile::READ).ok()?;
    let mut page = [0; LIVE_LEN];
    for _ in 0..LOOKS {
        let read = file.read_at(0, &mut page, ReadSource::Cache).ok()?;
        match Live::decode(&page[..read]) {
            Ok(live) => return (live.log_id == id).then(|| live.into()),
            // Half old, half new: its writer was at it.
            Err(LiveReject::Checksum) => {}
            Err(_) => return None,
        }
    }
    None
}

/// The writing side, owned by the log's writing thread.
#[derive(Default)]
pub(crate) struct LivePage {
    file: Option<Arc<dyn File>>,
    buf: Option<AlignedBuf>,
    /// When the last page was tried, by the log's clock.
    tried: Option<Duration>,
    /// What had happened by then.
    seen: u64,
}

/// What the thread is to do about the page before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing has happened since the last one.
    No,
    Now,
    /// Not yet.
    At(Duration),
}

impl LivePage {
    /// Grows whenever something happens that a reader would want to see.
    fn happened(shared: &Shared) -> u64 {
        let c = &shared.metrics.counting;
        [
            &c.appends,
            &c.batches,
            &c.forces,
            &c.segments_prepared,
            &c.buffer_waits,
            &c.segment_waits,
        ]
        .iter()
        .fold(0, |sum, counter| sum.wrapping_add(counter.get()))
    }

    pub(crate) fn due(&self, shared: &Shared, now: Duration) -> Due {
        if !shared.options.live_stats || Self::happened(shared) == self.seen {
            return Due::No;
        }
        match self.tried {
            Some(tried) if tried.saturating_add(EVERY) > now => Due::At(tried + EVERY),
            _ => Due::Now,
        }
    }

    /// Writes the page. That it cannot be written is nobody's trouble: the next one may be.
    pub(crate) fn write(&mut self, shared: &Shared, now: Duration) {
        self.seen = Self::happened(shared);
        self.tried = Some(now);
        if self.try_write(shared).is_err() {
            self.file = None;
        }
    }

    /// The last page, at the end of the log.
    pub(crate) fn finish(&mut self, shared: &Shared) {
        // After a failure nothing more is asked of the device.
        if shared.options.live_stats
            && !shared.poison.is_set()
            && Self::happened(shared) != self.seen
        {
            self.write(shared, shared.runtime.now());
        }
    }

    fn try_write(&mut self, shared: &Shared) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => match shared.dir.open(names::LIVE, OpenFile::WRITE) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    shared.dir.open(names::LIVE, OpenFile::CREATE)?
                }
                other => other?,
            },
        };
        let stats = shared.stats();
        let mut buf = self
            .buf
            .take()
            .unwrap_or_else(|| AlignedBuf::zeroed(LIVE_LEN, LIVE_LEN));
        buf.copy_from_slice(&page(shared, &stats).encode());
        let done = file.complete(file.submit(Write {
            offset: 0,
            buf,
            range: 0..LIVE_LEN,
            through: false,
        }));
        self.buf = Some(done.buf);
        self.file = Some(file);
        done.result
    }
}

fn page(shared: &Shared, stats: &Stats) -> Live {
    let histograms = [
        &stats.wait,
        &stats.commit,
        &stats.write,
        &stats.force,
        &stats.submit,
        &stats.batch_records,
    ];
    Live {
        log_id: shared.log_id,
        epoch: shared.epoch,
        pid: shared.runtime.process_id(),
        written_at: nanos(shared.runtime.wall_clock()),
        open_for: nanos(stats.open_for),
        durable: stats.durable,
        oldest_io_age: nanos(stats.oldest_io_age),
        counters: stats.counters.values(),
        summaries: histograms.into_iter().map(summary).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names behind the marker of a table of `docs/format.md`.
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
        // An older writer knew fewer, a newer one knows more.
        let few = LiveStats::from(Live {
            counters: vec![7],
            ..Live::default()
        });
        assert_eq!((few.counters.appends, few.counters.records), (7, 0));
    }
}
