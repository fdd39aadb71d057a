//! A session of a program on a disk, from power on to power off.

use crate::disk::{Command, CutReport, Settings};
use crate::subject::Subject;
use crate::testbed::{Filesystem, Image, Powered, Switched};
use anyhow::Result;
use std::io;

/// Images of a disk.
#[derive(Debug)]
pub struct Disks {
    /// Stable data.
    pub stable: Image,
    /// Everything that was written, also what is not stable.
    pub current: Image,
}

impl Disks {
    /// Makes images of `len` zero bytes.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(len: u64) -> io::Result<Disks> {
        Ok(Disks {
            stable: Image::new(len)?,
            current: Image::new(len)?,
        })
    }

    /// Returns the disk to be switched on, without a recording.
    pub fn switched<'a>(
        &'a self,
        filesystem: Filesystem,
        counters: &'a Image,
        settings: Settings,
    ) -> Switched<'a> {
        Switched {
            filesystem,
            stable: &self.stable,
            current: &self.current,
            counters,
            record: None,
            settings,
        }
    }
}

/// A session that ends with a power cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage<'a> {
    pub(crate) disks: &'a Disks,
    /// Empty image for a recording.
    pub(crate) record: Option<&'a Image>,
    pub(crate) settings: Settings,
    /// When the power goes.
    pub(crate) cut: Command,
    /// True if the disk gets the command before it is mounted: the power may then go while the filesystem
    /// replays its journal.
    pub(crate) early: bool,
    /// Seed of the program.
    pub(crate) seed: u64,
}

impl Outage<'_> {
    /// Runs the session after those that promised `before`. The program is not started if the power went before the
    /// mount was done. Returns the report of the disk, and how the program ended if that was wrong.
    pub(crate) fn run<S: Subject>(
        self,
        subject: &S,
        before: &S::Promised,
    ) -> Result<(CutReport, Option<String>)> {
        let site = subject.site();
        site.filesystem.check_at_boot(&self.disks.stable)?;
        subject.begin()?;
        let switched = Switched {
            record: self.record,
            ..self
                .disks
                .switched(site.filesystem, site.counters, self.settings)
        };
        let first = self.early.then_some(self.cut);
        let mut powered = Powered::on(switched, site.home, first)?;
        let mounted = powered.mounted();
        let start = |dir| subject.start(dir, before, self.seed);
        let running = mounted.map(start).transpose()?;
        if !self.early {
            powered.send(self.cut)?;
        }
        let report = powered.cut_by_itself()?;
        let wrong = running
            .map(|running| subject.end(running, &report.counters))
            .transpose()?;
        powered.off()?;
        Ok((report, wrong.flatten()))
    }
}
