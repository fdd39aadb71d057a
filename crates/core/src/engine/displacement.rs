//! Checks that the log is still where it was opened.
//!
//! Open files stay writable after they, or their directory, are removed: fsync still succeeds, and
//! no opening will ever find the records. So the log checks its files by name: at intervals while it
//! writes, and before it adds a segment, writes a stamp, changes the control file or closes.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::names;
use crate::storage::directory::directory_displaced;
use logforce_device::FileIdentity;
use std::io;
use std::sync::Arc;

impl Engine {
    /// Fails the log if it is no longer where it was opened.
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

    /// What has happened to the files, if they were displaced. Only what the system says about
    /// names counts: that it has no descriptors or denies access says nothing about the log.
    pub(super) fn displaced(&self) -> Option<String> {
        if let Some(what) = directory_displaced(&*self.view.dir) {
            return Some(what.to_owned());
        }
        let files = [
            (names::CONTROL, self.location.control),
            (names::LOCK, self.location.lock),
        ];
        for (name, known) in files {
            if let Some(what) = self.change_of(name, known) {
                return Some(format!("its file '{name}' was {what}"));
            }
        }
        for (start, known) in self.location.in_use(self.durable()) {
            let segment = self.view.segments().containing(start);
            let name = segment.as_ref().map(|s| s.name());
            let (Some(segment), Some(name)) = (segment, name) else {
                continue;
            };
            let Some(what) = self.change_of(&name, known) else {
                continue;
            };
            // Unless the log has filled the segment meanwhile, and a truncation has renamed it.
            let now = self.view.segments().containing(start);
            if now.is_some_and(|now| Arc::ptr_eq(&now, &segment)) {
                return Some(format!("its segment '{name}' was {what}"));
            }
        }
        None
    }

    fn change_of(&self, name: &str, known: Option<FileIdentity>) -> Option<&'static str> {
        match self.view.dir.identity_of(name) {
            Ok(now) => known
                .is_some_and(|known| known != now)
                .then_some("replaced by another"),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Some("deleted or renamed"),
            Err(_) => None,
        }
    }
}
