//! A process that opens a log again and again, while others do the same.

use crate::ledger::{Entry, Kind, LedgerWriter};
use crate::started::TIMEOUT;
use crate::subject::seam::{Fault, Faulty};
use crate::subject::{Identity, rank};
use anyhow::{Context, Result, bail};
use logforce::{ErrorKind, Log, Method, Options, Tuning};
use logforce_testkit::Rng;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Job of a process that opens a log again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contending {
    /// The log's directory.
    pub dir: PathBuf,
    /// Ledger for what it was promised, as thread 0.
    pub ledger: PathBuf,
    /// The process's own number.
    pub number: u64,
    /// File that exists while a process holds the log. Not on the log's filesystem.
    pub marker: PathBuf,
    /// It ends when this file is there.
    pub stop: PathBuf,
    /// Fault of its system.
    pub fault: Fault,
    /// Seed of all random choices.
    pub seed: u64,
}

/// The session that an opening is: no two have the same number.
pub fn session(number: u64, round: u64) -> u64 {
    number << 16 | round
}

/// Opens, commits a few records and closes, until the suite stops it.
///
/// # Errors
/// If it is refused by anything but `Locked`, or finds another process in the log.
pub fn role_contention(json: &str) -> Result<()> {
    let job: Contending = serde_json::from_str(json)?;
    let mut ledger = LedgerWriter::open(&job.ledger, 0).context("the ledger")?;
    let mut rng = Rng::new(job.seed);
    let system = Faulty::new(job.fault);
    let mut round = 0;
    while !job.stop.exists() && !ledger.is_nearly_full() {
        let options = Options::new()
            .method(rng.pick(&Method::LINUX))
            .require(logforce::Guarantee::Nothing)
            .calibrate(false)
            .segment_size(rng.pick(&[64 << 10, 128 << 10]))
            .tuning(Tuning::new().idle_stamp(Duration::from_millis(5)));
        match logforce::internal::open(&system, &job.dir, options.create(true)) {
            Ok(log) => {
                round += 1;
                let marker = Marker::set(&job.marker)?;
                work(&log, &mut ledger, session(job.number, round), &mut rng)?;
                marker.remove()?;
                if rng.one_in(2) {
                    log.close()?;
                }
            }
            Err(e) if e.kind() == ErrorKind::Locked => ledger.put(Entry::of(Kind::Refused)),
            Err(e) => return Err(e).context("refused by something else than the lock"),
        }
        std::thread::sleep(Duration::from_micros(100 + rng.below(3000)));
    }
    Ok(())
}

/// A few commits of one opening.
fn work(log: &Log, ledger: &mut LedgerWriter, session: u64, rng: &mut Rng) -> Result<()> {
    ledger.put(Entry {
        sequence: session,
        ..Entry::range(Kind::Opened, log.front_lsn().0, log.recovered().end.0)
    });
    for sequence in 0..1 + rng.below(12) {
        let identity = Identity {
            session,
            thread: 0,
            sequence,
            first: sequence,
            count: 1,
        };
        let done = log.commit(&identity.record(100 + rng.below(3000) as usize))?;
        ledger.put(Entry {
            kind: Kind::Acked,
            sequence,
            start: done.start.0,
            end: done.end.0,
            guarantee: rank(done.guarantee),
        });
    }
    ledger.put(Entry::of(Kind::Closing));
    Ok(())
}

/// A file that only the one writer has.
struct Marker<'a>(&'a Path);

impl Marker<'_> {
    /// Makes it. If it is there, its owner must have been killed: then it is there still when the
    /// owner is dead, since only a second writer takes it away.
    fn set(path: &Path) -> Result<Marker<'_>> {
        let own = path.with_extension(std::process::id().to_string());
        fs::write(&own, std::process::id().to_string())?;
        let until = Instant::now() + TIMEOUT / 2;
        let mut before: Option<String> = None;
        loop {
            // With its contents, or not at all.
            let made = fs::hard_link(&own, path);
            let there = fs::read_to_string(path).ok();
            match (made, &before) {
                (Ok(()), None) => break,
                (Ok(()), Some(owner)) => {
                    bail!("two writers at once: process {owner} went on and left the log")
                }
                (Err(_), Some(owner)) if there.as_ref() != Some(owner) => {
                    bail!("two writers at once: process {owner} and another one")
                }
                (Err(_), Some(owner)) if is_dead(owner) => {
                    fs::remove_file(path)?;
                    before = None;
                }
                (Err(_), Some(owner)) if Instant::now() > until => {
                    bail!("two writers at once: process {owner} runs")
                }
                // Gone between the two calls.
                (Err(_), None) if there.is_none() => {
                    bail!("two writers at once: one has just left the log")
                }
                (Err(_), None) => before = there,
                (Err(_), Some(_)) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        fs::remove_file(&own)?;
        Ok(Marker(path))
    }

    fn remove(self) -> Result<()> {
        let owner = fs::read_to_string(self.0).unwrap_or_default();
        if owner != std::process::id().to_string() {
            bail!("two writers at once: process {owner} came meanwhile");
        }
        Ok(fs::remove_file(self.0)?)
    }
}

/// Returns true if a process has ended, reaped or not.
fn is_dead(process: &str) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        return true;
    };
    let state = stat.rsplit(')').next().unwrap_or_default();
    matches!(state.trim_start().chars().next(), Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_of_the_living_is_a_second_writer_and_one_of_the_dead_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("marker");
        let marker = Marker::set(&path).unwrap();
        assert!(!is_dead(&std::process::id().to_string()));
        marker.remove().unwrap();
        assert!(!path.exists());
        // No process has this number.
        fs::write(&path, "4194399").unwrap();
        Marker::set(&path).unwrap().remove().unwrap();
        // A second writer takes it away while it is another process's.
        fs::write(&path, std::process::id().to_string()).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Marker::set(&path).map(|_| ()));
            std::thread::sleep(Duration::from_millis(50));
            fs::remove_file(&path).unwrap();
            let e = second.join().unwrap().unwrap_err();
            assert!(e.to_string().contains("two writers"), "{e}");
        });
    }
}
