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
    /// Those of the machine, of `start` and of `end`.
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

/// Records every write and flush of a session on a disk that begins as `start`, which stays as it is.
///
/// # Errors
/// As those of [`Outage::run`].
pub fn record<S, T>(
    filesystem: Filesystem,
    start: &Image,
    counters: &Image,
    length: Length,
    settings: Settings,
    home: &Path,
    begin: impl FnOnce(&Path) -> Result<S>,
    end: impl FnOnce(S) -> Result<T>,
) -> Result<(Recording, Option<T>)> {
    filesystem.check_at_boot(start)?;
    let record = Image::new(0)?;
    let (stable, current) = (Image::new(start.len())?, Image::new(start.len())?);
    stable.copy_from(start)?;
    let survival = Survival {
        seed: 0,
        grain: 4096,
        keep: 0,
    };
    let outage = Outage {
        switched: Switched {
            filesystem,
            stable: &stable,
            current: &current,
            counters,
            record: Some(&record),
            settings,
        },
        cut: Command::CutAfter {
            writes: length.writes,
            millis: length.millis,
            loaded: false,
            cut: Cut { survival },
        },
        early: false,
        home,
    };
    let (_, ended) = outage.run(begin, end)?;
    Ok((Recording::read(&record)?, ended))
}
