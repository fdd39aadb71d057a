//! Slices of commits by several threads, with the calls that were made in them.

use super::MeasuredSlice;
use crate::run::counters::CounterSource;
use crate::run::counting::{CallCounts, CountingSystem};
use crate::run::library::{self, LogSetup, SharedLog};
use crate::run::recorder::Limit;
use crate::run::space::Space;
use crate::{Interrupt, MeasureError, Recorder};
use logforce::{Method, disk::Facts};
use logforce_device::{Assessment, Directory, System};
use logforce_terminal::progress::Progress;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Environment of a measurement.
#[derive(Clone)]
pub struct Setup {
    /// System: files, directories, time.
    pub system: Arc<dyn System>,
    /// An empty directory on the disk to measure.
    pub path: PathBuf,
    /// Space on that disk.
    pub space: Space,
    /// Counters of the device.
    pub counters: Rc<dyn CounterSource>,
    /// Flag that ends the run.
    pub interrupt: Interrupt,
    /// Receiver of progress.
    pub progress: Rc<dyn Progress>,
}

/// Maker of slices of one length by one method.
pub struct Slices {
    setup: Setup,
    system: Arc<CountingSystem>,
    directory: Arc<dyn Directory>,
    method: Method,
    assessment: Assessment,
    unit: u64,
    length: Duration,
}

impl Slices {
    /// Uses `method`, or the library's default if it is `None`.
    pub fn new(
        setup: Setup,
        method: Option<Method>,
        length: Duration,
    ) -> Result<Slices, MeasureError> {
        // A segment has this suffix while records are written to it, but not while it is prepared.
        let carries = |name: &str| name.ends_with(".seg") || name.starts_with("journal");
        let system = CountingSystem::new(Arc::clone(&setup.system), carries);
        let asking = || MeasureError::io("asking about the filesystem");
        let directory = system.directory(&setup.path).map_err(asking())?;
        let facts: Facts = directory.facts_for_writing().map_err(asking())?;
        let method = method.unwrap_or_else(|| library::default_method(&facts));
        let Some(assessment) = library::assess(&facts, method) else {
            return Err(MeasureError::NotOffered(format!(
                "{}: choose another --method",
                facts.why_not_offered(method)
            )));
        };
        Ok(Slices {
            system,
            directory,
            method,
            assessment,
            unit: u64::from(facts.write_unit()),
            length,
            setup,
        })
    }

    /// Returns the commit method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns the guarantee of a force.
    pub fn assessment(&self) -> &Assessment {
        &self.assessment
    }

    /// Returns the directory. Calls on its files are counted.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Returns the system. Calls on its files are counted.
    pub fn system(&self) -> &dyn System {
        &*self.system
    }

    /// Returns the write unit of the disk, bytes.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the flag that ends the run.
    pub fn interrupt(&self) -> &Interrupt {
        &self.setup.interrupt
    }

    /// Returns the receiver of progress.
    pub fn progress(&self) -> &Rc<dyn Progress> {
        &self.setup.progress
    }

    /// Returns a log in the directory `name`. It is created when first used.
    pub fn log(&self, name: &str, segment_size: u64) -> SharedLog {
        let setup = LogSetup {
            path: self.setup.path.join(name),
            method: self.method,
            guarantee: self.assessment.guarantee,
            segment_size,
        };
        let progress = Rc::clone(&self.setup.progress);
        let system = Arc::clone(&self.system);
        SharedLog::new(setup, self.setup.interrupt.clone(), progress).through(system)
    }

    /// Takes one slice: calls `body` until the time is over. `body` adds its calls to the counts that it
    /// is given.
    pub fn slice(
        &self,
        mut body: impl FnMut(&Limit, &mut Recorder, &mut CallCounts) -> Result<(), MeasureError>,
    ) -> Result<MeasuredSlice, MeasureError> {
        let interrupt = self.setup.interrupt.clone();
        let mut recorder = Recorder::new(Rc::clone(&self.setup.counters), interrupt);
        let limit = Limit {
            commits: u64::MAX,
            time: Some(self.length),
        };
        let mut counts = CallCounts::default();
        recorder.begin_slice();
        while recorder.more(&limit) {
            body(&limit, &mut recorder, &mut counts)?;
        }
        self.setup.interrupt.check()?;
        Ok(MeasuredSlice::new(&recorder, counts))
    }

    /// Runs `body` and adds the calls that are made meanwhile to `counts`.
    pub fn counted<T>(
        &self,
        counts: &mut CallCounts,
        body: impl FnOnce() -> Result<T, MeasureError>,
    ) -> Result<T, MeasureError> {
        let before = self.system.counts();
        let result = body();
        *counts += self.system.counts() - before;
        result
    }

    /// Takes one slice of commits through a log, which continues where the last slice ended.
    pub fn of_log(
        &self,
        shared: &mut SharedLog,
        record: u64,
        threads: u32,
        room: u64,
    ) -> Result<MeasuredSlice, MeasureError> {
        let taken = self.slice(|limit, recorder, counts| {
            let log = shared.ready()?;
            let job = library::Job {
                log: &log,
                record: usize::try_from(record).unwrap_or(0),
                threads,
                until: log.tail_lsn().plus(room),
            };
            let last = self.counted(counts, || job.together(limit, recorder))?;
            shared.used_to(last);
            Ok(())
        })?;
        // Otherwise a segment could be prepared during the slice of another case.
        shared.ready()?;
        Ok(taken)
    }
}
