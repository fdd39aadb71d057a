//! Process of a disk, from its start to its end.

use super::mounted::{How, fresh, unmount};
use super::{Filesystem, Mounted};
use crate::role::Role;
use anyhow::{Context, Result, bail};
use rustix::mount::UnmountFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;

/// Process that serves one file, and the directory with the file. Both are removed when this is dropped. A filesystem
/// that is mounted from the file must be dropped before.
#[derive(Debug)]
pub(super) struct DiskProcess {
    process: Child,
    connection: BufReader<UnixStream>,
    home: PathBuf,
    file: PathBuf,
}

impl DiskProcess {
    /// Starts a process in the role that `role` returns for the file that it serves.
    pub(super) fn start(home: &Path, role: impl FnOnce(&Path) -> Role) -> Result<DiskProcess> {
        let home = fresh(home, "disk")?;
        let file = home.join("disk");
        File::create(&file)?;
        let (process, connection) = role(&file).start()?;
        let mut disk = DiskProcess {
            process,
            connection: BufReader::new(connection),
            home,
            file,
        };
        let ready: String = disk.receive().context("the disk's process did not start")?;
        if ready != "ready" {
            bail!("unexpected first message of the disk's process: {ready}");
        }
        Ok(disk)
    }

    /// Mounts the filesystem on the disk.
    pub(super) fn mount(&self, filesystem: Filesystem, how: How) -> Result<Mounted> {
        let home = self.home.parent().unwrap_or(&self.home);
        Mounted::file(filesystem, &self.file, how, home)
    }

    /// Sends the process a line of JSON.
    pub(super) fn send<T: Serialize>(&mut self, what: &T) -> Result<()> {
        let mut line = serde_json::to_string(what)?;
        line.push('\n');
        self.connection
            .get_mut()
            .write_all(line.as_bytes())
            .context("the disk's process ended")
    }

    /// Waits for a line of JSON from the process.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.connection.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| {
            format!("unexpected message of the disk's process (empty if it ended): {line:?}")
        })
    }
}

impl Drop for DiskProcess {
    fn drop(&mut self) {
        // The loop device releases the file soon after the filesystem is unmounted.
        if unmount(&self.file).is_err() {
            let _ = rustix::mount::unmount(&self.file, UnmountFlags::DETACH);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_dir(&self.home);
    }
}
