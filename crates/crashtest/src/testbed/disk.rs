//! A disk process with a filesystem on it, from the moment that the power is on.

use super::mounted::How;
use super::process::DiskProcess;
use super::{Filesystem, Image, Mounted};
use crate::disk::{Command, Cut, CutReport, SECTOR, Settings, Setup, Survival};
use crate::role::Role;
use anyhow::Result;
use std::path::Path;

/// What is on the disk, and what a process on it may have been promised.
#[derive(Debug, Clone, Copy)]
pub struct Switched<'a> {
    /// What is made and mounted.
    pub filesystem: Filesystem,
    /// What is stable: with what survives the cut, when it has come.
    pub stable: &'a Image,
    /// Room for a copy of it.
    pub current: &'a Image,
    /// The counters that are sampled at the cut.
    pub counters: &'a Image,
    /// Where to record what reaches the disk.
    pub record: Option<&'a Image>,
    /// How the disk behaves.
    pub settings: Settings,
}

/// A disk that has power, and its filesystem.
#[derive(Debug)]
pub struct Powered {
    // Dropped, and so unmounted, before the disk goes.
    mounted: Option<Mounted>,
    process: DiskProcess,
}

impl Powered {
    /// Switches a disk on and mounts what is on it. With `first` the disk gets a command before
    /// that: so a cut can come while the filesystem replays its journal.
    ///
    /// # Errors
    /// If the disk's process or the mount fails. A mount that fails because the power went is
    /// [`None`] in [`mounted`](Self::mounted) instead.
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

    /// The filesystem; `None` if the power went before it was mounted.
    pub fn mounted(&self) -> Option<&Path> {
        self.mounted.as_ref().map(Mounted::path)
    }

    /// Sends the disk a command. [`cut`](Self::cut) reads the reply to a cut.
    ///
    /// # Errors
    /// If the disk's process ended.
    pub fn send(&mut self, command: Command) -> Result<()> {
        self.process.send(&command)
    }

    /// Pulls the plug.
    ///
    /// # Errors
    /// If the disk's process ended.
    pub fn cut(&mut self, cut: Cut) -> Result<CutReport> {
        self.send(Command::Cut(cut))?;
        self.cut_by_itself()
    }

    /// Waits for the cut that was commanded before.
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

    /// Unmounts what is left and ends the disk's process. Processes that used the filesystem must have
    /// ended.
    ///
    /// # Errors
    /// If the filesystem stays busy.
    pub fn off(mut self) -> Result<()> {
        match self.mounted.take() {
            Some(mounted) => mounted.unmount(),
            None => Ok(()),
        }
    }
}
