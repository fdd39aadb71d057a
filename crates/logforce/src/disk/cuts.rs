//! What power cuts have shown, for people and programs that want to know or to record it. The
//! command `logforce powercut` makes the cuts; the functions that open a log obey what is recorded.

pub use logforce_calibrate::verdicts::{CutRun, NAME, Place, now};

use crate::directories::{DEEPEST, make_directories};
use crate::{Error, Result};
use logforce_calibrate::verdicts;
use logforce_device::{CutEvidence, Directory, Facts, System};
use logforce_device_os::OsSystem;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the system says of the directory `path`, with what power cuts have shown there,
/// recorded in `path` or in `cache`.
///
/// # Errors
/// If `path` is no directory that can be looked at.
pub fn facts(path: impl AsRef<Path>, cache: Option<&Path>) -> Result<Facts> {
    let path = path.as_ref();
    let fail = |source| Error::Io {
        doing: "look at the place",
        path: path.to_owned(),
        source: Arc::new(source),
    };
    let dir = OsSystem::new().directory(path).map_err(fail)?;
    let mut facts = dir.facts().map_err(fail)?;
    let evidence = evidence(Some(&dir), cache, &facts);
    facts.heed(evidence);
    Ok(facts)
}

/// What is recorded in `cache` of the place of these facts.
pub fn known(facts: &Facts, cache: Option<&Path>) -> CutEvidence {
    evidence(None, cache, facts)
}

/// All that is recorded in the directory `path`, of all places; nothing where there is no such
/// directory or nothing recorded in it.
///
/// # Errors
/// If what is recorded there cannot be read: it may record a loss.
pub fn recorded(path: impl AsRef<Path>) -> Result<Vec<CutRun>> {
    let path = path.as_ref();
    read(path).map_err(|source| Error::Io {
        doing: "read what is recorded in",
        path: path.join(NAME),
        source: Arc::new(source),
    })
}

fn read(path: &Path) -> io::Result<Vec<CutRun>> {
    match OsSystem::new().directory(path) {
        Ok(dir) => verdicts::read(&dir),
        // There can be no file in it.
        Err(e) if is_nowhere(path, &e) => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Whether nothing can lie under that name. Every other error may keep a loss from being seen.
fn is_nowhere(path: &Path, e: &io::Error) -> bool {
    match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::InvalidFilename => true,
        // No system has such names. (Nor has Windows others; but the error has many meanings.)
        io::ErrorKind::InvalidInput => path.to_string_lossy().contains('\0') || cfg!(windows),
        _ => false,
    }
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
    // The cache may be the log's directory.
    unread.dedup();
    CutEvidence::new(verdicts::tried(&runs, facts), unread)
}
