//! The small programs under power cuts.

use crate::bench::Bench;
use crate::check::CheckOutcome;
use crate::ledger::{Entry, Kind};
use crate::started::{Role, Started, Waited, ledger_path};
use crate::subject::raw::{Program, RawJob, lost};
use anyhow::{Result, bail};
use logforce_crashtest::counters::Counters;
use logforce_crashtest::disk::Flushes;
use logforce_crashtest::live::{Cuts, Moment};
use logforce_crashtest::subject::{Session, Site, Subject};
use logforce_crashtest::testbed::Filesystem;
use std::path::Path;

/// Small program on one filesystem.
pub(crate) struct RawSubject<'a> {
    bench: Bench<'a>,
    program: Program,
}

impl<'a> RawSubject<'a> {
    pub(crate) fn new(
        program: Program,
        filesystem: Filesystem,
        home: &'a Path,
    ) -> Result<RawSubject<'a>> {
        Ok(RawSubject {
            bench: Bench::new(filesystem, home)?,
            program,
        })
    }

    fn job(&self, mounted: &Path) -> RawJob {
        RawJob {
            program: self.program,
            dir: mounted.join("raw"),
            ledger: ledger_path(),
        }
    }
}

impl Subject for RawSubject<'_> {
    type Running = Started;
    type Entry = Entry;
    /// Acknowledged blocks.
    type Promised = Vec<Entry>;
    type Checked = CheckOutcome;

    fn site(&self) -> Site<'_> {
        self.bench.site()
    }

    fn begin(&self) -> Result<()> {
        self.bench.begin()
    }

    /// Returns when some blocks are acknowledged.
    fn start(&self, mounted: &Path, _: &Vec<Entry>, seed: u64) -> Result<Started> {
        let mut running = self.bench.start(Role::Raw, &self.job(mounted))?;
        if running.until(Kind::Acked, 1 + seed % 20)? == Waited::Hung {
            bail!("{}: nothing was acknowledged", self.program.name());
        }
        Ok(running)
    }

    fn end(&self, mut running: Started, _: &Counters) -> Result<Option<String>> {
        running.end(false)
    }

    fn entries(&self) -> Result<Vec<Vec<Entry>>> {
        self.bench.entries()
    }

    fn promise(&self, promised: &mut Vec<Entry>, session: &Session<'_, Entry>) {
        let acked = session.claimed[0].iter().filter(|e| e.kind == Kind::Acked);
        promised.extend(acked);
    }

    fn is_promised(promised: &Vec<Entry>) -> bool {
        !promised.is_empty()
    }

    fn check(
        &self,
        mounted: &Path,
        promised: &Vec<Entry>,
    ) -> Result<(CheckOutcome, Option<Vec<Entry>>)> {
        let outcome = CheckOutcome {
            acknowledged: promised.len() as u64,
            lost: lost(&self.job(mounted), promised)?,
            ..CheckOutcome::default()
        };
        Ok((outcome, None))
    }
}

/// Returns the odds of the cuts. They tear nothing: the programs write whole blocks.
pub(crate) fn cuts(program: Program) -> Cuts {
    Cuts {
        flushes: Flushes::Honest,
        // A sync that overlaps with a write is caught only if writes take time.
        holds: if program == Program::Overlap {
            &[90]
        } else {
            &[50]
        },
        grains: &[4096],
        chain: 1,
        early_in: 1,
        early: Vec::new(),
        work: vec![Moment {
            writes: 6,
            millis: 20..21,
            any_write: 1,
        }],
    }
}
