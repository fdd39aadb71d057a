//! Recorded runs of a subject, with the entries of its ledger.

use crate::ledger::{Entry, SubjectLedger};
use crate::outage::end;
use anyhow::{Result, bail};
use logforce_crashtest::counters::Counters;
use logforce_crashtest::disk::{Recording, Settings};
use logforce_crashtest::outage::{Length, Take};
use logforce_crashtest::testbed::{Filesystem, Image};
use logforce_testkit::Rng;
use std::path::{Path, PathBuf};
use std::process::Child;

/// What reached the disk in a run, and what was promised meanwhile.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Everything that reached the disk.
    pub(crate) recording: Recording,
    /// All entries of each thread.
    entries: Vec<Vec<Entry>>,
}

impl Recorded {
    /// Records what a subject does on a disk that begins as `start`. `spawn` starts it, in a directory and with a
    /// ledger.
    ///
    /// # Errors
    /// Errors of the machine, and if the subject ends badly.
    pub(crate) fn new(
        filesystem: Filesystem,
        start: &Image,
        length: Length,
        home: &Path,
        rng: &mut Rng,
        spawn: impl FnOnce(&Path, PathBuf, &mut Rng) -> Result<Child>,
    ) -> Result<Recorded> {
        let ledger = SubjectLedger::new()?;
        let settings = Settings::honest(rng.bits(), rng.pick(&[0, 30, 50]));
        let take = Take {
            filesystem,
            start,
            counters: ledger.image(),
            length,
            settings,
            home,
        };
        let begin = |dir: &Path| spawn(dir, ledger.path(), rng);
        let (recording, broken) = take.record(begin, |mut subject| end(&mut subject))?;
        if let Some(wrong) = broken.flatten() {
            bail!("while recording: {wrong}");
        }
        Ok(Recorded {
            recording,
            entries: ledger.entries(&ledger.counters()?)?,
        })
    }

    /// Returns the entries of each thread that were there when the event with these counters came.
    pub(crate) fn entries(&self, counters: &Counters) -> Vec<Vec<Entry>> {
        let threads = self.entries.iter().zip(counters);
        threads
            .map(|(entries, count)| entries.iter().take(*count as usize).copied().collect())
            .collect()
    }
}
