//! The outages of a subject, with the entries of its ledger.

use crate::ledger::{Entry, SubjectLedger};
use anyhow::Result;
use logforce_crashtest::disk::CutReport;
use logforce_crashtest::outage::Outage;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Maximum time in which a subject notices that its disk is gone.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Result of an outage.
pub(crate) struct OutageOutcome {
    /// Report of the disk.
    pub(crate) report: CutReport,
    /// Entries of each thread that were written before the cut.
    pub(crate) claimed: Vec<Vec<Entry>>,
    /// All entries of each thread.
    pub(crate) all: Vec<Vec<Entry>>,
    /// Description of how the subject ended, if that was wrong.
    pub(crate) broken: Option<String>,
}

/// Runs an outage of the subject that `start` starts.
///
/// # Errors
/// Errors of the machine.
pub(crate) fn run(
    outage: Outage<'_>,
    ledger: &SubjectLedger,
    start: impl FnOnce(&Path) -> Result<Child>,
) -> Result<OutageOutcome> {
    let (report, broken) = outage.run(start, |mut subject| end(&mut subject))?;
    Ok(OutageOutcome {
        claimed: ledger.entries(&report.counters)?,
        all: ledger.entries(&ledger.counters()?)?,
        report,
        broken: broken.flatten(),
    })
}

/// Waits for a subject whose disk is gone. Returns a description of how it ended if that was wrong.
///
/// # Errors
/// System errors.
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
