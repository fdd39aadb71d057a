//! Storage engines as workloads of `logforce crashtest`: keys 1, 2, 3, … whose values follow from their keys.
//!
//! - This file has the three roles: creating, working, and checking what a power cut left.
//! - `modes` lists the engines with their settings; each engine has a file.

mod lmdb;
mod modes;
mod raft_engine;
mod redb;
mod sled;
mod sqlite;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use modes::{MODES, Mode};
use std::fs::File;
use std::io::Write;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// An open store.
trait Engine {
    /// Stores one value in a transaction, and returns when it is as durable as the mode promises.
    fn put(&mut self, key: u64, value: &[u8]) -> Result<()>;

    /// Passes all keys with their values to `see`, in order.
    fn scan(&self, see: &mut dyn FnMut(u64, &[u8])) -> Result<()>;
}

/// Workload of a storage engine, for `logforce crashtest`.
#[derive(Parser)]
#[command(name = "engines")]
struct Args {
    /// Engine and settings
    #[arg(value_parser = mode)]
    mode: &'static Mode,
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Creates an empty store
    Create { dir: PathBuf },
    /// Stores values without end, and prints each key when the engine has committed it
    Work { dir: PathBuf },
    /// Opens the store, and exits with 1 if something acknowledged is missing or damaged
    Check {
        dir: PathBuf,
        /// File with the printed keys
        acked: PathBuf,
    },
}

fn mode(name: &str) -> Result<&'static Mode> {
    let names = || MODES.each_ref().map(|m| m.name).join(", ");
    let found = MODES.iter().find(|m| m.name == name);
    found.with_context(|| format!("no such mode; the modes are {}", names()))
}

/// Runs the program. The status is 1 only for a loss; if the engine does not open, it is 2.
pub fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(loss)) => {
            eprintln!("{loss}");
            ExitCode::from(1)
        }
        Err(e) => {
            eprintln!("engines {}: {e:#}", args.mode.name);
            ExitCode::from(2)
        }
    }
}

/// Runs the role; returns the loss that a check found.
fn run(args: &Args) -> Result<Option<String>> {
    let open = |dir: &Path| (args.mode.open)(dir).context("opening the store");
    match &args.role {
        Role::Create { dir } => open(dir).map(|_| None),
        Role::Work { dir } => work(open(dir)?, &args.mode.sizes),
        Role::Check { dir, acked } => {
            let acked = last_acknowledged(acked)?;
            check(&*open(dir)?, &args.mode.sizes, acked)
        }
    }
}

/// Continues after the last key. Returns only with an error.
fn work(mut engine: Box<dyn Engine>, sizes: &RangeInclusive<usize>) -> Result<Option<String>> {
    let mut key = 0;
    engine.scan(&mut |found, _| key = found)?;
    // Not through a buffer: each line has to be one write(2).
    let mut acks = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    loop {
        key += 1;
        engine.put(key, &value(key, sizes))?;
        acks.write_all(format!("{key}\n").as_bytes())
            .context("acknowledging")?;
    }
}

/// Returns the last key in the file, or 0.
fn last_acknowledged(path: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut last = 0;
    for line in text.lines() {
        let key = line
            .parse()
            .with_context(|| format!("acknowledged: {line}"))?;
        if key <= last {
            bail!("{key} is acknowledged after {last}");
        }
        last = key;
    }
    Ok(last)
}

/// Returns what is wrong, if the store does not hold all keys up to `acked`, in order, with their values.
/// Later keys may be there too.
fn check(engine: &dyn Engine, sizes: &RangeInclusive<usize>, acked: u64) -> Result<Option<String>> {
    let mut last = 0;
    let mut wrong = None;
    engine.scan(&mut |key, found| {
        if key != last + 1 {
            wrong.get_or_insert(format!("key {key} follows {last}"));
        } else if found != value(key, sizes) {
            wrong.get_or_insert(format!("the value of key {key} is damaged"));
        }
        last = key;
    })?;
    if wrong.is_none() && last < acked {
        let missing = acked - last;
        wrong = Some(format!("{missing} missing, the first is {}", last + 1));
    }
    Ok(wrong)
}

/// Returns the value of a key: the key itself, then noise. Its length follows from the key as well.
fn value(key: u64, sizes: &RangeInclusive<usize>) -> Vec<u8> {
    // SplitMix64.
    let mut state = key;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let spread = (sizes.end() - sizes.start() + 1) as u64;
    let len = sizes.start() + (random() % spread) as usize;
    let mut value = key.to_be_bytes().to_vec();
    while value.len() < len {
        value.extend(random().to_le_bytes());
    }
    value.truncate(len);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores keys with the engine, opens it anew, and returns the verdict of a check.
    fn checked(mode: &Mode, keys: &[u64], acked: u64) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = (mode.open)(dir.path()).unwrap();
        for key in keys {
            engine.put(*key, &value(*key, &mode.sizes)).unwrap();
        }
        drop(engine);
        check(&*(mode.open)(dir.path()).unwrap(), &mode.sizes, acked).unwrap()
    }

    #[test]
    fn every_mode_returns_what_it_stored_and_the_check_finds_what_is_missing() {
        for mode in &MODES {
            assert_eq!(checked(mode, &[], 0), None, "{}", mode.name);
            assert_eq!(checked(mode, &[1, 2, 3], 2), None, "{}", mode.name);
            let lost = checked(mode, &[1, 2, 3], 5);
            assert_eq!(lost.unwrap(), "2 missing, the first is 4", "{}", mode.name);
        }
    }

    #[test]
    fn a_gap_and_a_damaged_value_are_found() {
        let mode = mode("sqlite-wal-full").unwrap();
        assert_eq!(checked(mode, &[1, 3], 1).unwrap(), "key 3 follows 1");
        let dir = tempfile::tempdir().unwrap();
        let mut engine = (mode.open)(dir.path()).unwrap();
        engine.put(1, b"other").unwrap();
        let found = check(&*engine, &mode.sizes, 0).unwrap().unwrap();
        assert_eq!(found, "the value of key 1 is damaged");
    }
}
