//! Results of power cuts: reading and recording them. The command `logforce powercut` cuts the power; the
//! functions that open a log obey the recorded results.

pub use logforce_calibrate::verdicts::{CutRun, NAME, Place, now};

use crate::directories::{DEEPEST, make_directories};
use crate::{Error, Result};
use logforce_calibrate::verdicts;
use logforce_device::{CutEvidence, Directory, Facts, System};
use logforce_device_os::OsSystem;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the facts that the system reports about the directory `path`, with the results of power cuts that
/// are recorded in `path` or in `cache`.
///
/// # Errors
/// If `path` is not a directory, or its facts cannot be read.
pub fn facts(path: impl AsRef<Path>, cache: Option<&Path>) -> Result<Facts> {
    let path = path.as_ref();
    let fail = |source| Error::Io {
        doing: "read the facts of",
        path: path.to_owned(),
        source: Arc::new(source),
    };
    let dir = OsSystem::new().directory(path).map_err(fail)?;
    let mut facts = dir.facts().map_err(fail)?;
    let evidence = evidence(Some(&dir), cache, &facts);
    facts.heed(evidence);
    Ok(facts)
}

/// Returns the results that `cache` records for the directory of these facts.
pub fn known(facts: &Facts, cache: Option<&Path>) -> CutEvidence {
    evidence(None, cache, facts)
}

/// Returns all results that the directory `path` records, for any filesystem. The list is empty if the
/// directory is missing or records nothing.
///
/// # Errors
/// If the records cannot be read, because they may include a loss.
pub fn recorded(path: impl AsRef<Path>) -> Result<Vec<CutRun>> {
    let path = path.as_ref();
    read(path).map_err(|source| Error::Io {
        doing: "read the recorded power cuts in",
        path: path.join(NAME),
        source: Arc::new(source),
    })
}

fn read(path: &Path) -> io::Result<Vec<CutRun>> {
    match OsSystem::new().directory(path) {
        Ok(dir) => verdicts::read(&dir),
        // The directory does not exist, so no results can be recorded in it.
        Err(e) if is_nowhere(path, &e) => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Returns true if the error proves that no file exists under that path. Any other error could hide a
/// recorded loss.
fn is_nowhere(path: &Path, e: &io::Error) -> bool {
    match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::InvalidFilename => true,
        // No system has names with a NUL. On Windows other invalid names give this error, too. Elsewhere the
        // error has further meanings.
        io::ErrorKind::InvalidInput => path.to_string_lossy().contains('\0') || cfg!(windows),
        _ => false,
    }
}

/// Records the results of a run of power cuts in the directory `path`. Creates the directory and its parents
/// if they are missing. Returns the file.
///
/// # Errors
/// If the file cannot be written; its previous contents then remain.
pub fn record(path: impl AsRef<Path>, run: &CutRun) -> Result<PathBuf> {
    let path = path.as_ref();
    let file = path.join(NAME);
    let fail = |source| Error::Io {
        doing: "record the results of power cuts in",
        path: file.clone(),
        source: Arc::new(source),
    };
    let system = OsSystem::new();
    let dir = make_directories(&system, path, DEEPEST).map_err(fail)?;
    verdicts::record(&dir, &*system.runtime(), run).map_err(fail)?;
    Ok(file)
}

/// Returns the results that are recorded beside the log and in the cache.
pub(crate) fn evidence(
    dir: Option<&Arc<dyn Directory>>,
    cache: Option<&Path>,
    facts: &Facts,
) -> CutEvidence {
    let (mut runs, mut unread) = (Vec::new(), Vec::new());
    let found = dir.map(verdicts::read).into_iter().chain(cache.map(read));
    for found in found {
        match found {
            Ok(more) => runs.extend(more),
            Err(e) => unread.push(e.to_string()),
        }
    }
    // If the cache is the log's directory, its error would be listed twice.
    unread.dedup();
    CutEvidence::new(verdicts::tried(&runs, facts), unread)
}
