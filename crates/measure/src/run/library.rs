//! The library's rows: commits through a log, by one thread and by many.

mod committers;

use crate::run::recorder::Limit;
use crate::run::subject::{RowKey, Subject, SubjectKind};
use crate::{Interrupt, MeasureError, Recorder};
pub use committers::Job;
use logforce::{
    Guarantee, Log, Lsn, Method, Options, Tuning,
    disk::{Facts, FileState, calibration, cuts},
    inspect::Inspector,
};
use logforce_device::{Assessment, Directory, ForceBy, System, Verdict};
use logforce_terminal::progress::Progress;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest segment that is made for a measurement; the library's own default.
pub const LONGEST_SEGMENT: u64 = 64 << 20;
/// Segments that a log may hold at a time: the current one, the one ahead, and what is kept for
/// reuse while truncation catches up.
pub const SEGMENTS: u64 = 5;
/// How long a segment may take to be prepared before the row is given up.
const TIMEOUT: Duration = Duration::from_secs(60);
/// After so long it is asked whether it can.
const IMPATIENCE: Duration = Duration::from_millis(500);

/// The method that the library takes where nobody asks for one.
pub fn default_method(facts: &Facts) -> Method {
    facts.default_method()
}

/// What the system tells of a directory, and what cuts of power have shown there, as far as that is
/// kept where the command keeps it.
pub fn facts(dir: &dyn Directory) -> std::io::Result<Facts> {
    let mut facts = dir.facts()?;
    let evidence = cuts::known(&facts, calibration::default_cache().as_deref());
    facts.heed(evidence);
    Ok(facts)
}

/// What a commit by `method` through the log is worth: its segments are filled beforehand. `None`
/// where the method is not offered.
pub fn assess(facts: &Facts, method: Method) -> Option<Assessment> {
    facts.assess(method, FileState::Zeroed)
}

/// How to make a log to measure.
#[derive(Debug, Clone)]
pub struct LogSetup {
    /// Its directory; must not exist.
    pub path: PathBuf,
    /// How a force is done.
    pub method: Method,
    /// What a force guarantees there.
    pub guarantee: Guarantee,
    /// Size of a segment, bytes.
    pub segment_size: u64,
}

/// A log that rows share: each slice goes on where the last one ended. Between slices what was
/// committed is truncated, so that its segments are used again and the disk does not fill.
pub struct SharedLog {
    setup: LogSetup,
    /// The system to use instead of the library's own.
    system: Option<Arc<dyn System>>,
    /// Truncated segments to keep for reuse; `None` for the library's default.
    max_spare_segments: Option<usize>,
    log: Option<Log>,
    /// Where the last record ends.
    last: Option<Lsn>,
    interrupt: Interrupt,
    progress: Rc<dyn Progress>,
}

impl SharedLog {
    /// A log that is made when first used.
    pub fn new(setup: LogSetup, interrupt: Interrupt, progress: Rc<dyn Progress>) -> Self {
        SharedLog {
            setup,
            system: None,
            max_spare_segments: None,
            log: None,
            last: None,
            interrupt,
            progress,
        }
    }

    /// By the calls of `system`.
    pub fn through(self, system: Arc<dyn System>) -> Self {
        SharedLog {
            system: Some(system),
            ..self
        }
    }

    /// Keeps so many truncated segments for reuse; with none each segment is filled anew.
    pub fn max_spare_segments(self, count: usize) -> Self {
        SharedLog {
            max_spare_segments: Some(count),
            ..self
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.setup.path
    }

    /// The log.
    pub fn log(&mut self) -> Result<Log, MeasureError> {
        if let Some(log) = &self.log {
            return Ok(log.clone());
        }
        self.progress
            .doing(&format!("making a log, {}", self.setup.method));
        let log = self.open(true)?;
        if log.recovered().method != self.setup.method || log.guarantee() != self.setup.guarantee {
            return Err(MeasureError::NotOffered(format!(
                "the log says {} by {}, the filesystem's facts say {} by {}",
                log.guarantee(),
                log.recovered().method,
                self.setup.guarantee,
                self.setup.method
            )));
        }
        self.log = Some(log.clone());
        Ok(log)
    }

    fn open(&self, is_new: bool) -> Result<Log, MeasureError> {
        let mut options = Options::new()
            .method(self.setup.method)
            .require(self.setup.guarantee)
            // A doubted guarantee is measured too, and printed as such.
            .require_verdict(Verdict::Contradicted)
            .segment_size(self.setup.segment_size)
            // A log that falls idle writes a stamp: that must not happen in another row's slice.
            .tuning(Tuning::new().idle_stamp(Duration::from_secs(3600)));
        if let Some(cache) = calibration::default_cache() {
            // It heeds what `facts` has told.
            options = options.calibration_cache(cache);
        }
        if let Some(max_spare_segments) = self.max_spare_segments {
            options = options.tuning(Tuning::new().max_spare_segments(max_spare_segments));
        }
        let path = &self.setup.path;
        let options = options.create_new(is_new);
        Ok(match &self.system {
            Some(system) => logforce::internal::open(&**system, path, options)?,
            None => options.open(path)?,
        })
    }

    fn inspect(&self) -> Result<Inspector, MeasureError> {
        Ok(match &self.system {
            Some(system) => Inspector::open(&**system, &self.setup.path)?,
            None => logforce::inspect::open(&self.setup.path)?,
        })
    }

    /// Closes the log and opens it again.
    pub fn reopen(&mut self) -> Result<Log, MeasureError> {
        if let Some(log) = self.log.take() {
            log.close()?;
        }
        let log = self.open(false)?;
        self.log = Some(log.clone());
        Ok(log)
    }

    /// Bytes that a commit of `record` bytes by itself takes up in the log.
    pub fn padded(&mut self, record: u64) -> Result<u64, MeasureError> {
        let log = self.ready()?;
        let record = vec![1; usize::try_from(record).unwrap_or(0)];
        let mut least = u64::MAX;
        let mut last = log.commit(&record)?;
        // One of two may lie where a segment begins.
        for _ in 0..2 {
            let next = log.commit(&record)?;
            least = least.min(next.start.since(last.start));
            last = next;
        }
        self.used_to(last.end);
        Ok(least)
    }

    /// Truncates what was committed, and waits until the next segment is prepared if it is to be: from
    /// the second half of one on.
    pub fn ready(&mut self) -> Result<Log, MeasureError> {
        let log = self.log()?;
        if let Some(last) = self.last.take() {
            log.truncate_front(last)?;
        }
        let ahead = log.tail_lsn().plus(self.setup.segment_size / 2);
        let (start, mut asked) = (Instant::now(), None);
        while self.inspect()?.summary().prepared_end < ahead {
            self.interrupt.check()?;
            if start.elapsed() > IMPATIENCE && asked.is_none() {
                // A log that cannot go on says why when it is asked to.
                asked = Some(log.append(b"")?.end);
            }
            if start.elapsed() > TIMEOUT {
                return Err(MeasureError::NotOffered(
                    "no segment was prepared in a minute".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(end) = asked {
            // Nobody may find that record, or a batch that begins behind it.
            log.force(end)?;
            log.truncate_front(end)?;
        }
        Ok(log)
    }

    /// Records up to here may be truncated.
    pub fn used_to(&mut self, last: Lsn) {
        self.last = self.last.max(Some(last));
    }
}

/// Records of one size, each committed by itself.
pub struct LogJournal {
    key: RowKey,
    assessment: Assessment,
    most: Option<u64>,
    log: Rc<RefCell<SharedLog>>,
    record: Vec<u8>,
}

impl LogJournal {
    /// The row `key` in `log`, whose commits are worth `assessment`. At most `most` commits; `None`
    /// for as many as the row of chunks makes.
    pub fn new(
        key: RowKey,
        assessment: Assessment,
        most: Option<u64>,
        log: Rc<RefCell<SharedLog>>,
    ) -> Self {
        debug_assert_eq!(key.subject, SubjectKind::Logforce);
        let record = vec![0; usize::try_from(key.bytes).unwrap_or(0)];
        LogJournal {
            key,
            assessment,
            most,
            log,
            record,
        }
    }
}

impl Subject for LogJournal {
    fn key(&self) -> &RowKey {
        &self.key
    }

    fn assessment(&self) -> &Assessment {
        &self.assessment
    }

    fn most_commits(&self, chunks: u64) -> u64 {
        self.most.unwrap_or(chunks)
    }

    fn leaves_dirty_bytes(&self) -> bool {
        self.key.method.plan().force == ForceBy::None
    }

    fn prepare(&mut self) -> Result<(), MeasureError> {
        crate::run::prepare::scramble(&mut self.record, 0xc0ff_ee01);
        self.log.borrow_mut().ready().map(drop)
    }

    fn run(&mut self, limit: &Limit, recorder: &mut Recorder) -> Result<(), MeasureError> {
        let mut shared = self.log.borrow_mut();
        while recorder.more(limit) {
            let log = shared.ready()?;
            let from = log.tail_lsn();
            let job = Job {
                log: &log,
                record: &self.record,
                threads: self.key.threads,
                // No more than the prepared segments hold, so that none has to be made meanwhile.
                until: from.plus(shared.setup.segment_size),
            };
            let last = job.run(limit, recorder)?;
            recorder.count_log_bytes(log.tail_lsn().since(from));
            shared.used_to(last);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MeasureError> {
        self.log.borrow_mut().ready().map(drop)
    }
}

#[cfg(test)]
mod tests;
