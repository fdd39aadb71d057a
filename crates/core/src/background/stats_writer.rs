//! The writer thread's page of statistics: written when it has nothing else to do.

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

/// A page is not written again before this has passed.
const EVERY: Duration = Duration::from_secs(1);

/// The writing side, owned by the log's writing thread.
#[derive(Default)]
pub(crate) struct StatsWriter {
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

impl StatsWriter {
    /// Grows whenever something happens that a reader would want to see.
    fn happened(engine: &Engine) -> u64 {
        let c = &engine.metrics.counting;
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
        if !engine.config.options.live_stats || Self::happened(engine) == self.seen {
            return Due::No;
        }
        match self.tried {
            Some(tried) if tried.saturating_add(EVERY) > now => Due::At(tried + EVERY),
            _ => Due::Now,
        }
    }

    /// Writes the page. That it cannot be written is nobody's trouble: the next one may be.
    pub(crate) fn write(&mut self, engine: &Engine, now: Duration) {
        self.seen = Self::happened(engine);
        self.tried = Some(now);
        if self.try_write(engine).is_err() {
            self.file = None;
        }
    }

    /// The last page, at the end of the log.
    pub(crate) fn finish(&mut self, engine: &Engine) {
        // After a failure nothing more is asked of the device.
        if engine.config.options.live_stats
            && !engine.poison.is_set()
            && Self::happened(engine) != self.seen
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
