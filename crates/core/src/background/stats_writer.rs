//! The page of statistics, which the writer thread writes when it has no other work.

use crate::engine::Engine;
use crate::metrics::Stats;
use crate::metrics::recorder::nanos;
use crate::metrics::stats_page::summary;
use crate::names;
use logforce_device::{AlignedBuf, File, OpenFile, Write};
use logforce_format::{LIVE_LEN, Live};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Minimum time between two writes of the page.
const EVERY: Duration = Duration::from_secs(1);

/// Writes the page; owned by the writer thread.
#[derive(Default)]
pub(crate) struct StatsWriter {
    file: Option<Arc<dyn File>>,
    buf: Option<AlignedBuf>,
    /// Time of the last attempt to write, by the log's clock.
    tried: Option<Duration>,
    /// Activity count at that time.
    seen: u64,
}

/// Time at which the page is to be written, before the thread sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing has happened since the last write.
    No,
    Now,
    /// Later: at this time.
    At(Duration),
}

impl StatsWriter {
    /// Returns a count that grows with any activity that a reader of the page would see.
    fn activity(engine: &Engine) -> u64 {
        let c = &engine.metrics.counted;
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

    pub(crate) fn due(&self, engine: &Engine, now: Duration) -> Due {
        if !engine.config.options.writes_live_stats() || Self::activity(engine) == self.seen {
            return Due::No;
        }
        match self.tried {
            Some(tried) if tried.saturating_add(EVERY) > now => Due::At(tried + EVERY),
            _ => Due::Now,
        }
    }

    /// Writes the page. Ignores a failure, because the next write may succeed.
    pub(crate) fn write(&mut self, engine: &Engine, now: Duration) {
        self.seen = Self::activity(engine);
        self.tried = Some(now);
        if self.try_write(engine).is_err() {
            self.file = None;
        }
    }

    /// Writes the last page when the log is closed.
    pub(crate) fn finish(&mut self, engine: &Engine) {
        // A failed log makes no further device calls.
        if engine.config.options.writes_live_stats()
            && !engine.poison.is_set()
            && Self::activity(engine) != self.seen
        {
            self.write(engine, engine.runtime().now());
        }
    }

    fn try_write(&mut self, engine: &Engine) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => match engine.view.dir.open(names::LIVE, OpenFile::WRITE) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    engine.view.dir.open(names::LIVE, OpenFile::CREATE)?
                }
                other => other?,
            },
        };
        let stats = engine.stats();
        let mut buf = self
            .buf
            .take()
            .unwrap_or_else(|| AlignedBuf::zeroed(LIVE_LEN, LIVE_LEN));
        buf.copy_from_slice(&page(engine, &stats).encode());
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

fn page(engine: &Engine, stats: &Stats) -> Live {
    let histograms = [
        &stats.wait,
        &stats.commit,
        &stats.write,
        &stats.force,
        &stats.submit,
        &stats.batch_records,
    ];
    Live {
        log_id: engine.view.log_id,
        epoch: engine.config.epoch,
        pid: engine.runtime().process_id(),
        written_at: nanos(engine.runtime().wall_clock()),
        open_for: nanos(stats.open_for),
        durable: stats.durable,
        oldest_io_age: nanos(stats.oldest_io_age),
        counters: stats.counters.values(),
        summaries: histograms.into_iter().map(summary).collect(),
    }
}
