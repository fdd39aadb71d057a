//! The program whose calls fail: one thread that works a log, or reads it, and reports what it was
//! promised and shown before it goes on.

use super::message::{Message, send_entry};
use crate::ledger::{Entry, Kind};
use crate::subject::seam::{Fault, Faulty};
use crate::subject::{Identity, metadata, rank};
use anyhow::Result;
use logforce::{
    Acknowledged, Batch, ErrorKind, Guarantee, Log, Lsn, Method, Options, Policy, Tuning,
    inspect::RepairOptions,
};
use logforce_testkit::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Opens the log for writing and works it.
    Work,
    /// Opens it for reading, and shows all of it.
    Read,
    /// Follows it from another process, and shows all of it.
    Follow,
    /// Measures the methods in its directory.
    Measure,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The log is closed.
    Close,
    /// The process ends as if it were killed: something is under way.
    Exit,
}

/// What a subject is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What it does.
    pub task: Task,
    /// The log's directory.
    pub dir: PathBuf,
    /// The log is there already, or it must not be.
    pub mode: Opening,
    /// By its name; else what the log chooses.
    pub method: Option<String>,
    /// Demand a guarantee that survives a power cut.
    pub demanding: bool,
    /// What is wrong with the backend.
    pub fault: Fault,
    /// Repair the log before the opening: that cuts it where acknowledged data is damaged.
    pub repairing: bool,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Its number; no two that work one log have the same.
    pub session: u64,
    /// Of everything random.
    pub seed: u64,
    /// Steps until it ends.
    pub steps: u64,
    /// How it ends then.
    pub end: End,
}

/// How the log is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// It is made.
    New,
    /// It is there.
    Existing,
    /// It is made if it is not there.
    Either,
    /// The same, and what the place is made of counts, an image in memory too.
    Anywhere,
}

/// Does it, as `json` says. It reports how it went; the process fails only where it cannot be.
///
/// # Errors
/// If it is no job.
pub fn role_inject(json: &str) -> Result<()> {
    let job: Job = serde_json::from_str(json)?;
    match job.task {
        Task::Work => work(&job)?,
        Task::Read => read(&job),
        Task::Follow => follow(&job),
        Task::Measure => measure(&job),
    }
    Ok(())
}

fn options(job: &Job) -> Result<Options> {
    // A killed process has written no stamp: how much is known to have been durable then does not
    // depend on the machine.
    let idle = match job.end {
        End::Close => Duration::from_millis(2),
        End::Exit => Duration::from_secs(60),
    };
    let mut options = Options::new()
        .calibrate(false)
        .segment_size(job.segment_size)
        .tuning(Tuning::new().max_spare_segments(1).idle_stamp(idle));
    if let Some(method) = &job.method {
        options = options.method(method.parse::<Method>()?);
    }
    if !job.demanding {
        options = options.require(Guarantee::Nothing);
    }
    Ok(options)
}

fn work(job: &Job) -> Result<()> {
    let options = options(job)?;
    if job.repairing
        && let Err(e) = repair(job)
    {
        Message::failed("repair", &e).send();
        return Ok(());
    }
    let log = match open(job, options) {
        Ok(log) => log,
        Err(e) => {
            Message::failed("open", &e).send();
            return Ok(());
        }
    };
    Message::Opened {
        guarantee: rank(log.guarantee()),
        method: log.recovered().method.to_string(),
    }
    .send();
    send_entry(Entry {
        guarantee: rank(log.guarantee()),
        ..Entry::range(Kind::Opened, log.front_lsn().0, log.recovered().end.0)
    });
    let mut worker = Worker {
        job,
        log: &log,
        rng: Rng::new(job.seed),
        next: 0,
        metas: 0,
        held: BTreeMap::new(),
    };
    worker.all();
    if job.end == End::Exit {
        worker.leave_something_under_way();
        Message::Done.send();
        std::process::exit(0);
    }
    match log.close() {
        Ok(()) => Message::Done.send(),
        Err(e) => Message::failed("close", &e).send(),
    }
    Ok(())
}

/// Reports what is lost before anything else can fail.
fn repair(job: &Job) -> logforce::Result<()> {
    let report = logforce::inspect::repair(&job.dir, &RepairOptions::new())?;
    let lost = [report.cut.map(|cut| cut.damage), report.lost_meta];
    let lost = lost.into_iter().flatten().map(|damage| damage.to_string());
    if let Some(lost) = lost.reduce(|all, one| format!("{all}; {one}")) {
        Message::Cut(lost).send();
    }
    Ok(())
}

/// As every program does, but that an image in memory counts for the disk that it stands for.
fn open(job: &Job, options: Options) -> logforce::Result<Log> {
    let options = match job.mode {
        Opening::New => options.create_new(true),
        Opening::Existing => options,
        Opening::Either => options.create(true),
        Opening::Anywhere => return logforce::open_or_create(&job.dir, options),
    };
    logforce::internal::open(&Faulty::new(job.fault), &job.dir, options)
}

struct Worker<'a> {
    job: &'a Job,
    log: &'a Log,
    rng: Rng,
    next: u64,
    metas: u64,
    /// Durable records of this session that were not voided, by their starts.
    held: BTreeMap<u64, (u64, Identity)>,
}

impl Worker<'_> {
    /// All steps. After an error that is not of the log as a whole it goes on, and what it is
    /// promised then has to be kept too.
    fn all(&mut self) {
        for step in 0..self.job.steps {
            let (doing, done) = self.step(step);
            let Err(e) = done else { continue };
            Message::failed(doing, &e).send();
            send_entry(Entry::of(Kind::Failed));
            if e.kind() == ErrorKind::Poisoned {
                self.is_poisoned();
                return;
            }
        }
    }

    /// A log that has failed promises nothing any more.
    fn is_poisoned(&mut self) {
        if self.commit().is_ok() {
            Message::Wrong("a commit was acknowledged after the log had failed".to_owned()).send();
        }
    }

    fn step(&mut self, step: u64) -> (&'static str, logforce::Result<()>) {
        // Everything comes in every session that is long enough.
        match step % 12 {
            2 => ("commit_all", self.commit_all()),
            3 => ("set_meta", self.set_meta()),
            5 => ("submit", self.submit()),
            6 => ("read_at", self.read_at()),
            8 => ("truncate_back", self.truncate_back()),
            9 => ("read_from", self.read_from()),
            10 => ("truncate_front", self.truncate_front()),
            11 => ("append", self.append()),
            _ => ("commit", self.commit()),
        }
    }

    fn identity(&mut self, first: u64, count: u64) -> Identity {
        self.next += 1;
        Identity {
            session: self.job.session,
            thread: 0,
            sequence: self.next - 1,
            first,
            count,
        }
    }

    fn record(&mut self) -> (Identity, Vec<u8>) {
        let identity = self.identity(self.next, 1);
        let len = match self.rng.below(8) {
            0 => 5000,
            1 => 2500,
            _ => 100,
        };
        (
            identity,
            identity.record(len + self.rng.below(100) as usize),
        )
    }

    fn acked(&mut self, identity: Identity, done: &Acknowledged) {
        send_entry(Entry {
            kind: Kind::Acked,
            sequence: identity.sequence,
            start: done.start.0,
            end: done.end.0,
            guarantee: rank(done.guarantee),
        });
        self.held.insert(done.start.0, (done.end.0, identity));
    }

    fn commit(&mut self) -> logforce::Result<()> {
        let (identity, record) = self.record();
        let done = self.log.commit(&record)?;
        self.acked(identity, &done);
        Ok(())
    }

    fn append(&mut self) -> logforce::Result<()> {
        let (identity, record) = self.record();
        let at = self.log.append(&record)?;
        send_entry(Entry {
            sequence: identity.sequence,
            ..Entry::range(Kind::RecordRange, at.start.0, at.end.0)
        });
        let guarantee = self.log.force(at.end)?;
        let done = at.acknowledged(guarantee);
        self.acked(identity, &done);
        Ok(())
    }

    fn submit(&mut self) -> logforce::Result<()> {
        let (identity, record) = self.record();
        let submitted = self.log.submit(&record, Policy::Force)?;
        send_entry(Entry {
            sequence: identity.sequence,
            ..Entry::range(Kind::RecordRange, submitted.start().0, submitted.end().0)
        });
        let done = submitted.wait()?;
        self.acked(identity, &done);
        Ok(())
    }

    fn commit_all(&mut self) -> logforce::Result<()> {
        let (first, count) = (self.next, 3);
        let all: Vec<Identity> = (0..count).map(|_| self.identity(first, count)).collect();
        let records: Vec<Vec<u8>> = all.iter().map(|i| i.record(150)).collect();
        let parts: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let mut batch = Batch::of(&parts);
        let Acknowledged { guarantee, .. } = self.log.commit(&mut batch)?;
        for (identity, at) in all.into_iter().zip(batch.ranges()) {
            self.acked(identity, &at.acknowledged(guarantee));
        }
        Ok(())
    }

    fn set_meta(&mut self) -> logforce::Result<()> {
        self.metas += 1;
        let entry = |kind, number| Entry {
            sequence: number,
            ..Entry::of(kind)
        };
        send_entry(entry(Kind::MetaIntent, self.metas));
        self.log.set_meta(&metadata(self.job.session, self.metas))?;
        send_entry(entry(Kind::MetaDone, self.metas));
        Ok(())
    }

    /// Gives up all but the last few records.
    fn truncate_front(&mut self) -> logforce::Result<()> {
        let groups = self
            .held
            .iter()
            .rev()
            .filter(|(_, (_, i))| i.sequence == i.first);
        let Some(front) = groups.map(|(start, _)| *start).nth(8) else {
            return Ok(());
        };
        send_entry(Entry::range(Kind::FrontIntent, front, front));
        let done = self.log.truncate_front(Lsn(front));
        if done.is_ok() {
            send_entry(Entry::range(Kind::FrontDone, front, front));
        }
        // When only the removal of segments fails, the front has moved all the same.
        let front = self.log.front_lsn().0;
        self.held.retain(|start, _| *start >= front);
        done
    }

    /// Takes the last record back.
    fn truncate_back(&mut self) -> logforce::Result<()> {
        let last = self.held.iter().next_back();
        let Some((&from, _)) = last.filter(|(_, (_, i))| i.count == 1) else {
            return Ok(());
        };
        let tail = self.log.tail_lsn().0;
        send_entry(Entry::range(Kind::BackIntent, from, tail));
        self.log.truncate_back(Lsn(from))?;
        send_entry(Entry::range(Kind::BackDone, from, tail));
        self.held.retain(|start, _| *start < from);
        Ok(())
    }

    fn read_at(&mut self) -> logforce::Result<()> {
        let middle = self.held.len() / 2;
        let Some((start, (_, identity))) = self.held.iter().nth(middle) else {
            return Ok(());
        };
        let record = self.log.read_at(Lsn(*start))?;
        if Identity::read(&record.data) != Ok(*identity) {
            Message::Wrong(format!("read_at {start} gives another record")).send();
        }
        Ok(())
    }

    /// Everything that this session holds is read back, in order.
    fn read_from(&mut self) -> logforce::Result<()> {
        let Some(first) = self.held.keys().next() else {
            return Ok(());
        };
        let mut read = BTreeMap::new();
        for record in self.log.read_from(Lsn(*first))? {
            let record = record?;
            match Identity::read(&record.data) {
                Ok(identity) => read.insert(record.start.0, (record.end.0, identity)),
                Err(why) => {
                    Message::Wrong(format!("read_from, LSN {}: {why}", record.start)).send();
                    return Ok(());
                }
            };
        }
        let missing = self
            .held
            .iter()
            .find(|(start, r)| read.get(start) != Some(r));
        if let Some((start, _)) = missing {
            Message::Wrong(format!("read_from does not show the record at LSN {start}")).send();
        }
        Ok(())
    }

    /// Something for the next opening to find half done.
    fn leave_something_under_way(&mut self) {
        for _ in 0..3 {
            let (_, record) = self.record();
            let _ = self.log.append(&record);
        }
    }
}

fn shown(record: &logforce::Record) {
    match Identity::read(&record.data) {
        Ok(identity) => send_entry(Entry {
            kind: Kind::Shown,
            sequence: identity.sequence,
            start: record.start.0,
            end: record.end.0,
            guarantee: identity.session,
        }),
        Err(why) => Message::Wrong(format!("shown at LSN {}: {why}", record.start)).send(),
    }
}

fn read(job: &Job) {
    let read = || -> logforce::Result<()> {
        let log = logforce::read_only(&job.dir)?;
        let meta = log.meta()?;
        if meta.is_some_and(|m| crate::subject::read_metadata(&m).is_none()) {
            Message::Wrong("shown metadata that nobody set".to_owned()).send();
        }
        for record in log.read_from(log.front_lsn())? {
            shown(&record?);
        }
        Ok(())
    };
    ended("read", read());
}

/// Follows until nothing more comes: no process writes the log.
fn follow(job: &Job) {
    let follow = || -> logforce::Result<()> {
        let log = logforce::read_only(&job.dir)?;
        let mut follower = log.follow_lsn(log.front_lsn())?;
        let mut nothing = 0;
        while nothing < 3 {
            match follower.try_next() {
                Ok(Some(record)) => shown(&record),
                Ok(None) => nothing += 1,
                // It continues behind the voided range.
                Err(e) if e.kind() == ErrorKind::Voided => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    };
    ended("follow", follow());
}

/// For long enough that every method has its turn.
const MEASURING: Duration = Duration::from_millis(40);

fn measure(job: &Job) {
    let measured = logforce::disk::calibration::measured(&job.dir, None, MEASURING);
    ended("measure", measured.map(drop));
}

fn ended(doing: &str, ended: logforce::Result<()>) {
    match ended {
        Ok(()) => Message::Done.send(),
        Err(e) => Message::failed(doing, &e).send(),
    }
}
