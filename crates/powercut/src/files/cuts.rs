//! Power cuts of the engine on a durable file, and states that one could have left of a recorded run.

use super::{Job, Layout, Promises, check};
use crate::bench::Bench;
use crate::check::CheckOutcome;
use crate::ledger::Entry;
use crate::pages::Counts;
use crate::started::{Role, Started, ledger_path};
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce_crashtest::counters::Counters;
use logforce_crashtest::disk::Flushes;
use logforce_crashtest::live::{self, Cuts, Moment};
use logforce_crashtest::parts::Part;
use logforce_crashtest::states::{self, Recordings, Take};
use logforce_crashtest::subject::{Case, Session, Site, Subject};
use logforce_crashtest::testbed::Filesystem;
use std::path::Path;

/// Percentages of writes that the disk holds in flight.
const HOLDS: [u64; 3] = [0, 30, 50];

/// Largest number of states that are built from one recording.
const OF_ONE: u64 = 150;

/// File on one filesystem, in one layout.
struct FileSubject<'a> {
    bench: Bench<'a>,
    layout: Layout,
    fault: Fault,
}

impl Subject for FileSubject<'_> {
    type Running = Started;
    type Entry = Entry;
    type Promised = Promises;
    type Checked = CheckOutcome;

    fn site(&self) -> Site<'_> {
        self.bench.site()
    }

    fn begin(&self) -> Result<()> {
        self.bench.begin()
    }

    fn start(&self, mounted: &Path, _: &Promises, seed: u64) -> Result<Started> {
        let job = Job {
            dir: mounted.join("files"),
            ledger: ledger_path(),
            layout: self.layout,
            // On ext4 without a journal a power cut may take back blocks of a file that grows, although they were
            // synced (docs/durability.md, A8).
            grows: self.site().filesystem != Filesystem::Ext4NoJournal,
            seed,
            fault: self.fault,
        };
        self.bench.start(Role::FileWork, &job)
    }

    fn end(&self, mut running: Started, _: &Counters) -> Result<Option<String>> {
        running.end(false)
    }

    fn entries(&self) -> Result<Vec<Vec<Entry>>> {
        self.bench.entries()
    }

    fn promise(&self, promised: &mut Promises, session: &Session<'_, Entry>) {
        promised.add(&session.claimed, &session.all);
    }

    fn is_promised(promised: &Promises) -> bool {
        promised.exists
    }

    fn check(
        &self,
        mounted: &Path,
        promised: &Promises,
    ) -> Result<(CheckOutcome, Option<Promises>)> {
        let mut promised = promised.clone();
        let outcome = check(&mounted.join("files"), self.layout, &mut promised);
        Ok((outcome, Some(promised)))
    }
}

/// Cuts the power until `wanted` cuts count or something breaks.
///
/// # Errors
/// Errors of the machine.
pub fn run(
    part: Part,
    filesystem: Filesystem,
    layout: Layout,
    fault: Fault,
    wanted: u64,
    home: &Path,
    seed: u64,
) -> Result<Counts> {
    let subject = FileSubject {
        bench: Bench::new(filesystem, home)?,
        layout,
        fault,
    };
    let mut counts = Counts::default();
    let mut take = |case: Case<'_, FileSubject<'_>>| {
        let outcome = case.checked.after_cut(case.wrong, case.grain);
        counts.take(outcome, case.met.unflushed_sectors > 0);
        // A subject that cannot work never makes a cut count.
        let tried = counts.counted + counts.empty;
        Ok(counts.counted < wanted && tried < 10 * wanted + 750 && counts.broken.is_empty())
    };
    match part {
        Part::States => states::states(&subject, &recordings(wanted), seed, &mut take)?,
        _ => live::cuts(&subject, &cuts(filesystem), seed, &mut take)?,
    }
    Ok(counts)
}

fn cuts(filesystem: Filesystem) -> Cuts {
    Cuts {
        flushes: Flushes::Honest,
        holds: &HOLDS,
        grains: filesystem.grains(),
        chain: 5,
        early_in: 3,
        early: vec![Moment {
            writes: 60,
            millis: 100..101,
            any_write: 4,
        }],
        work: vec![Moment {
            writes: 900,
            millis: 40..160,
            any_write: 4,
        }],
    }
}

fn recordings(states: u64) -> Recordings {
    Recordings {
        row: vec![Take {
            writes: 1200,
            millis: 300,
            states: OF_ONE.min(states),
        }],
        holds: &HOLDS,
        unpromised: 1,
    }
}
