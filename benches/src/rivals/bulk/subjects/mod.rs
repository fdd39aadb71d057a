//! Subjects of the bulk comparison.

mod logforce;
#[cfg(feature = "okaywal")]
mod okaywal;
#[cfg(feature = "raft-engine")]
mod raft_engine;
mod raw;

#[cfg(feature = "go")]
use crate::rivals::apart;
use crate::rivals::records::Records;
use crate::rivals::rival::Rival;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// First argument of a child process; the task follows as JSON.
pub const CHILD: &str = "child-of-rivals";

/// A subject of the bulk comparison that runs in a child process of this program.
pub trait Bulk {
    /// Returns the name of the rival.
    fn rival(&self) -> &'static str;

    /// Returns the name in the table. A rival can have several subjects.
    fn name(&self) -> &'static str {
        self.rival()
    }

    /// Returns a description of the work, for printing below the table.
    fn settings(&self) -> String;

    /// Appends `count` records to a log in an empty directory, forces them, and closes the log. Returns
    /// the time from the first record until all are durable.
    ///
    /// # Errors
    /// Returns the rival's error.
    fn append(&self, dir: &Path, records: &mut Records, count: u64) -> Result<Duration>;

    /// Reopens the log in `dir`, passes every record to `see`, and closes the log.
    ///
    /// # Errors
    /// Returns the rival's error.
    fn read(&self, dir: &Path, count: u64, see: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// Returns the subjects of this build that run in a child process of this program.
pub fn here() -> Vec<Box<dyn Bulk>> {
    vec![
        Box::new(raw::OVERWRITTEN),
        Box::new(raw::FALLOCATED),
        Box::new(logforce::Logforce),
        Box::new(logforce::Recycled),
        #[cfg(feature = "okaywal")]
        Box::new(okaywal::Okaywal),
        #[cfg(feature = "raft-engine")]
        Box::new(raft_engine::RaftEngine),
    ]
}

/// A subject, and the program that runs it.
pub struct Subject {
    /// Name in the table.
    pub name: &'static str,
    /// Version.
    pub version: String,
    /// Description of the work.
    pub settings: String,
    program: PathBuf,
    /// True if `program` is this one, which then needs the argument that makes it a child.
    is_this: bool,
}

impl Subject {
    /// Returns the command without the task, which the caller appends.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.is_this {
            command.arg(CHILD);
        }
        command
    }
}

/// Returns the subjects of these rivals. `this` is the program that calls [`super::child::task`] first
/// of all.
pub fn of(rivals: &[&dyn Rival], this: &Path) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for bulk in here() {
        if let Some(rival) = rivals.iter().find(|r| r.name() == bulk.rival()) {
            subjects.push(Subject {
                name: bulk.name(),
                version: rival.version(),
                settings: bulk.settings(),
                program: this.to_owned(),
                is_this: true,
            });
        }
    }
    subjects.extend(in_go(rivals));
    subjects
}

/// Returns the subjects that are written in Go.
#[cfg(feature = "go")]
fn in_go(rivals: &[&dyn Rival]) -> Vec<Subject> {
    let Ok(program) = apart::program() else {
        // The entries have the reason.
        return Vec::new();
    };
    let named = |(name, settings): (&'static str, &str)| {
        let rival = rivals.iter().find(|r| r.name() == name)?;
        Some(Subject {
            name,
            version: rival.version(),
            settings: settings.to_owned(),
            program: program.to_owned(),
            is_this: false,
        })
    };
    apart::BULK.into_iter().filter_map(named).collect()
}

/// Returns the subjects that are written in Go.
#[cfg(not(feature = "go"))]
fn in_go(_: &[&dyn Rival]) -> Vec<Subject> {
    Vec::new()
}
