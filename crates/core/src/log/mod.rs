//! The public handle of a log.

mod close;
mod given_up;
mod meta;
pub(crate) mod submit;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::metrics::Stats;
use crate::options::{OpenMode, Options};
use crate::policy::Policy;
use crate::read::follow::Follower;
use crate::read::reader::Reader;
use crate::recovery;
use crate::trace;
use crate::truncation::back::truncate_back;
use crate::truncation::front::truncate_front;
use crate::truncation::pin::{Pin, pin};
use crate::types::Record;
use crate::types::{Committed, RecordRange, RecoveryReport};
use logforce_device::sync::Mutex;
use logforce_device::{Guarantee, JoinHandle, Method, System, Verdict};
use logforce_format::{LogId, Lsn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// A transaction log, open for writing. Clones are the same log; all calls may come from any
/// thread. The crate `logforce` has an example.
#[derive(Clone)]
pub struct Log {
    handle: Arc<Handle>,
}

/// Ends the threads and closes when the last clone is dropped.
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    pub(crate) threads: Mutex<Vec<Box<dyn JoinHandle>>>,
}

impl Log {
    /// Opens a log in the directory `path` of `system`.
    ///
    /// Recovers first: when this returns, everything that was acknowledged is there and durable,
    /// and what was not acknowledged is there whole or gone for good.
    pub fn open(
        system: &dyn System,
        path: impl AsRef<Path>,
        mode: OpenMode,
        options: Options,
    ) -> Result<Log> {
        let engine = {
            let _span = trace::opening(path.as_ref());
            let parts = recovery::open(system, path.as_ref(), mode, options)?;
            let engine = Engine::start(parts);
            trace::opened(&engine.config.report, engine.config.unit);
            Arc::new(engine)
        };
        let log = Log {
            handle: Arc::new(Handle {
                engine: engine.clone(),
                threads: Mutex::default(),
            }),
        };
        for (name, body) in [
            ("logforce-write", run_writer as fn(&Arc<Engine>)),
            ("logforce-prepare", Engine::prepare_ahead),
        ] {
            let own = engine.clone();
            let thread = engine
                .runtime()
                .spawn(name, Box::new(move || until_it_ends(&own, body)))
                .map_err(Error::io("start a thread for", path.as_ref()))?;
            log.handle
                .threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(thread);
        }
        Ok(log)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    pub(crate) fn engine_arc(&self) -> &Arc<Engine> {
        &self.handle.engine
    }

    /// Appends a record of up to 64 MiB. It is in memory only until it is forced, by this call's
    /// caller or by another.
    ///
    /// Waits while the log buffer is full and while a segment is prepared. After [`Error::NoSpace`]
    /// nothing was accepted.
    pub fn append(&self, record: &[u8]) -> Result<RecordRange> {
        self.append_parts(&[record])
    }

    /// Appends one record that lies in several slices.
    pub fn append_parts(&self, parts: &[&[u8]]) -> Result<RecordRange> {
        let mut at = RecordRange {
            start: Lsn::ORIGIN,
            end: Lsn::ORIGIN,
        };
        self.engine()
            .append(&[parts], |start, end| at = RecordRange { start, end })?;
        Ok(at)
    }

    /// Appends several records atomically: after a crash all are there or none.
    pub fn append_all(&self, records: &[&[u8]]) -> Result<Vec<RecordRange>> {
        let mut all = Vec::with_capacity(records.len());
        let parts: Vec<[&[u8]; 1]> = records.iter().map(|r| [*r]).collect();
        let records: Vec<&[&[u8]]> = parts.iter().map(|p| &p[..]).collect();
        self.engine()
            .append(&records, |start, end| all.push(RecordRange { start, end }))?;
        Ok(all)
    }

    /// Makes everything below `end` durable and returns what it survives.
    pub fn force(&self, end: Lsn) -> Result<Guarantee> {
        self.engine().view.check_process()?;
        self.engine().force(end)
    }

    /// Appends a record and waits for what the log's policy says: by default, until it is durable.
    pub fn commit(&self, record: &[u8]) -> Result<Committed> {
        self.commit_with(record, self.engine().config.options.policy)
    }

    /// As [`Log::commit`], with a policy of its own.
    pub fn commit_with(&self, record: &[u8], policy: Policy) -> Result<Committed> {
        let mut at = (Lsn::ORIGIN, Lsn::ORIGIN);
        let guarantee = self
            .engine()
            .commit(&[&[record]], policy, |start, end| at = (start, end))?;
        let (start, end) = at;
        Ok(Committed {
            start,
            end,
            guarantee,
        })
    }

    /// Appends several records atomically and waits as [`Log::commit`] does.
    pub fn commit_all(&self, records: &[&[u8]]) -> Result<Vec<Committed>> {
        self.commit_all_with(records, self.engine().config.options.policy)
    }

    /// As [`Log::commit_all`], with a policy of its own.
    pub fn commit_all_with(&self, records: &[&[u8]], policy: Policy) -> Result<Vec<Committed>> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let parts: Vec<[&[u8]; 1]> = records.iter().map(|r| [*r]).collect();
        let parts: Vec<&[&[u8]]> = parts.iter().map(|p| &p[..]).collect();
        let mut places = Vec::with_capacity(records.len());
        let guarantee = self
            .engine()
            .commit(&parts, policy, |start, end| places.push((start, end)))?;
        let committed = |(start, end)| Committed {
            start,
            end,
            guarantee,
        };
        Ok(places.into_iter().map(committed).collect())
    }

    /// Exclusive end of what is durable, at [`Log::guarantee`]. Takes no lock.
    pub fn durable_lsn(&self) -> Lsn {
        self.engine().durable()
    }

    /// Exclusive end of what was appended.
    pub fn tail_lsn(&self) -> Lsn {
        self.engine().state().tail()
    }

    /// Records below are gone. Takes no lock.
    pub fn front_lsn(&self) -> Lsn {
        self.engine().front()
    }

    /// The record at `start`, which must be durable.
    pub fn read_at(&self, start: Lsn) -> Result<Record> {
        self.engine().view.check_process()?;
        Reader::at_record(self.engine().view.clone(), start)
    }

    /// Reads durable records from `from` on: the start or the end of a record, or
    /// [`Log::front_lsn`].
    pub fn read_from(&self, from: Lsn) -> Result<Reader> {
        self.engine().view.check_process()?;
        Reader::from_boundary(self.engine().view.clone(), from)
    }

    /// Drops the records below `front` (the start or the end of a durable record). Durable when it
    /// returns. Whole segments below it are reused or removed.
    ///
    /// Where a [`Pin`](crate::Pin) lies below, the front moves to the oldest one only; the rest is
    /// remembered while the log is open, and the front moves on by itself as pins advance or go.
    /// That is no error: [`Log::front_lsn`] says how far it got. Pins that are more than
    /// [`Options::max_pinned_bytes`] bytes below `front` are broken.
    pub fn truncate_front(&self, front: Lsn) -> Result<()> {
        let _under_way = self.engine().begin_truncation()?;
        truncate_front(&self.handle.engine, front)?;
        trace::truncated("front", front);
        Ok(())
    }

    /// Takes back every record from `from` on (the start or the end of a record), and forces that.
    /// The LSNs are not used again: reading there answers [`Error::Voided`]. Records appended by
    /// other threads while this runs may be taken back with the rest.
    pub fn truncate_back(&self, from: Lsn) -> Result<()> {
        let _under_way = self.engine().begin_truncation()?;
        truncate_back(&self.handle.engine, from)?;
        trace::truncated("back", from);
        Ok(())
    }

    /// Holds the front at or below `lsn`, the start or the end of a durable append, not below
    /// [`Log::front_lsn`], until the pin is dropped, advanced or broken.
    ///
    /// [`Error::Truncated`] below the front, [`Error::NotABoundary`] within an append,
    /// [`Error::Voided`] and [`Error::BeyondEnd`] as in reading.
    pub fn pin(&self, lsn: Lsn) -> Result<Pin> {
        pin(self.engine_arc(), lsn)
    }

    /// Follows the log from `from` on: the start or the end of a record, or [`Log::front_lsn`].
    pub fn follow(&self, from: Lsn) -> Result<Follower> {
        let reader = self.read_from(from)?;
        Ok(Follower::new(self.engine().view.clone(), reader, from))
    }

    /// What the log has done since it was opened. Takes no lock, so the numbers may be a few records
    /// apart from each other; [`Stats::difference`] gives those of an interval.
    pub fn stats(&self) -> Stats {
        self.engine().stats()
    }

    /// What a force guarantees.
    pub fn guarantee(&self) -> Guarantee {
        self.engine().config.forcing.guarantee
    }

    /// How far that is to be believed, as known when the log was opened: [`Verdict::Proven`] where
    /// `logforce powercut` recorded that everything was kept, else what the device declares.
    pub fn verdict(&self) -> Verdict {
        self.engine().config.forcing.verdict
    }

    /// The evidence for [`Log::verdict`], in words.
    pub fn evidence(&self) -> &str {
        &self.engine().config.forcing.evidence
    }

    /// How a force is done.
    pub fn method(&self) -> Method {
        self.engine().config.forcing.method
    }

    /// Tells this log from every other.
    pub fn id(&self) -> LogId {
        self.engine().view.log_id
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.engine().view.path
    }

    /// What opening found.
    pub fn recovered(&self) -> &RecoveryReport {
        &self.engine().config.report
    }

    /// Forces everything, writes down that the log is whole, ends its threads and gives up the
    /// lock. Other clones of it answer [`Error::Closed`] from then on.
    ///
    /// Dropping the last clone does the same and cannot report a failure.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}

fn run_writer(engine: &Arc<Engine>) {
    engine.write_behind();
}

/// Runs one of the log's threads. If it unwinds, the log has failed: whoever waits for space or for a
/// submission would wait for ever.
fn until_it_ends(engine: &Arc<Engine>, body: fn(&Arc<Engine>)) {
    let ended = catch_unwind(AssertUnwindSafe(|| body(engine)));
    if let Err(panic) = ended {
        engine.unwound("go on writing");
        if engine.is_writer_thread() {
            engine.call_back(true);
        }
        resume_unwind(panic);
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("path", &self.path())
            .field("method", &self.method())
            .field("front", &self.front_lsn())
            .field("durable", &self.durable_lsn())
            .finish_non_exhaustive()
    }
}
