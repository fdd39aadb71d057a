//! The filesystem and the ledger of sessions whose power is cut.

use crate::ledger::{Entry, SubjectLedger};
use crate::started::{Role, Started, User};
use anyhow::Result;
use logforce_crashtest::subject::Site;
use logforce_crashtest::testbed::{Filesystem, Image};
use serde::Serialize;
use std::path::Path;

/// Fresh filesystem, and the ledger of the present session.
#[derive(Debug)]
pub struct Bench<'a> {
    filesystem: Filesystem,
    home: &'a Path,
    template: Image,
    ledger: SubjectLedger,
}

impl<'a> Bench<'a> {
    /// Makes the filesystem. `home` is the directory for mount points.
    ///
    /// # Errors
    /// Errors of the machine.
    pub fn new(filesystem: Filesystem, home: &'a Path) -> Result<Bench<'a>> {
        Ok(Bench {
            filesystem,
            home,
            template: filesystem.make()?,
            ledger: SubjectLedger::new()?,
        })
    }

    /// Returns the filesystem and the images.
    pub fn site(&self) -> Site<'_> {
        Site {
            filesystem: self.filesystem,
            template: &self.template,
            counters: self.ledger.image(),
            home: self.home,
        }
    }

    /// Empties the ledger.
    ///
    /// # Errors
    /// System errors.
    pub fn begin(&self) -> Result<()> {
        Ok(self.ledger.image().clear()?)
    }

    /// Starts a process that writes into the ledger.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start<J: Serialize>(&self, role: Role, job: &J) -> Result<Started> {
        Started::with(self.ledger.try_clone()?, role, job, User::Root)
    }

    /// Returns all entries of each thread.
    ///
    /// # Errors
    /// System errors.
    pub fn entries(&self) -> Result<Vec<Vec<Entry>>> {
        self.ledger.entries(&self.ledger.counters()?)
    }
}
