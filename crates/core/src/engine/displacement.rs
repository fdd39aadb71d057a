//! Checks that the log is still where it was opened.
//!
//! Open files stay writable after they, or their directory, are removed: fsync still succeeds, and
//! no opening will ever find the records. So the log checks its files by name: at intervals while it
//! writes, and before it adds a segment, writes a stamp, changes the control file or closes.

use crate::engine::Engine;
use crate::error::{Error, Result};
use logforce_device::{Displacement, NamedFiles, change_of};
use std::sync::Arc;

impl Engine {
    /// Fails the log if it is no longer where it was opened.
    pub(crate) fn check_location(&self) -> Result<()> {
        self.poison.check()?;
        match self.displaced() {
            Some(displaced) => Err(self.fail(Error::displaced(displaced))),
            None => Ok(()),
        }
    }

    /// Returns the displacement of the log's files, if there is one.
    pub(super) fn displaced(&self) -> Option<Displacement> {
        // Checks the files around the log first, because a displacement there says more.
        let named = self.location.beside.get().into_iter();
        let mut named = named.chain([&self.location.own]);
        if let Some(displaced) = named.find_map(NamedFiles::displacement) {
            return Some(displaced);
        }
        for (start, known) in self.location.in_use(self.durable()) {
            let segment = self.view.segments().containing(start);
            let name = segment.as_ref().map(|s| s.name());
            let (Some(segment), Some(name)) = (segment, name) else {
                continue;
            };
            let Some(what) = change_of(&*self.view.dir, &name, known) else {
                continue;
            };
            // Unless the log has filled the segment meanwhile, and a truncation has renamed it.
            let now = self.view.segments().containing(start);
            if now.is_some_and(|now| Arc::ptr_eq(&now, &segment)) {
                return Some(Displacement {
                    path: self.view.path.clone(),
                    found: format!("its segment '{name}' was {what}"),
                });
            }
        }
        None
    }
}

impl Error {
    pub(super) fn displaced(Displacement { path, found }: Displacement) -> Error {
        Error::Displaced { path, found }
    }
}
