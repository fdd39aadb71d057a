//! Who takes bulk.

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

/// The first word of a child's command line; the task comes behind it, as JSON.
pub const CHILD: &str = "child-of-rivals";

/// What takes bulk, in a process of this program.
pub trait Bulk {
    /// Whose work it is.
    fn rival(&self) -> &'static str;

    /// Its name in the table: of one rival there may be several.
    fn name(&self) -> &'static str {
        self.rival()
    }

    /// What is done, in words; printed below the table.
    fn settings(&self) -> String;

    /// Appends so many records in an empty directory, forces them, and closes. How long that took
    /// from the first one until all were durable.
    ///
    /// # Errors
    /// What the rival says.
    fn append(&self, dir: &Path, records: &mut Records, count: u64) -> Result<Duration>;

    /// Opens what was closed there, shows every record, and closes again.
    ///
    /// # Errors
    /// What the rival says.
    fn read(&self, dir: &Path, count: u64, see: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// Those of this build that are no programs of their own.
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

/// Who takes bulk, and in which program.
pub struct Subject {
    /// Its name in the table.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// What is done, in words.
    pub settings: String,
    program: PathBuf,
    /// The program is this one, which has to be told that it is a child.
    is_this: bool,
}

impl Subject {
    /// What to start; the task is to be added.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.is_this {
            command.arg(CHILD);
        }
        command
    }
}

/// Those of these rivals that take bulk; `this` is the program that calls [`super::child::task`]
/// first of all.
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

/// Those that are written in Go.
#[cfg(feature = "go")]
fn in_go(rivals: &[&dyn Rival]) -> Vec<Subject> {
    let Ok(program) = apart::program() else {
        // The entries say why.
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

/// Those that are written in Go.
#[cfg(not(feature = "go"))]
fn in_go(_: &[&dyn Rival]) -> Vec<Subject> {
    Vec::new()
}
