//! Recording a run, write by write.

use crate::disk::{Command, Cut, Recording, Settings, Survival};
use crate::ledger::{Counters, Entry, SubjectLedger};
use crate::outage::Outage;
use crate::testbed::{Filesystem, Image, Switched};
use anyhow::{Result, bail};
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

/// How long a recording is: whichever comes first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    /// Writes.
    pub(crate) writes: u64,
    /// Milliseconds.
    pub(crate) millis: u64,
}

impl Recorded {
    /// Records what a subject does on a disk that begins as `start`. `spawn` starts it, in a
    /// directory and with a ledger.
    ///
    /// # Errors
    /// Of the machine, and if the subject ends badly.
    pub(crate) fn new(
        filesystem: Filesystem,
        start: &Image,
        length: Length,
        home: &Path,
        rng: &mut Rng,
        spawn: impl FnOnce(&Path, PathBuf, &mut Rng) -> Result<Child>,
    ) -> Result<Recorded> {
        let (ledger, record) = (SubjectLedger::new()?, Image::new(0)?);
        // What a machine does before it mounts what a cut left.
        filesystem.check_at_boot(start)?;
        let (stable, current) = (Image::new(start.len())?, Image::new(start.len())?);
        stable.copy_from(start)?;
        let outage = Outage {
            switched: Switched {
                filesystem,
                stable: &stable,
                current: &current,
                ledger: &ledger,
                record: Some(&record),
                settings: Settings::honest(rng.bits(), rng.pick(&[0, 30, 50])),
            },
            cut: Command::CutAfter {
                writes: length.writes,
                millis: length.millis,
                loaded: false,
                cut: Cut {
                    survival: Survival {
                        seed: 0,
                        grain: 4096,
                        keep: 0,
                    },
                },
            },
            early: false,
            home,
        };
        let outcome = outage.run(|dir| spawn(dir, ledger.path(), rng))?;
        if let Some(wrong) = outcome.broken {
            bail!("while recording: {wrong}");
        }
        Ok(Recorded {
            recording: Recording::read(&record)?,
            entries: outcome.all,
        })
    }

    /// The entries of each thread that were there when the event with these counters came.
    pub(crate) fn entries(&self, counters: &Counters) -> Vec<Vec<Entry>> {
        let threads = self.entries.iter().zip(counters);
        threads
            .map(|(entries, count)| entries.iter().take(*count as usize).copied().collect())
            .collect()
    }
}
