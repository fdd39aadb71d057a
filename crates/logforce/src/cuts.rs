//! What cuts of power have shown, for people and programs that want to know or to record it. The
//! command `logforce powercut` makes the cuts; the functions that open a log heed what is recorded.

pub use logforce_calibrate::verdicts::{CutRun, NAME, Place, now};

use crate::calibration::{DEEPEST, make_directories};
use crate::{Error, Facts, Result};
use logforce_calibrate::verdicts;
use logforce_device::{Directory, System, Tried};
use logforce_device_os::OsSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the system tells of the directory `path`, with what cuts of power have shown there,
/// recorded in `path` or in `cache`.
///
/// # Errors
/// If `path` is no directory that can be looked at.
pub fn facts(path: impl AsRef<Path>, cache: Option<&Path>) -> Result<Facts> {
    let path = path.as_ref();
    let fail = |source| Error::Io {
        doing: "look at",
        path: path.to_owned(),
        source: Arc::new(source),
    };
    let dir = OsSystem::new().directory(path).map_err(fail)?;
    let mut facts = dir.facts().map_err(fail)?;
    facts.tried = tried(&dir, cache, &facts);
    Ok(facts)
}

/// What is recorded in `cache` of the place of these facts.
pub fn known(facts: &Facts, cache: Option<&Path>) -> Vec<Tried> {
    let runs = cache.map(recorded).unwrap_or_default();
    verdicts::tried(&runs, facts)
}

/// All that is recorded in the directory `path`, of all places; nothing where there is nothing that
/// can be read.
pub fn recorded(path: impl AsRef<Path>) -> Vec<CutRun> {
    let dir = OsSystem::new().directory(path.as_ref());
    dir.map_or_else(|_| Vec::new(), |dir| verdicts::read(&dir))
}

/// Records what a run of cuts has shown, in the directory `path` (made, with its parents, if it is
/// missing). Returns the file.
///
/// # Errors
/// If it cannot be written; it is then as it was.
pub fn record(path: impl AsRef<Path>, run: &CutRun) -> Result<PathBuf> {
    let path = path.as_ref();
    let file = path.join(NAME);
    let fail = |source| Error::Io {
        doing: "record a verdict in",
        path: file.clone(),
        source: Arc::new(source),
    };
    let system = OsSystem::new();
    let dir = make_directories(&system, path, DEEPEST).map_err(fail)?;
    verdicts::record(&dir, &*system.runtime(), run).map_err(fail)?;
    Ok(file)
}

/// From beside the log, and from the cache.
pub(crate) fn tried(dir: &Arc<dyn Directory>, cache: Option<&Path>, facts: &Facts) -> Vec<Tried> {
    let mut runs = verdicts::read(dir);
    if let Some(cache) = cache.and_then(|path| OsSystem::new().directory(path).ok()) {
        runs.extend(verdicts::read(&cache));
    }
    verdicts::tried(&runs, facts)
}
