//! Slices of commits by many threads, with what the system was handed in them.

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

/// What is needed from outside.
#[derive(Clone)]
pub struct Setup {
    /// Files, directories, time.
    pub system: Arc<dyn System>,
    /// An empty directory on the disk to measure.
    pub path: PathBuf,
    /// Room there.
    pub space: Space,
    /// The device's own counters.
    pub counters: Rc<dyn CounterSource>,
    /// The flag that ends everything.
    pub interrupt: Interrupt,
    /// Receives progress.
    pub progress: Rc<dyn Progress>,
}

/// Takes slices of one length by one method.
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
    /// By the library's default method unless one is named.
    pub fn new(
        setup: Setup,
        method: Option<Method>,
        length: Duration,
    ) -> Result<Slices, MeasureError> {
        // Segments have that name while they are written to, and not while they are prepared.
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

    /// How a force is done.
    pub fn method(&self) -> Method {
        self.method
    }

    /// What a force is worth.
    pub fn assessment(&self) -> &Assessment {
        &self.assessment
    }

    /// The directory; what goes to files in it is counted.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Write unit of the disk, bytes.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// The flag that ends everything.
    pub fn interrupt(&self) -> &Interrupt {
        &self.setup.interrupt
    }

    /// Receives progress.
    pub fn progress(&self) -> &Rc<dyn Progress> {
        &self.setup.progress
    }

    /// A log in a directory of that name, made when first used.
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

    /// One slice. `body` is called until the time is over; what it counts is added to the counts
    /// that it is given.
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

    /// Counts what goes to the device meanwhile.
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

    /// One slice of commits through a log, which goes on where the last one ended.
    pub fn of_log(
        &self,
        shared: &mut SharedLog,
        record: &[u8],
        threads: u32,
        room: u64,
    ) -> Result<MeasuredSlice, MeasureError> {
        let taken = self.slice(|limit, recorder, counts| {
            let log = shared.ready()?;
            let job = library::Job {
                log: &log,
                record,
                threads,
                until: log.tail_lsn().plus(room),
            };
            let last = self.counted(counts, || job.together(limit, recorder))?;
            shared.used_to(last);
            Ok(())
        })?;
        // No segment is prepared in another's slice.
        shared.ready()?;
        Ok(taken)
    }
}
