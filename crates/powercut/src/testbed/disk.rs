//! A disk process with a filesystem on it, from the moment that the power is on.

use super::mounted::{fresh, unmount};
use super::{Filesystem, Image, Mounted};
use crate::disk::{Command, Cut, Report, Settings, Setup};
use crate::ledger::Ledger;
use anyhow::{Context, Result, bail};
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// What is on the disk, and what a process on it may have been promised.
#[derive(Debug, Clone, Copy)]
pub struct Switched<'a> {
    /// What is made and mounted.
    pub filesystem: Filesystem,
    /// What is stable: with what survives the cut, when it has come.
    pub stable: &'a Image,
    /// Room for a copy of it.
    pub current: &'a Image,
    /// Whose counters are sampled at the cut.
    pub ledger: &'a Ledger,
    /// Where to record what reaches the disk.
    pub record: Option<&'a Image>,
    /// How the disk behaves.
    pub settings: Settings,
}

/// A disk that has power, and its filesystem.
#[derive(Debug)]
pub struct Powered {
    mounted: Option<Mounted>,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    home: PathBuf,
    file: PathBuf,
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
        let home = fresh(home)?;
        let file = home.join("disk");
        File::create(&file)?;
        let setup = Setup {
            at: file.clone(),
            stable: switched.stable.path(),
            current: switched.current.path(),
            ledger: switched.ledger.path(),
            record: switched.record.map(Image::path),
            settings: switched.settings,
        };
        let mut process = std::process::Command::new(std::env::current_exe()?)
            .arg("disk")
            .arg(serde_json::to_string(&setup)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the disk's process")?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.context("no pipes")?;
        let mut powered = Powered {
            mounted: None,
            process,
            input,
            output: BufReader::new(output),
            home,
            file,
        };
        let ready: String = powered.receive().context("the disk does not come up")?;
        if ready != "ready" {
            bail!("the disk says {ready}");
        }
        if let Some(command) = first {
            powered.send(command)?;
        }
        match Mounted::file(switched.filesystem, &powered.file, true, &powered.home) {
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
        let mut line = serde_json::to_string(&command)?;
        line.push('\n');
        self.input
            .write_all(line.as_bytes())
            .context("the disk's process ended")
    }

    fn receive<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the disk says {line:?}"))
    }

    /// Pulls the plug.
    ///
    /// # Errors
    /// If the disk's process ended.
    pub fn cut(&mut self, cut: Cut) -> Result<Report> {
        self.send(Command::Cut(cut))?;
        self.cut_by_itself()
    }

    /// Waits for the cut that was commanded before.
    ///
    /// # Errors
    /// If the disk's process ended.
    pub fn cut_by_itself(&mut self) -> Result<Report> {
        self.receive()
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

impl Drop for Powered {
    fn drop(&mut self) {
        self.mounted = None;
        // The loop device lets go of the file soon after it was unmounted.
        if unmount(&self.file).is_err() {
            let _ = rustix::mount::unmount(&self.file, UnmountFlags::DETACH);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_dir(&self.home);
    }
}
