//! Calibration: stored and new measurements of the fastest commit method in a directory.
//!
//! The functions that open a log calibrate by themselves if [`Options::method`] is not set; see
//! [`Options::calibrate`]. This module returns their results, and can measure anew.
//!
//! [`Options::method`]: crate::Options::method
//! [`Options::calibrate`]: crate::Options::calibrate

pub use logforce_calibrate::{
    Calibration, Decided, Decision, Figure, Interval, LeftOut, Live, Origin, Skip, ValidFor,
    WriteThroughCalibration, WriteThroughFigure, WriteThroughLimit,
};

use crate::directories::{DEEPEST, is_page_file, make_directories};
use crate::{Error, Guarantee, Result};
use logforce_calibrate::{
    Choice, Limits, Memory, Site, WriteThroughMemory, WriteThroughSite, choose,
    choose_write_through, known_write_through, measure_anew, measure_write_through, shortlist,
    skip,
};
use logforce_commit::advisor::{Advisor, Observation, Question};
use logforce_core::{Facts, Inspector};
use logforce_device::{CutEvidence, Directory, Method, Runtime, System};
use logforce_device_os::OsSystem;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Measurements of this process: its logs on one filesystem measure once.
static MEMORY: Memory = Memory::new();

/// Measurements of this process: its page files on one filesystem measure once.
pub(crate) static WRITE_THROUGH_MEMORY: WriteThroughMemory = WriteThroughMemory::new();

/// Maximum time that measuring adds to the creation of a page file.
pub(crate) const WRITE_THROUGH_AT_CREATION: Duration = Duration::from_millis(500);

/// Maximum duration of a write-through trial that a caller requests.
pub(crate) const LONGEST_WRITE_THROUGH: Duration = Duration::from_secs(2);

/// Everything known about a directory, and the source of that knowledge.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Facts that the system reports about the directory.
    pub facts: Facts,
    /// Method that a log opened here now would use, with the reason.
    pub decision: Decision,
    /// Evidence; `None` if nothing was measured.
    pub calibration: Option<Calibration>,
    /// Origin of the decision; `None` if nothing is known and no measurement was requested.
    pub origin: Option<Origin>,
    /// Methods that are not measured here, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// Write-through limit of copy-on-write page files; `None` if it was not measured.
    pub write_through: Option<WriteThroughCalibration>,
    /// Reason why a requested measurement of that limit failed.
    pub write_through_missing: Option<String>,
    /// Files that hold the evidence.
    pub stored_in: Vec<PathBuf>,
    /// Cache directory that could not be used, with the reason.
    pub not_stored: Option<String>,
}

impl Report {
    /// Returns a report of a directory in which nothing was measured.
    pub fn new(facts: Facts, decision: Decision) -> Report {
        Report {
            facts,
            decision,
            calibration: None,
            origin: None,
            left_out: Vec::new(),
            write_through: None,
            write_through_missing: None,
            stored_in: Vec::new(),
            not_stored: None,
        }
    }
}

/// Returns the directory in which the command `logforce calibrate` shares its results with programs. They set
/// it as [`Options::calibration_cache`](crate::Options::calibration_cache). It is `$XDG_CACHE_HOME/logforce`,
/// else `$HOME/.cache/logforce`; on Windows it is `%LOCALAPPDATA%\logforce\cache`. Returns `None` if none of
/// these variables is set.
pub fn default_cache() -> Option<PathBuf> {
    let set = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        // The XDG specification requires that relative paths are ignored.
        path.is_absolute().then_some(path)
    };
    if cfg!(windows) {
        return Some(set("LOCALAPPDATA")?.join("logforce").join("cache"));
    }
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("logforce"))
}

/// Returns everything known about the directory `path`, without measuring. Sources are `cache`, the files
/// beside the log if `path` is a log's directory, and the memory of this process.
///
/// # Errors
/// If `path` is not a directory, or its facts cannot be read.
pub fn known(path: impl AsRef<Path>, cache: Option<&Path>) -> Result<Report> {
    let place = Place::open(path.as_ref(), cache, false)?;
    let known = place.site().known();
    let default = place.facts.default_method();
    let list = shortlist(&place.facts, Guarantee::Nothing);
    let decision = known.as_ref().map(|k| k.decision.clone());
    let decision = decision.unwrap_or_else(|| {
        let free = place.dir.free_space();
        let why = match free.map(|free| skip(&place.facts, &list, free)) {
            Ok(Some(reason)) => format!("nothing is measured here: {reason}"),
            Ok(None) => "not measured yet under the present conditions".to_owned(),
            Err(e) => format!("nothing is measured here: {e}"),
        };
        Decision::undecided(default, why)
    });
    let origin = known.is_some().then_some(Origin::Known);
    let write_through = known_write_through(&place.write_through());
    let report = place.report(decision, known, origin, list.left_out);
    Ok(Report {
        write_through,
        ..report
    })
}

/// Returns everything known about the directory `path`, and measures the rest: the log's method for at most
/// 300 ms, and the write-through limit of page files for at most another 500 ms. Stores the results in
/// `cache`, and beside the log if `path` is a log's directory.
///
/// # Errors
/// If `path` is not a directory, or its facts cannot be read. A failed measurement is not an error: the
/// report contains the reason.
pub fn known_or_measured(path: impl AsRef<Path>, cache: Option<&Path>) -> Result<Report> {
    let place = Place::open(path.as_ref(), cache, true)?;
    let chosen = choose(&place.site(), Limits::AT_OPENING);
    let write_through = choose_write_through(&place.write_through(), WRITE_THROUGH_AT_CREATION);
    let report = place.report_of(chosen);
    Ok(Report {
        write_through,
        ..report
    })
}

/// Measures the directory `path` anew for `budget`, then the write-through limit of page files for up to
/// `budget` and at most 2 s. Otherwise like [`known_or_measured`].
///
/// # Errors
/// The errors of [`known_or_measured`].
pub fn measured(path: impl AsRef<Path>, cache: Option<&Path>, budget: Duration) -> Result<Report> {
    let place = Place::open(path.as_ref(), cache, true)?;
    let limits = Limits {
        budget,
        turns: usize::MAX,
    };
    let chosen = measure_anew(&place.site(), limits);
    let write_through =
        measure_write_through(&place.write_through(), budget.min(LONGEST_WRITE_THROUGH));
    let report = place.report_of(chosen);
    let (write_through, write_through_missing) = match write_through {
        Ok(measured) => (Some(measured), None),
        Err(why) => (None, Some(why)),
    };
    Ok(Report {
        write_through,
        write_through_missing,
        ..report
    })
}

/// A directory and the stores of its evidence.
struct Place {
    dir: Arc<dyn Directory>,
    runtime: Arc<dyn Runtime>,
    facts: Facts,
    stores: Vec<Arc<dyn Directory>>,
    /// Stores of the write-through limit of page files; never the directory of a log.
    write_through_stores: Vec<Arc<dyn Directory>>,
    not_stored: Option<String>,
}

impl Place {
    fn open(path: &Path, cache: Option<&Path>, make: bool) -> Result<Place> {
        let system = OsSystem::new();
        let fail = |source| Error::Io {
            doing: "read the facts of",
            path: path.to_owned(),
            source: Arc::new(source),
        };
        let dir = system.directory(path).map_err(fail)?;
        let facts = match make {
            true => dir.facts_for_writing(),
            false => dir.facts(),
        };
        let mut facts = facts.map_err(fail)?;
        let (mut stores, mut not_stored) = (Vec::new(), None);
        if let Some(cache) = cache {
            let opened = if make {
                make_directories(&system, cache, DEEPEST)
            } else {
                system.directory(cache)
            };
            match opened {
                Ok(dir) => stores.push(dir),
                Err(e) if e.kind() == io::ErrorKind::NotFound && !make => {}
                Err(e) => not_stored = Some(e.to_string()),
            }
        }
        let mut write_through_stores = stores.clone();
        if Inspector::open(&system, path).is_ok() {
            stores.push(dir.clone());
        } else if is_page_file(&*dir) {
            write_through_stores.push(dir.clone());
        }
        let evidence = crate::disk::cuts::evidence(Some(&dir), cache, &facts);
        facts.heed(evidence);
        Ok(Place {
            dir,
            runtime: system.runtime(),
            facts,
            stores,
            write_through_stores,
            not_stored,
        })
    }

    fn site(&self) -> Site<'_> {
        Site {
            dir: &self.dir,
            runtime: &*self.runtime,
            facts: &self.facts,
            write_unit: self.facts.write_unit(),
            require: Guarantee::Nothing,
            stores: &self.stores,
            memory: &MEMORY,
        }
    }

    fn write_through(&self) -> WriteThroughSite<'_> {
        WriteThroughSite {
            dir: &self.dir,
            runtime: &self.runtime,
            facts: &self.facts,
            stores: &self.write_through_stores,
            memory: &WRITE_THROUGH_MEMORY,
        }
    }

    fn report_of(self, chosen: Choice) -> Report {
        self.report(
            chosen.decision,
            chosen.calibration,
            Some(chosen.origin),
            chosen.shortlist.left_out,
        )
    }

    fn report(
        self,
        decision: Decision,
        calibration: Option<Calibration>,
        origin: Option<Origin>,
        left_out: Vec<LeftOut>,
    ) -> Report {
        let holds = |dir: &&Arc<dyn Directory>| {
            let key = calibration.as_ref().map(|c| &c.valid_for);
            key.is_some_and(|key| logforce_calibrate::store::read(dir, key).is_some())
        };
        let stored_in = self
            .stores
            .iter()
            .filter(holds)
            .map(|dir| dir.path().join(logforce_calibrate::store::NAME))
            .collect();
        Report {
            stored_in,
            calibration,
            origin,
            left_out,
            not_stored: self.not_stored,
            ..Report::new(self.facts, decision)
        }
    }
}

/// The advisor of logs that are being opened.
#[derive(Debug)]
pub(crate) struct Calibrator;

impl Calibrator {
    /// Returns the cache if it is set and usable, else the log's directory.
    fn stores(question: &Question<'_>) -> Vec<Arc<dyn Directory>> {
        let shared = question
            .cache
            .and_then(|path| make_directories(&OsSystem::new(), path, DEEPEST).ok());
        vec![shared.unwrap_or_else(|| question.dir.clone())]
    }

    fn site<'a>(question: &'a Question<'_>, stores: &'a [Arc<dyn Directory>]) -> Site<'a> {
        Site {
            dir: question.dir,
            runtime: question.runtime,
            facts: question.facts,
            write_unit: question.write_unit,
            require: question.require,
            stores,
            memory: &MEMORY,
        }
    }
}

impl Advisor for Calibrator {
    fn tried(&self, question: &Question<'_>) -> CutEvidence {
        crate::disk::cuts::evidence(Some(question.dir), question.cache, question.facts)
    }

    fn method(&self, question: &Question<'_>) -> Option<Method> {
        let stores = Self::stores(question);
        let chosen = choose(&Self::site(question, &stores), Limits::AT_OPENING);
        Some(chosen.decision.method)
    }

    fn observe(&self, question: &Question<'_>, seen: Observation) {
        let stores = Self::stores(question);
        let site = Self::site(question, &stores);
        logforce_calibrate::observe(&site, seen.method, seen.forces, seen.p50);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_opening_saw_is_kept_with_what_was_measured() {
        let home = tempfile::tempdir_in(".").unwrap();
        let system = OsSystem::new();
        let (dir, runtime) = (system.directory(home.path()).unwrap(), system.runtime());
        let facts = dir.facts().unwrap();
        let cache = home.path().join("cache");
        let question = Question {
            dir: &dir,
            runtime: &*runtime,
            facts: &facts,
            write_unit: facts.write_unit(),
            require: Guarantee::PowerLoss,
            cache: Some(&cache),
        };
        let method = Calibrator.method(&question).unwrap();
        let seen = Observation {
            method,
            forces: 123,
            p50: Duration::from_micros(45),
        };
        Calibrator.observe(&question, seen);
        let Some(known) = known(home.path(), Some(&cache)).unwrap().calibration else {
            logforce_testkit::skip!("nothing is measured here");
            return;
        };
        let live = known.live.unwrap();
        assert_eq!((live.method, live.forces), (method, 123));
    }
}
