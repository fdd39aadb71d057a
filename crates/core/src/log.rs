use crate::checkpoint::Checkpoint;
use crate::commit::{How, Rings, Rounds, Signal};
use crate::control_file::ControlFile;
use crate::metrics::Metrics;
use crate::options::{OpenMode, Options};
use crate::pins::Pins;
use crate::poison::Poison;
use crate::policy::Policy;
use crate::prepare::Spare;
use crate::reader::{Reader, Record};
use crate::retiring::Retiring;
use crate::stage::Stage;
use crate::view::View;
use crate::wakers::Wakers;
use crate::watch::Watch;
use crate::{Damage, Error, Result, recovery, trace};
use logforce_device::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};
use logforce_device::{Guarantee, JoinHandle, Method, Plan, System, Verdict};
use logforce_format::{Epoch, LogId, Lsn, RecoveryCase, planted};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A transaction log, open for writing. Clones are the same log; all calls may come from any
/// thread. The crate `logforce` has an example.
#[derive(Clone)]
pub struct Log {
    handle: Arc<Handle>,
}

/// Ends the threads and closes when the last clone is dropped.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) threads: Mutex<Vec<Box<dyn JoinHandle>>>,
}

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordRange {
    /// Its position, by which it is read.
    pub start: Lsn,
    /// Force up to here to make it durable. Exclusive.
    pub end: Lsn,
}

/// A record that was made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Committed {
    /// Its position, by which it is read.
    pub start: Lsn,
    /// Exclusive end.
    pub end: Lsn,
    /// What it survives.
    pub guarantee: Guarantee,
}

/// What opening found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The log was made by this opening.
    pub created: bool,
    /// Exclusive end of what was recovered.
    pub end: Lsn,
    /// Why it ends there.
    pub case: RecoveryCase,
    /// Bytes of log that were read to find out.
    pub scanned: u64,
    /// Batches that were.
    pub batches: u64,
    /// How often the log went on behind a position that an opening had given up.
    pub resumed: u64,
    /// What was lost, if [`OnDamage::Truncate`](crate::OnDamage::Truncate) cut the log. It may lie
    /// behind `end`, where a segment is missing that nothing leads to any more.
    pub lost: Option<Damage>,
    /// The metadata was damaged, and given up under
    /// [`OnDamage::Truncate`](crate::OnDamage::Truncate).
    pub lost_meta: Option<Damage>,
    /// The log was closed in order the last time.
    pub clean: bool,
}

/// What the log's callers and its threads share.
pub(crate) struct Shared {
    /// What readers see; they may outlive the log.
    pub(crate) view: Arc<View>,
    pub(crate) options: Options,
    pub(crate) epoch: Epoch,
    pub(crate) method: Method,
    pub(crate) plan: Plan,
    /// What a force by the method guarantees here.
    pub(crate) guarantee: Guarantee,
    /// How far that is to be believed.
    pub(crate) verdict: Verdict,
    /// Why, in words.
    pub(crate) evidence: String,
    /// What is written and not forced survives.
    pub(crate) written_guarantee: Guarantee,
    /// Write unit of new segments.
    pub(crate) unit: u32,
    /// New segments are filled with zeroes.
    pub(crate) fill: bool,
    pub(crate) stage: Mutex<Stage>,
    pub(crate) spares: Mutex<Vec<Spare>>,
    pub(crate) retiring: Retiring,
    pub(crate) control: ControlFile,
    pub(crate) pins: Pins,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) poison: Poison,
    pub(crate) watch: Watch,
    /// Exclusive end of what is written.
    pub(crate) written: AtomicU64,
    /// Tasks that wait for it.
    pub(crate) written_wakers: Wakers,
    /// Tasks that wait for room to stage a record.
    pub(crate) room_wakers: Wakers,
    /// Rings for whoever will do the next job.
    pub(crate) claim: Signal,
    /// Ring when a job is done, for those whose records it carried.
    pub(crate) rounds: Rounds,
    /// Rings when a write is done, room or prepared space appears, or the log fails.
    pub(crate) progress: Signal,
    /// Rings when there is work for the writing thread.
    pub(crate) work: Signal,
    /// Rings when there is work for the preparing thread.
    pub(crate) prepare: Signal,
    pub(crate) service_parked: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) recovered: RecoveryReport,
    pub(crate) metrics: Arc<Metrics>,
    /// The writing thread sleeps, and the page of statistics says all there is to say.
    pub(crate) live_parked: AtomicBool,
    /// The writer lock, given up when all I/O is joined.
    pub(crate) lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Deref for Shared {
    type Target = View;
    fn deref(&self) -> &View {
        &self.view
    }
}

impl Shared {
    pub(crate) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spares(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.check_process()?;
        self.poison.check()
    }

    /// Registers a truncation, or a change of the metadata: a close waits for it, and after a close there is none. It would
    /// write to files that are another opening's by then.
    pub(crate) fn begin_truncation(&self) -> Result<Truncation<'_>> {
        self.check()?;
        let mut stage = self.stage();
        if stage.closing {
            return Err(Error::Closed);
        }
        stage.truncating += 1;
        Ok(Truncation(self))
    }

    /// Sleeps until `answer` finds one in the stage.
    pub(crate) fn wait_for<T>(&self, mut answer: impl FnMut(&Stage) -> Option<T>) -> T {
        loop {
            let mut seen = self.progress.observe();
            if let Some(found) = answer(&self.stage()) {
                return found;
            }
            if planted!("late-observe-close") {
                seen = self.progress.observe();
            }
            self.progress.sleep(&*self.runtime, seen, None);
        }
    }

    /// Exclusive end of what is written, forced or not.
    pub(crate) fn written(&self) -> Lsn {
        Lsn(self.written.load(Acquire))
    }

    /// Stages an atomic append once there is memory and prepared space for it. The mutex is handed
    /// out with what to ring once it is released.
    pub(crate) fn place(
        &self,
        records: &[&[&[u8]]],
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<(MutexGuard<'_, Stage>, Rings)> {
        let mut asked = None;
        let mut waited = false;
        loop {
            let mut seen = self.progress.observe();
            match self.try_place(records, &mut asked, &mut each) {
                Err(Error::WouldBlock) => {
                    if !std::mem::replace(&mut waited, true) {
                        self.metrics.waits(asked.is_some());
                    }
                    if planted!("late-observe-room") {
                        seen = self.progress.observe();
                    }
                    if !self.make_room_here() {
                        self.progress.sleep(&*self.runtime, seen, None);
                    }
                }
                other => return other,
            }
        }
    }

    /// As [`Shared::place`], or [`Error::WouldBlock`]. `asked` remembers, from one try to the next,
    /// since when prepared space is wanted.
    pub(crate) fn try_place(
        &self,
        records: &[&[&[u8]]],
        asked: &mut Option<u64>,
        each: impl FnMut(Lsn, Lsn),
    ) -> Result<(MutexGuard<'_, Stage>, Rings)> {
        self.check()?;
        let bytes = Stage::measure(records.iter().map(|r| r.iter().map(|p| p.len()).sum()))?;
        let mut stage = self.stage();
        if let Some(rings) = self.admit(&mut stage, bytes, asked)? {
            drop(stage);
            self.ring(rings);
            return Err(Error::WouldBlock);
        }
        let segments = stage.upcoming.len();
        let batches = stage.full_batches();
        stage.place(records, each);
        self.metrics.accepted(records);
        let rings = Rings {
            work: stage.full_batches() > batches && !planted!("wake-work-for-room"),
            prepare: segments > stage.upcoming.len(),
        };
        Ok((stage, rings))
    }

    /// Whether an append of so many bytes can be placed; else whom to ring, and wait.
    fn admit(
        &self,
        stage: &mut Stage,
        bytes: usize,
        asked: &mut Option<u64>,
    ) -> Result<Option<Rings>> {
        self.poison.check()?;
        if stage.closing {
            return Err(Error::Closed);
        }
        let bound = stage.bound(bytes, self.options.segment_size);
        if bound > stage.prepared_end() && !self.may_use_reserve(stage, bound) {
            // Space comes before acceptance: what is accepted cannot fail for lack of it.
            self.refuse_in_callback(stage)?;
            match (&stage.prepare_failure, *asked) {
                (Some(failure), Some(round)) if failure.round > round => {
                    return Err(failure.error.clone());
                }
                _ => {}
            }
            let round = stage.prepare_round;
            asked.get_or_insert(round);
            stage.wanted_end = stage.wanted_end.max(bound);
            return Ok(Some(Rings {
                prepare: !planted!("wake-prepare-on-demand"),
                work: false,
            }));
        }
        Ok((!stage.has_room(bytes)).then_some(Rings {
            work: !planted!("wake-work-for-room"),
            prepare: false,
        }))
    }

    fn append(&self, records: &[&[&[u8]]], each: impl FnMut(Lsn, Lsn)) -> Result<()> {
        let (stage, rings) = self.place(records, each)?;
        drop(stage);
        self.ring(rings);
        Ok(())
    }

    /// Appends, and waits for what the policy says; the mutex is taken once for both.
    fn commit(
        &self,
        records: &[&[&[u8]]],
        policy: Policy,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<Guarantee> {
        let now = self.runtime.now();
        let mut last = Lsn::ORIGIN;
        let (mut stage, mut rings) = self.place(records, |start, end| {
            last = end;
            each(start, end);
        })?;
        self.metrics.committing(policy);
        rings.work |= self.promise(&mut stage, last, policy, now);
        match policy.how() {
            Some(how) => {
                self.bring_from(stage, rings, last, how)?;
                let took = self.runtime.now().saturating_sub(now);
                self.metrics.committed(policy, took);
            }
            None => {
                drop(stage);
                self.ring(rings);
            }
        }
        Ok(self.guarantee_at(last))
    }

    /// Notes by when the records below `end` are to be forced. Answers whether the writing thread
    /// must be told.
    pub(crate) fn promise(
        &self,
        stage: &mut Stage,
        end: Lsn,
        policy: Policy,
        now: Duration,
    ) -> bool {
        match policy {
            Policy::Force => false,
            Policy::Write {
                force_within: within,
            }
            | Policy::Interval { within } => stage.owe(now, within, end),
        }
    }

    fn force(&self, end: Lsn) -> Result<Guarantee> {
        if self.durable() < end {
            self.check()?;
            self.bring_timed(end, How::Force)?;
        }
        Ok(self.guarantee)
    }

    /// Forces everything, writes the last stamp, and notes in the control file that nothing lies
    /// above.
    pub(crate) fn finish(&self) -> Result<()> {
        loop {
            let seen = self.progress.observe();
            // Else, with all durable, it would wait for a stamp that nobody will write.
            self.poison.check()?;
            let tail = self.stage().tail();
            self.bring(tail, How::Force)?;
            // A stamp about what a weak method left behind would not be true: a barrier first.
            self.bring(tail, How::Barrier)?;
            let lacks_stamp = || {
                let stage = self.stage();
                stage.line.lacks_stamp() && stage.has_space_for_mark()
            };
            if !lacks_stamp() {
                break;
            }
            if !self.write_stamp(true)? && lacks_stamp() {
                // The service's own is under way.
                self.progress.sleep(&*self.runtime, seen, None);
            }
        }
        let tail = self.stage().tail();
        self.bring(tail, How::Barrier)?;
        self.update_control(|c| c.clean = c.anchor.lsn == tail)
    }
}

/// A truncation under way, or a change of the metadata.
pub(crate) struct Truncation<'a>(&'a Shared);

impl Drop for Truncation<'_> {
    fn drop(&mut self) {
        self.0.stage().truncating -= 1;
        if !planted!("wake-close-after-truncation") {
            self.0.progress.ring(&*self.0.runtime);
        }
    }
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
        let shared = {
            let _span = trace::opening(path.as_ref());
            let shared = recovery::open(system, path.as_ref(), mode, options)?;
            trace::opened(&shared.recovered, shared.unit);
            Arc::new(shared)
        };
        shared.checkpoint.attach(&shared);
        let log = Log {
            handle: Arc::new(Handle {
                shared: shared.clone(),
                threads: Mutex::default(),
            }),
        };
        for (name, body) in [
            ("logforce-write", Shared::serve as fn(&Shared)),
            ("logforce-prepare", Shared::prepare_ahead),
        ] {
            let shared = shared.clone();
            let thread = shared
                .runtime
                .clone()
                .spawn(
                    name,
                    Box::new(move || {
                        let ended = catch_unwind(AssertUnwindSafe(|| body(&shared)));
                        if let Err(panic) = ended {
                            // Whoever waits for space or for a submission would wait for ever.
                            shared.unwound("go on writing");
                            if shared.is_served_here() {
                                shared.call_back(true);
                            }
                            resume_unwind(panic);
                        }
                    }),
                )
                .map_err(Error::io("start a thread for", path.as_ref()))?;
            log.handle
                .threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(thread);
        }
        Ok(log)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    pub(crate) fn shared_arc(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Appends a record of up to 64 MiB. It is in memory only until it is forced, by this call's
    /// caller or by another.
    ///
    /// Waits while staging is full and while a segment is prepared. After [`Error::NoSpace`]
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
        self.shared()
            .append(&[parts], |start, end| at = RecordRange { start, end })?;
        Ok(at)
    }

    /// Appends several records atomically: after a crash all are there or none.
    pub fn append_all(&self, records: &[&[u8]]) -> Result<Vec<RecordRange>> {
        let mut all = Vec::with_capacity(records.len());
        let parts: Vec<[&[u8]; 1]> = records.iter().map(|r| [*r]).collect();
        let records: Vec<&[&[u8]]> = parts.iter().map(|p| &p[..]).collect();
        self.shared()
            .append(&records, |start, end| all.push(RecordRange { start, end }))?;
        Ok(all)
    }

    /// Makes everything below `end` durable and returns what it survives.
    pub fn force(&self, end: Lsn) -> Result<Guarantee> {
        self.shared().check_process()?;
        self.shared().force(end)
    }

    /// Appends a record and waits for what the log's policy says: by default, until it is durable.
    pub fn commit(&self, record: &[u8]) -> Result<Committed> {
        self.commit_with(record, self.shared().options.policy)
    }

    /// As [`Log::commit`], with a policy of its own.
    pub fn commit_with(&self, record: &[u8], policy: Policy) -> Result<Committed> {
        let mut at = (Lsn::ORIGIN, Lsn::ORIGIN);
        let guarantee = self
            .shared()
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
        self.commit_all_with(records, self.shared().options.policy)
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
            .shared()
            .commit(&parts, policy, |start, end| places.push((start, end)))?;
        let committed = |(start, end)| Committed {
            start,
            end,
            guarantee,
        };
        Ok(places.into_iter().map(committed).collect())
    }

    pub(crate) fn view(&self) -> &Arc<View> {
        &self.shared().view
    }

    /// Exclusive end of what is durable, at [`Log::guarantee`]. Takes no lock.
    pub fn durable_lsn(&self) -> Lsn {
        self.shared().durable()
    }

    /// Exclusive end of what was appended.
    pub fn tail_lsn(&self) -> Lsn {
        self.shared().stage().tail()
    }

    /// Records below are gone. Takes no lock.
    pub fn front_lsn(&self) -> Lsn {
        self.shared().front()
    }

    /// The record at `start`, which must be durable.
    pub fn read_at(&self, start: Lsn) -> Result<Record> {
        self.shared().check_process()?;
        Reader::at_record(self.shared().view.clone(), start)
    }

    /// Reads durable records from `from` on: the start or the end of a record, or
    /// [`Log::front_lsn`].
    pub fn read_from(&self, from: Lsn) -> Result<Reader> {
        self.shared().check_process()?;
        Reader::from_boundary(self.shared().view.clone(), from)
    }

    /// Drops the records below `front` (the start or the end of a durable record). Durable when it
    /// returns. Whole segments below it are reused or removed.
    ///
    /// Where a [`Pin`](crate::Pin) lies below, the front moves to the oldest one only; the rest is
    /// remembered while the log is open, and the front moves on by itself as pins advance or go.
    /// That is no error: [`Log::front_lsn`] says how far it got. Pins that are more than
    /// [`Options::max_pinned_bytes`] bytes below `front` are broken.
    pub fn truncate_front(&self, front: Lsn) -> Result<()> {
        let _under_way = self.shared().begin_truncation()?;
        crate::truncate::front(&self.handle.shared, front)?;
        trace::truncated("front", front);
        Ok(())
    }

    /// Takes back every record from `from` on (the start or the end of a record), and forces that.
    /// The LSNs are not used again: reading there answers [`Error::Voided`]. Records appended by
    /// other threads while this runs may be taken back with the rest.
    pub fn truncate_back(&self, from: Lsn) -> Result<()> {
        let _under_way = self.shared().begin_truncation()?;
        crate::truncate::back(&self.handle.shared, from)?;
        trace::truncated("back", from);
        Ok(())
    }

    /// What a force guarantees.
    pub fn guarantee(&self) -> Guarantee {
        self.shared().guarantee
    }

    /// How far that is to be believed, as known when the log was opened: [`Verdict::Proven`] where
    /// `logforce powercut` recorded that everything was kept, else what the device declares.
    pub fn verdict(&self) -> Verdict {
        self.shared().verdict
    }

    /// The evidence for [`Log::verdict`], in words.
    pub fn evidence(&self) -> &str {
        &self.shared().evidence
    }

    /// How a force is done.
    pub fn method(&self) -> Method {
        self.shared().method
    }

    /// Tells this log from every other.
    pub fn id(&self) -> LogId {
        self.shared().log_id
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.shared().path
    }

    /// What opening found.
    pub fn recovered(&self) -> &RecoveryReport {
        &self.shared().recovered
    }

    /// Forces everything, writes down that the log is whole, ends its threads and gives up the
    /// lock. Other clones of it answer [`Error::Closed`] from then on.
    ///
    /// Dropping the last clone does the same and cannot report a failure.
    pub fn close(self) -> Result<()> {
        self.handle.close()
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
