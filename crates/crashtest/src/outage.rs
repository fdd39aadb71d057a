//! A session of a program on a disk, from power on to power off.

use crate::disk::{Command, Cut, CutReport, Recording, Settings, Survival};
use crate::testbed::{Filesystem, Image, Powered, Switched};
use anyhow::Result;
use std::path::Path;

/// A disk that is switched on, and when its power goes.
#[derive(Debug, Clone, Copy)]
pub struct Outage<'a> {
    /// The disk.
    pub switched: Switched<'a>,
    /// When the power goes.
    pub cut: Command,
    /// True if the disk gets the command before it is mounted: the power may then go while the filesystem
    /// replays its journal.
    pub early: bool,
    /// Directory for mount points.
    pub home: &'a Path,
}

impl Outage<'_> {
    /// Switches the disk on, calls `start` with the mounted directory, waits for the cut, and calls `end`, after
    /// which no process may use the directory. Neither is called if the power went before the mount was done.
    ///
    /// # Errors
    /// Errors of the machine, of `start` and of `end`.
    pub fn run<S, T>(
        self,
        start: impl FnOnce(&Path) -> Result<S>,
        end: impl FnOnce(S) -> Result<T>,
    ) -> Result<(CutReport, Option<T>)> {
        let first = self.early.then_some(self.cut);
        let mut powered = Powered::on(self.switched, self.home, first)?;
        let program = powered.mounted().map(start).transpose()?;
        if !self.early {
            powered.send(self.cut)?;
        }
        let report = powered.cut_by_itself()?;
        let ended = program.map(end).transpose()?;
        powered.off()?;
        Ok((report, ended))
    }
}

/// Length of a recording. It ends at the limit that is reached first.
#[derive(Debug, Clone, Copy)]
pub struct Length {
    /// Number of writes of the disk.
    pub writes: u64,
    /// Milliseconds.
    pub millis: u64,
}

/// A session that is recorded.
#[derive(Debug, Clone, Copy)]
pub struct Take<'a> {
    /// The filesystem on the disk.
    pub filesystem: Filesystem,
    /// The disk at the beginning; it stays as it is.
    pub start: &'a Image,
    /// The counters that are sampled at each event.
    pub counters: &'a Image,
    /// Length of the recording.
    pub length: Length,
    /// Behaviour of the disk.
    pub settings: Settings,
    /// Directory for mount points.
    pub home: &'a Path,
}

impl Take<'_> {
    /// Records every write and flush of the session. `start` and `end` are called as by [`Outage::run`].
    ///
    /// # Errors
    /// The errors of [`Outage::run`].
    pub fn record<S, T>(
        self,
        start: impl FnOnce(&Path) -> Result<S>,
        end: impl FnOnce(S) -> Result<T>,
    ) -> Result<(Recording, Option<T>)> {
        self.filesystem.check_at_boot(self.start)?;
        let record = Image::new(0)?;
        let len = self.start.len();
        let (stable, current) = (Image::new(len)?, Image::new(len)?);
        stable.copy_from(self.start)?;
        let survival = Survival {
            seed: 0,
            grain: 4096,
            keep: 0,
        };
        let outage = Outage {
            switched: Switched {
                filesystem: self.filesystem,
                stable: &stable,
                current: &current,
                counters: self.counters,
                record: Some(&record),
                settings: self.settings,
            },
            cut: Command::CutAfter {
                writes: self.length.writes,
                millis: self.length.millis,
                loaded: false,
                cut: Cut { survival },
            },
            early: false,
            home: self.home,
        };
        let (_, ended) = outage.run(start, end)?;
        Ok((Recording::read(&record)?, ended))
    }
}
