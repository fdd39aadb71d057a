//! Which commit method is fastest in a place: what was measured, and measuring it anew.
//!
//! The functions that open a log do this by themselves where [`Options::method`] is not set; see
//! [`Options::calibrate`]. Here is what they found, for people and programs that want to know.
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
use logforce_core::{Advisor, Facts, Inspector, Observation, Question};
use logforce_device::{CutEvidence, Directory, Method, Runtime, System};
use logforce_device_os::OsSystem;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Logs of one filesystem in one process measure it once.
static MEMORY: Memory = Memory::new();

/// Page files of one filesystem in one process measure it once.
pub(crate) static WRITE_THROUGH_MEMORY: WriteThroughMemory = WriteThroughMemory::new();

/// Maximum time by which the creation of a page file takes longer.
pub(crate) const WRITE_THROUGH_AT_CREATION: Duration = Duration::from_millis(500);

/// Maximum duration of a trial that is asked for.
pub(crate) const LONGEST_WRITE_THROUGH: Duration = Duration::from_secs(2);

/// What is known of a place, and how.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// What the system says of the place.
    pub facts: Facts,
    /// The method that a log opened here now would use, and why.
    pub decision: Decision,
    /// The evidence; `None` where nothing was measured.
    pub calibration: Option<Calibration>,
    /// Where the answer comes from; `None` where nothing was asked for and nothing is known.
    pub origin: Option<Origin>,
    /// The methods that are not measured here, and why.
    pub left_out: Vec<LeftOut>,
    /// Up to how much a copy-on-write page file writes through, where that was measured.
    pub write_through: Option<WriteThroughCalibration>,
    /// Why it was not measured, if it was asked for.
    pub write_through_missing: Option<String>,
    /// The files that hold the evidence.
    pub stored_in: Vec<PathBuf>,
    /// The file that could not be used, and why.
    pub not_stored: Option<String>,
}

impl Report {
    /// Returns a report of a place of which nothing was measured.
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

/// The directory in which the command `logforce calibrate` shares its results with programs that
/// set it as [`Options::calibration_cache`](crate::Options::calibration_cache):
/// `$XDG_CACHE_HOME/logforce`, else `$HOME/.cache/logforce`, and on Windows
/// `%LOCALAPPDATA%\logforce\cache`; `None` where none of these is set.
pub fn default_cache() -> Option<PathBuf> {
    let set = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        // A relative one is to be ignored, says the specification.
        path.is_absolute().then_some(path)
    };
    if cfg!(windows) {
        return Some(set("LOCALAPPDATA")?.join("logforce").join("cache"));
    }
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("logforce"))
}

/// What is known of the directory `path`, without measuring: kept in `cache`, or beside the log
/// if `path` is one's directory, or remembered by this process.
///
/// # Errors
/// If `path` is no directory that can be looked at.
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
            Ok(None) => "nothing was measured yet, or not under these conditions".to_owned(),
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

/// What is known of the directory `path`. What is not known is measured: the log's method for at most
/// 300 ms, and up to how much page files write through for half a second more. The result is kept in
/// `cache`, and beside the log if `path` is one's directory.
///
/// # Errors
/// If `path` is no directory that can be looked at. Measuring that fails is no error: the report
/// says why.
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

/// Measures the directory `path` anew for `budget`; then the write-through limit of page files for up
/// to `budget`, at most 2 s. Otherwise like [`known_or_measured`].
///
/// # Errors
/// As of [`known_or_measured`].
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

/// A directory and where its evidence is kept.
struct Place {
    dir: Arc<dyn Directory>,
    runtime: Arc<dyn Runtime>,
    facts: Facts,
    stores: Vec<Arc<dyn Directory>>,
    /// Of what page files write through; never a log's own directory.
    write_through_stores: Vec<Arc<dyn Directory>>,
    not_stored: Option<String>,
}

impl Place {
    fn open(path: &Path, cache: Option<&Path>, make: bool) -> Result<Place> {
        let system = OsSystem::new();
        let fail = |source| Error::Io {
            doing: "look at the place",
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

/// Answers a log that is being opened.
#[derive(Debug)]
pub(crate) struct Calibrator;

impl Calibrator {
    /// In the cache, if there is one that can be used; else beside the log.
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
