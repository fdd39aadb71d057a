//! Whether the log is still where it was opened.
//!
//! Files that are open stay writable when somebody removes them, or the directory they are in: the
//! system goes on saying that all is forced, and nobody will ever find it. So the log looks by name:
//! [`EVERY`] while something is written, and before a segment comes into use, a stamp, a change of
//! the control file, and the end.

use crate::engine::Engine;
use crate::engine::location::Location;
use crate::error::{Error, Result};
use crate::names;
use crate::state::pipeline::WritePipeline;
use logforce_device::{FileIdentity, Whereabouts};
use logforce_format::Lsn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How often at most, and at least while commits go on. What is acknowledged after the log was taken
/// away is acknowledged for no longer than this.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// What the writing thread remembers of its last look.
pub(crate) struct LastLook {
    /// How far the log was written and durable.
    outcome: (Lsn, Lsn),
    at: Option<Duration>,
}

/// When to look next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Not before something lands.
    No,
    At(Duration),
    Now,
}

impl LastLook {
    /// The opening itself, by which nothing had landed.
    pub(crate) fn new(location: &Location) -> Self {
        LastLook {
            outcome: (location.opened_at, location.opened_at),
            at: None,
        }
    }

    /// When to look. If it is due, that counts as done.
    pub(crate) fn due(&mut self, pipeline: &WritePipeline, now: Duration) -> Due {
        let outcome = (pipeline.written(), pipeline.durable());
        match self.at.map(|at| at.saturating_add(EVERY)) {
            // Also where nothing has landed since: who commits next need not wake the thread.
            Some(next) if next > now => Due::At(next),
            _ if outcome == self.outcome => Due::No,
            _ => {
                self.outcome = outcome;
                self.at = Some(now);
                Due::Now
            }
        }
    }
}

impl Engine {
    /// Fails the log if it is not where it was opened any more.
    pub(crate) fn check_location(&self) -> Result<()> {
        self.poison.check()?;
        match self.displaced() {
            Some(found) => Err(self.fail(Error::Displaced {
                path: self.view.path.clone(),
                found,
            })),
            None => Ok(()),
        }
    }

    /// What has become of it, if it was displaced. Only what the system says of names counts: that
    /// it has no descriptors or denies a right says nothing of the log.
    fn displaced(&self) -> Option<String> {
        match self.view.dir.whereabouts() {
            Ok(Whereabouts::Here) | Err(_) => {}
            Ok(Whereabouts::Gone) => {
                return Some("the directory was deleted or moved away".to_owned());
            }
            Ok(Whereabouts::Replaced) => {
                return Some(
                    "another directory is there: the log's was deleted or moved away".to_owned(),
                );
            }
        }
        let files = [
            (names::CONTROL, self.location.control),
            (names::LOCK, self.location.lock),
        ];
        for (name, known) in files {
            if let Some(what) = self.became_of(name, known) {
                return Some(format!("its file '{name}' was {what}"));
            }
        }
        for (start, known) in self.location.in_use(self.durable()) {
            let segment = self.view.segments().containing(start);
            let name = segment.as_ref().map(|s| s.name());
            let (Some(segment), Some(name)) = (segment, name) else {
                continue;
            };
            let Some(what) = self.became_of(&name, known) else {
                continue;
            };
            // Unless the log itself has filled it meanwhile, and a truncation given it another name.
            let now = self.view.segments().containing(start);
            if now.is_some_and(|now| Arc::ptr_eq(&now, &segment)) {
                return Some(format!("its segment '{name}' was {what}"));
            }
        }
        None
    }

    fn became_of(&self, name: &str, known: Option<FileIdentity>) -> Option<&'static str> {
        match self.view.dir.identity_of(name) {
            Ok(now) => known
                .is_some_and(|known| known != now)
                .then_some("replaced by another"),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Some("deleted or renamed"),
            Err(_) => None,
        }
    }
}
