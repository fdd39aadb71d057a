//! Disk process with a filesystem on it, from power on to power off.

use super::mounted::How;
use super::process::DiskProcess;
use super::{Filesystem, Image, Mounted};
use crate::disk::{Command, Cut, CutReport, SECTOR, Settings, Setup, Survival};
use crate::role::Role;
use anyhow::Result;
use std::path::Path;

/// Images and settings of a disk that is switched on.
#[derive(Debug, Clone, Copy)]
pub struct Switched<'a> {
    /// Filesystem on the disk, which is mounted.
    pub filesystem: Filesystem,
    /// Stable data. After a power cut it includes the surviving part of the unflushed data.
    pub stable: &'a Image,
    /// Image of the same length, which is overwritten with a copy of `stable`.
    pub current: &'a Image,
    /// Counters of acknowledgements, which are sampled at the power cut.
    pub counters: &'a Image,
    /// Empty image for a recording of all events of the disk.
    pub record: Option<&'a Image>,
    /// Settings of the disk.
    pub settings: Settings,
}

/// Disk that has power, and its filesystem.
#[derive(Debug)]
pub struct Powered {
    // First field: dropped, and so unmounted, before the disk's process ends.
    mounted: Option<Mounted>,
    process: DiskProcess,
}

impl Powered {
    /// Switches a disk on and mounts its filesystem. Sends the command `first` before it mounts, so that a power cut
    /// can come while the filesystem replays its journal.
    ///
    /// # Errors
    /// If the disk's process fails, or if the mount fails and there is no `first`. With `first` a mount that fails, for
    /// whatever reason, makes [`mounted`](Self::mounted) return [`None`] instead.
    pub fn on(switched: Switched<'_>, home: &Path, first: Option<Command>) -> Result<Powered> {
        switched.current.copy_from(switched.stable)?;
        let process = DiskProcess::start(home, |file| {
            Role::Disk(Setup {
                at: file.to_owned(),
                stable: switched.stable.path(),
                current: switched.current.path(),
                counters: switched.counters.path(),
                record: switched.record.map(Image::path),
                settings: switched.settings,
            })
        })?;
        let mut powered = Powered {
            mounted: None,
            process,
        };
        if let Some(command) = first {
            powered.send(command)?;
        }
        match powered.process.mount(switched.filesystem, How::DIRECT) {
            Ok(mounted) => powered.mounted = Some(mounted),
            Err(e) if first.is_none() => return Err(e),
            Err(_) => {}
        }
        Ok(powered)
    }

    /// Returns the directory of the filesystem, or `None` if its mount failed after a command `first`.
    pub fn mounted(&self) -> Option<&Path> {
        self.mounted.as_ref().map(Mounted::path)
    }

    /// Sends the disk a command. [`cut_by_itself`](Self::cut_by_itself) receives the report of a power cut.
    ///
    /// # Errors
    /// If the disk's process ended.
    pub fn send(&mut self, command: Command) -> Result<()> {
        self.process.send(&command)
    }

    /// Cuts the power now.
    ///
    /// # Errors
    /// If the disk's process ended.
    pub fn cut(&mut self, cut: Cut) -> Result<CutReport> {
        self.send(Command::Cut(cut))?;
        self.cut_by_itself()
    }

    /// Waits for the power cut of an earlier command.
    ///
    /// # Errors
    /// If the disk's process ended.
    pub fn cut_by_itself(&mut self) -> Result<CutReport> {
        self.process.receive()
    }

    /// Unmounts the filesystem and ends the disk without a loss. Processes that used the filesystem must have ended.
    ///
    /// # Errors
    /// If the filesystem stays busy, or the disk's process ended.
    pub fn shut_down(mut self) -> Result<CutReport> {
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount()?;
        }
        self.cut(Cut {
            survival: Survival {
                seed: 0,
                grain: SECTOR,
                keep: 100,
            },
        })
    }

    /// Unmounts the filesystem, if it is mounted, and ends the disk's process. Processes that used the filesystem must
    /// have ended.
    ///
    /// # Errors
    /// If the filesystem stays busy for about 10 seconds.
    pub fn off(mut self) -> Result<()> {
        match self.mounted.take() {
            Some(mounted) => mounted.unmount(),
            None => Ok(()),
        }
    }
}
