//! The rows of the library: commits through a log, by one thread and by several.

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

/// Largest segment size of a log that is measured, bytes: the library's default.
pub const LONGEST_SEGMENT: u64 = 64 << 20;
/// Highest number of segments that a log holds: the current one, the prepared one, and those kept for
/// reuse while truncation catches up.
pub const SEGMENTS: u64 = 5;
/// Longest wait for a prepared segment. The row fails after that.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Wait after which a record is appended, so that a log that cannot prepare a segment reports its error.
const IMPATIENCE: Duration = Duration::from_millis(500);

/// Returns the method that the library uses by default.
pub fn default_method(facts: &Facts) -> Method {
    facts.default_method()
}

/// Returns the facts of a directory, together with the results of earlier power-cut tests that are
/// stored in the command's default cache.
pub fn facts(dir: &dyn Directory) -> std::io::Result<Facts> {
    let mut facts = dir.facts()?;
    let evidence = cuts::known(&facts, calibration::default_cache().as_deref());
    facts.heed(evidence);
    Ok(facts)
}

/// Assesses commits by `method` through the log, whose segments are filled beforehand. Returns `None`
/// if the method is not available.
pub fn assess(facts: &Facts, method: Method) -> Option<Assessment> {
    facts.assess(method, FileState::Zeroed)
}

/// Settings of a log that is measured.
#[derive(Debug, Clone)]
pub struct LogSetup {
    /// Directory of the log; must not exist.
    pub path: PathBuf,
    /// Commit method.
    pub method: Method,
    /// Guarantee of a force by that method in that directory.
    pub guarantee: Guarantee,
    /// Size of a segment, bytes.
    pub segment_size: u64,
}

/// A log that rows share: each slice continues where the last one ended. Between slices the log is
/// truncated, so that its segments are reused and the disk does not fill.
pub struct SharedLog {
    setup: LogSetup,
    /// System to use instead of the library's own.
    system: Option<Arc<dyn System>>,
    /// Number of truncated segments to keep for reuse; `None` for the library's default.
    max_spare_segments: Option<usize>,
    log: Option<Log>,
    /// End of the last record.
    last: Option<Lsn>,
    interrupt: Interrupt,
    progress: Rc<dyn Progress>,
}

impl SharedLog {
    /// Creates the object. The log itself is created when it is first used.
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

    /// Uses the calls of `system`.
    pub fn through(self, system: Arc<dyn System>) -> Self {
        SharedLog {
            system: Some(system),
            ..self
        }
    }

    /// Sets the number of truncated segments kept for reuse. With 0, each segment is filled anew.
    pub fn max_spare_segments(self, count: usize) -> Self {
        SharedLog {
            max_spare_segments: Some(count),
            ..self
        }
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.setup.path
    }

    /// Returns the log; creates it on the first call.
    pub fn log(&mut self) -> Result<Log, MeasureError> {
        if let Some(log) = &self.log {
            return Ok(log.clone());
        }
        self.progress
            .doing(&format!("making a log, {}", self.setup.method));
        let log = self.open(true)?;
        if log.recovered().method != self.setup.method || log.guarantee() != self.setup.guarantee {
            return Err(MeasureError::NotOffered(format!(
                "the log reports {} by {}, but the facts of the filesystem give {} by {}",
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
            // A doubtful guarantee is measured too, and printed as doubtful.
            .require_verdict(Verdict::Contradicted)
            .segment_size(self.setup.segment_size)
            // An idle log writes a stamp, which must not happen during the slice of another row.
            .tuning(Tuning::new().idle_stamp(Duration::from_secs(3600)));
        if let Some(cache) = calibration::default_cache() {
            // The log then uses the same power-cut results as `facts`.
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

    /// Measures the bytes that a single commit of `record` bytes occupies in the log.
    pub fn padded(&mut self, record: u64) -> Result<u64, MeasureError> {
        let log = self.ready()?;
        let record = vec![1; usize::try_from(record).unwrap_or(0)];
        let mut least = u64::MAX;
        let mut last = log.commit(&record)?;
        // One of the two may cross the beginning of a segment and so appear larger.
        for _ in 0..2 {
            let next = log.commit(&record)?;
            least = least.min(next.start.since(last.start));
            last = next;
        }
        self.used_to(last.end);
        Ok(least)
    }

    /// Truncates the log up to the end of the last slice. If the log is in the second half of its segment,
    /// waits until the next segment is prepared.
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
                // A log that cannot continue returns its error from the append.
                asked = Some(log.append(b"")?.end);
            }
            if start.elapsed() > TIMEOUT {
                return Err(MeasureError::NotOffered(
                    "the log prepared no segment within 60 s".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(end) = asked {
            // Removes this record, so that nothing later finds it, or a batch that begins after it.
            log.force(end)?;
            log.truncate_front(end)?;
        }
        Ok(log)
    }

    /// Marks the records up to `last` as no longer needed: the next [`ready`](Self::ready) truncates them.
    pub fn used_to(&mut self, last: Lsn) {
        self.last = self.last.max(Some(last));
    }
}

/// Commits of single records of one size.
pub struct LogJournal {
    key: RowKey,
    assessment: Assessment,
    most: Option<u64>,
    log: Rc<RefCell<SharedLog>>,
    record: usize,
}

impl LogJournal {
    /// Creates the row `key` in `log`; its commits have the guarantee in `assessment`. The row makes at
    /// most `most` commits; `None` for the number that a row of chunks makes.
    pub fn new(
        key: RowKey,
        assessment: Assessment,
        most: Option<u64>,
        log: Rc<RefCell<SharedLog>>,
    ) -> Self {
        debug_assert_eq!(key.subject, SubjectKind::Logforce);
        let record = usize::try_from(key.bytes).unwrap_or(0);
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
        self.log.borrow_mut().ready().map(drop)
    }

    fn run(&mut self, limit: &Limit, recorder: &mut Recorder) -> Result<(), MeasureError> {
        let mut shared = self.log.borrow_mut();
        while recorder.more(limit) {
            let log = shared.ready()?;
            let from = log.tail_lsn();
            let job = Job {
                log: &log,
                record: self.record,
                threads: self.key.threads,
                // At most the space of the prepared segments, so that none is prepared in the timed part.
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
