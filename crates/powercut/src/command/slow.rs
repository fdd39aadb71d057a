//! `slow`: runs a command on a disk that takes its time.

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use logforce_crashtest::disk::Delays;
use logforce_crashtest::testbed::{Filesystem, SlowDisk};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Microseconds.
const A_MINUTE: u64 = 60_000_000;

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Duration of a write, microseconds.
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(..=A_MINUTE))]
    write: u64,
    /// Duration of a flush, microseconds. With 0 the filesystem is mounted so that it asks for none, as
    /// for the many networked volumes that have no volatile cache; ext4 alone can be. A log then says that it
    /// guarantees nothing beyond a crash of the process, and one that requires more does not open.
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=A_MINUTE))]
    flush: u64,
    /// Number of requests that the disk serves at once: 1 is one after another.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: u16,
    /// Filesystem on the disk.
    #[arg(long, value_name = "NAME", default_value_t = Filesystem::Ext4)]
    filesystem: Filesystem,
    /// Its size, in memory.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    size: u64,
    /// Command to run. `{}` in it is a directory on that disk.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Args {
    /// The filesystems that it takes.
    pub fn filesystems(&self) -> Vec<Filesystem> {
        vec![self.filesystem]
    }
}

/// Runs it. Ends as the command did.
///
/// # Errors
/// Of the machine, or if the command cannot be started.
pub fn run(args: &Args, home: &Path) -> Result<ExitCode> {
    if args.flush == 0 && args.filesystem.kind() != "ext4" {
        bail!(
            "{} cannot be mounted without flushes: give --flush",
            args.filesystem
        );
    }
    let contents = args.filesystem.make_of(args.size << 20)?;
    let delays = Delays {
        write: Duration::from_micros(args.write),
        flush: Duration::from_micros(args.flush),
        depth: usize::from(args.depth),
    };
    let disk = SlowDisk::on(args.filesystem, &contents, delays, home)?;
    let dir = disk.path().to_string_lossy().into_owned();
    let mut words = args.command.iter().map(|word| word.replace("{}", &dir));
    let program = words.next().context("no command")?;
    let status = std::process::Command::new(&program)
        .args(words)
        .status()
        .with_context(|| program.clone())?;
    if let Err(e) = disk.off() {
        eprintln!("error: {e:#}: does a process of the command still use it?");
    }
    if let Some(signal) = status.signal() {
        return Ok(ExitCode::from(128 + signal as u8));
    }
    Ok(ExitCode::from(
        status
            .code()
            .and_then(|c| u8::try_from(c).ok())
            .unwrap_or(1),
    ))
}
