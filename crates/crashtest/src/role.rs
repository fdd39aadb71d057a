//! The other processes of the harness: its own program, started again with a role in the environment.

use crate::disk::{self, Setup, SlowSetup};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// Environment variable with the role, as JSON.
const VARIABLE: &str = "LOGFORCE_CRASHTEST_ROLE";

/// Task of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Serves a disk whose plug can be pulled.
    Disk(Setup),
    /// Serves a slow disk.
    SlowDisk(SlowSetup),
}

impl Role {
    /// Starts this program once more, with the same arguments. The returned stream is the new process's standard
    /// input, on which both sides send.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(&self) -> Result<(Child, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env(VARIABLE, serde_json::to_string(self)?)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // A test harness prints there before the role is known.
            .stdout(Stdio::null())
            .spawn()
            .context("starting the disk's process")?;
        Ok((child, ours))
    }
}

/// Plays the role that this process was started for, until its end. Returns `None` if it has none: a program that
/// uses the harness calls this first, before it looks at its arguments.
pub fn play() -> Option<Result<()>> {
    let role = std::env::var(VARIABLE).ok()?;
    Some(play_as(&role))
}

fn play_as(role: &str) -> Result<()> {
    let harness = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    match serde_json::from_str(role).context("the role of this process")? {
        Role::Disk(setup) => disk::run(&setup, &harness),
        Role::SlowDisk(setup) => disk::run_slow(&setup, &harness),
    }
}
