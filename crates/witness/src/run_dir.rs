//! The directory of a run on the machine whose plug is pulled.

use crate::{CutError, RunId};
use logforce::disk::Facts;
use logforce_device::System;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// File that names the run of the directory.
const RUN_FILE: &str = "powercut.json";
const LOCK: &str = "powercut.lock";
/// Directory of the log.
const LOG: &str = "log";
/// Unforced file of the control phase.
pub const CONTROL: &str = "control";
/// Unforced file beside the log.
pub const CANARY: &str = "canary";

const SCHEMA: &str = "logforce-powercut-run";
const LONGEST: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct RunFile {
    schema: String,
    version: u32,
    run: RunId,
}

/// State of a directory in which a run may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunDirState {
    /// The directory of this run.
    Run(RunId),
    /// An empty directory.
    Empty,
    /// No such directory.
    Missing,
    /// A directory with other files.
    Foreign,
}

/// The directory of a run.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Returns the directory `path`, which may be missing.
    pub fn new(path: impl Into<PathBuf>) -> RunDir {
        RunDir { path: path.into() }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of its log.
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    fn named(&self, doing: &str) -> impl FnOnce(io::Error) -> CutError + use<> {
        CutError::io(format!("{doing} {}", self.path.display()))
    }

    /// Returns the state of the directory.
    ///
    /// # Errors
    /// If the directory cannot be read, or its file of the run is damaged.
    pub fn look(&self) -> Result<RunDirState, CutError> {
        let file = self.path.join(RUN_FILE);
        let mut entries = match fs::read_dir(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(RunDirState::Missing),
            other => other.map_err(self.named("reading"))?,
        };
        match fs::metadata(&file) {
            Ok(m) if m.len() <= LONGEST && m.is_file() => {
                let bytes = fs::read(&file).map_err(self.named("reading the run's file in"))?;
                let run = serde_json::from_slice::<RunFile>(&bytes).ok();
                run.filter(|r| r.schema == SCHEMA && r.version == 1)
                    .map(|r| RunDirState::Run(r.run))
                    .ok_or_else(|| self.damaged())
            }
            Ok(_) => Err(self.damaged()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let ours = |name: &str| name == "lost+found" || name == LOCK;
                let foreign = entries
                    .any(|e| e.map_or(true, |e| e.file_name().to_str().is_none_or(|n| !ours(n))));
                Ok(if foreign {
                    RunDirState::Foreign
                } else {
                    RunDirState::Empty
                })
            }
            Err(e) => Err(self.named("finding the run's file in")(e)),
        }
    }

    fn damaged(&self) -> CutError {
        CutError::refused(format!(
            "{} is damaged, although it was forced before any acknowledgement. If this is the right \
             directory, remove that file and name the run with --run ID (`write` printed the ID)",
            self.path.join(RUN_FILE).display()
        ))
    }

    /// Creates the directory if it is missing, and durably writes the file that names its run.
    pub fn claim(&self, system: &dyn System, run: RunId) -> Result<(), CutError> {
        // Also makes the directory's entry in its parent durable.
        system
            .make_directory(&self.path)
            .map_err(self.named("making"))?;
        let content = RunFile {
            schema: SCHEMA.to_owned(),
            version: 1,
            run,
        };
        let mut bytes = serde_json::to_vec_pretty(&content).unwrap_or_default();
        bytes.push(b'\n');
        let temporary = format!("{RUN_FILE}.tmp");
        let written = File::create(self.path.join(&temporary)).and_then(|mut f| {
            f.write_all(&bytes)?;
            f.sync_all()
        });
        written
            .and_then(|()| {
                let dir = system.directory(&self.path)?;
                dir.rename(&temporary, RUN_FILE)?;
                dir.sync()
            })
            .map_err(self.named("writing the run's file in"))
    }

    /// Locks the directory against other writers and checks.
    pub fn lock(&self, system: &dyn System) -> Result<Box<dyn Send + Sync>, CutError> {
        let dir = system
            .directory(&self.path)
            .map_err(self.named("opening"))?;
        dir.lock(LOCK).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => CutError::refused(format!(
                "another `logforce powercut` is running in {}",
                self.path.display()
            )),
            _ => self.named("locking")(e),
        })
    }

    /// Returns false only if the system reports that the directory is missing or is a file. Any other error
    /// is returned, because a check would otherwise count everything in the directory as lost.
    ///
    /// # Errors
    /// If the directory cannot be checked.
    pub fn is_there(&self) -> Result<bool, CutError> {
        is_directory(&self.path).map_err(self.named("examining"))
    }

    /// Returns the facts of the directory, or of its nearest existing parent.
    pub fn facts(&self, cache: Option<&Path>) -> Result<Facts, CutError> {
        let absolute = std::path::absolute(&self.path).map_err(self.named("finding"))?;
        let mut path = absolute.as_path();
        while !is_directory(path).map_err(self.named("examining the parents of"))? {
            match path.parent() {
                Some(parent) => path = parent,
                None => break,
            }
        }
        Ok(logforce::disk::cuts::facts(path, cache)?)
    }
}

fn is_directory(path: &Path) -> io::Result<bool> {
    match path.metadata() {
        Ok(found) => Ok(found.is_dir()),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

/// Describes the filesystem and the device in one line, for human readers.
pub fn describe(facts: &Facts) -> String {
    let device = facts.device.as_ref();
    let (name, model) = device.map_or(("", ""), |d| (d.name.trim(), d.model.trim()));
    let mut text = facts.filesystem.clone();
    if !facts.mount_point.is_empty() {
        text.push_str(&format!(" at {}", facts.mount_point));
    }
    text.push_str(&match (name, model) {
        ("", "") => " on a device that the system does not name".to_owned(),
        ("", model) => format!(" on {model}"),
        (name, "") => format!(" on {name} (model unknown)"),
        (name, model) => format!(" on {name} {model}"),
    });
    text.push_str(match &*facts.mount_options {
        "" => ", mount options unknown",
        _ => ", ",
    });
    text.push_str(&facts.mount_options);
    line(&text)
}

/// Returns the text as one line that a witness accepts.
pub fn line(text: &str) -> String {
    let most = crate::ledger::LONGEST;
    let mut text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_testkit::SimOptions;

    /// Only a missing directory counts as missing. Otherwise a check would count all forced records as lost.
    #[cfg(unix)]
    #[test]
    fn only_what_is_not_there_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| RunDir::new(dir.path().join(name));
        assert!(at("").is_there().unwrap());
        assert!(!at("missing").is_there().unwrap());
        std::os::unix::fs::symlink("circle", dir.path().join("circle")).unwrap();
        assert!(at("circle").is_there().is_err());
    }

    #[test]
    fn a_place_is_told_in_words_where_nothing_is_known() {
        let mut facts = SimOptions::default().facts();
        facts.mount_options = "rw".to_owned();
        facts.mount_point = "/m".to_owned();
        let named = |name: &str, model: &str| {
            let mut facts = facts.clone();
            let device = facts.device.as_mut().unwrap();
            (device.name, device.model) = (name.to_owned(), model.to_owned());
            describe(&facts)
        };
        assert_eq!(named("sda", "ACME 9"), "simfs at /m on sda ACME 9, rw");
        assert_eq!(named("sda", ""), "simfs at /m on sda (model unknown), rw");
        assert_eq!(named("", "ACME 9"), "simfs at /m on ACME 9, rw");
        let unnamed = "simfs at /m on a device that the system does not name, rw";
        assert_eq!(named(" ", ""), unnamed);
        facts.device = None;
        assert_eq!(describe(&facts), unnamed);
        facts.mount_options.clear();
        facts.mount_point.clear();
        assert_eq!(
            describe(&facts),
            "simfs on a device that the system does not name, mount options unknown"
        );
    }
}
