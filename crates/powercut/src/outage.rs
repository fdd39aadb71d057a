//! A session of a subject on a disk whose plug is pulled.

use crate::disk::{Command, CutReport};
use crate::ledger::Entry;
use crate::testbed::{Powered, Switched};
use anyhow::Result;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Maximum time in which a subject notices that its disk is gone.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What is switched on, and when the power goes.
pub(crate) struct Outage<'a> {
    /// The disk.
    pub(crate) switched: Switched<'a>,
    /// Says when the power goes.
    pub(crate) cut: Command,
    /// Sent to the disk before it is mounted: the power may go while the filesystem replays its
    /// journal.
    pub(crate) early: bool,
    /// For mount points.
    pub(crate) home: &'a Path,
}

/// Result of an outage.
pub(crate) struct OutageOutcome {
    /// What the disk reported of the cut.
    pub(crate) report: CutReport,
    /// The entries of each thread that were there before the cut.
    pub(crate) claimed: Vec<Vec<Entry>>,
    /// All entries.
    pub(crate) all: Vec<Vec<Entry>>,
    /// What was wrong with how the subject ended.
    pub(crate) broken: Option<String>,
}

impl Outage<'_> {
    /// Switches the disk on, has `start` start a subject in the mounted directory, and waits for
    /// the cut.
    ///
    /// # Errors
    /// Of the machine.
    pub(crate) fn run(self, start: impl FnOnce(&Path) -> Result<Child>) -> Result<OutageOutcome> {
        let Outage {
            switched,
            cut,
            early,
            home,
        } = self;
        let mut powered = Powered::on(switched, home, early.then_some(cut))?;
        let mut subject = powered.mounted().map(start).transpose()?;
        if !early {
            powered.send(cut)?;
        }
        let report = powered.cut_by_itself()?;
        let broken = match &mut subject {
            Some(subject) => end(subject)?,
            None => None,
        };
        powered.off()?;
        let ledger = switched.ledger;
        Ok(OutageOutcome {
            claimed: ledger.entries(&report.counters)?,
            all: ledger.entries(&ledger.counters()?)?,
            report,
            broken,
        })
    }
}

/// Waits for a subject whose disk is gone. Returns what was wrong with how it ended.
///
/// # Errors
/// Of the system.
pub fn end(subject: &mut Child) -> Result<Option<String>> {
    let until = Instant::now() + TIMEOUT;
    while Instant::now() < until {
        if let Some(status) = subject.try_wait()? {
            let bad = status.signal().is_some() || status.code() == Some(101);
            return Ok(bad.then(|| format!("the subject panicked or crashed: {status}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    subject.kill()?;
    subject.wait()?;
    Ok(Some("the subject hung when its disk was gone".to_owned()))
}
