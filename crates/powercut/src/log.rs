//! The log under power cuts.

use crate::bench::Bench;
use crate::check::{CheckOutcome, Promises, Session, check, damage};
use crate::ledger::Entry;
use crate::report::{Cell, Coverage, Sink};
use crate::started::{Role, Started, Workload};
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce::Method;
use logforce_crashtest::counters::Counters;
use logforce_crashtest::disk::Flushes;
use logforce_crashtest::live::{self, Cuts, Moment};
use logforce_crashtest::parts::Part;
use logforce_crashtest::states::{self, Recordings, Take};
use logforce_crashtest::subject::{Case, Outcome, Session as Claims, Site, Subject};
use logforce_crashtest::testbed::{Filesystem, Image, Mounted};
use logforce_testkit::Rng;
use std::path::Path;

/// Recordings in a row: of a new log, of a recovery, of a repair.
const RECORDINGS: u64 = 3;

/// Largest number of states that are built from one recording.
const OF_ONE: u64 = 200;

/// The methods that force.
pub const DURABLE: [Method; 5] = [
    Method::Fsync,
    Method::Fdatasync,
    Method::Dsync,
    Method::DirectFdatasync,
    Method::DirectDsync,
];

/// Returns the filesystems and methods that must survive a power cut. A filesystem that journals its data offers no
/// direct I/O.
pub fn cells(filesystems: &[Filesystem], methods: &[Method]) -> Vec<Cell> {
    let offered = |cell: &Cell| {
        cell.filesystem != Filesystem::Ext4DataJournal || !cell.method().plan().direct
    };
    let all = filesystems
        .iter()
        .flat_map(|f| methods.iter().map(|m| Cell::new(*f, *m)));
    all.filter(offered).collect()
}

/// Log on one filesystem, written by one method.
pub struct LogSubject<'a> {
    bench: Bench<'a>,
    cell: Cell,
    fault: Fault,
}

impl<'a> LogSubject<'a> {
    /// Makes the filesystem. `fault` is that of the system below the log.
    ///
    /// # Errors
    /// Errors of the machine.
    pub fn new(cell: Cell, fault: Fault, home: &'a Path) -> Result<LogSubject<'a>> {
        Ok(LogSubject {
            bench: Bench::new(cell.filesystem, home)?,
            cell,
            fault,
        })
    }
}

impl Subject for LogSubject<'_> {
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

    fn start(&self, mounted: &Path, before: &Promises, seed: u64) -> Result<Started> {
        let (dir, method) = (mounted.join("log"), self.cell.method());
        let mut workload = Workload::new(&dir, method, before.last + 1, seed);
        workload.job.demanding = true;
        workload.job.fault = self.fault;
        workload.job.repairs = before.cut.is_some();
        self.bench.start(Role::Work, &workload)
    }

    fn end(&self, mut running: Started, _: &Counters) -> Result<Option<String>> {
        running.end(false)
    }

    fn entries(&self) -> Result<Vec<Vec<Entry>>> {
        self.bench.entries()
    }

    fn promise(&self, promised: &mut Promises, session: &Claims<'_, Entry>) {
        let owned = |lists: &[&[Entry]]| lists.iter().map(|list| list.to_vec()).collect();
        promised.add(Session {
            number: promised.last + 1,
            claimed: owned(&session.claimed),
            all: owned(&session.all),
        });
    }

    fn is_promised(promised: &Promises) -> bool {
        let has_begun = |s: &Session| s.claimed.iter().any(|thread| !thread.is_empty());
        promised.log_must_exist() || promised.sessions.iter().any(has_begun)
    }

    fn check(
        &self,
        mounted: &Path,
        promised: &Promises,
    ) -> Result<(CheckOutcome, Option<Promises>)> {
        let mut promised = promised.clone();
        let outcome = check(&mounted.join("log"), self.cell.opening(), &mut promised)?;
        Ok((outcome, Some(promised)))
    }

    /// Damages the log before the last recording of a row, which repairs it.
    fn prepare(&self, number: usize, state: &Image, promised: &mut Promises) -> Result<bool> {
        if number as u64 + 1 < RECORDINGS {
            return Ok(true);
        }
        let copy = Image::new(state.len())?;
        copy.copy_from(state)?;
        let (outcome, Some(shown)) = self.check_image(&copy, promised)? else {
            return Ok(false);
        };
        if !outcome.opened || !outcome.is_whole() {
            return Ok(false);
        }
        *promised = shown;
        let (filesystem, home) = (self.cell.filesystem, self.bench.site().home);
        let damaged = Mounted::visit(filesystem, state, home, |mounted| {
            damage(&mounted.join("log"), promised, &mut Rng::new(promised.last))
        })?;
        Ok(damaged.unwrap_or(false))
    }
}

/// Returns the volume and the odds of live cuts. `longer` multiplies the time until the cut.
pub(crate) fn cuts(filesystem: Filesystem, longer: u64) -> Cuts {
    // A mount and a recovery are some ten writes, on a filesystem with a journal some more. Little is unflushed for
    // long meanwhile: many of these cuts take only the write during which they come.
    let early = |writes| Moment {
        writes,
        millis: 150 * longer..150 * longer + 1,
        any_write: 2,
    };
    Cuts {
        flushes: Flushes::Honest,
        holds: &[0, 30, 50, 50],
        grains: filesystem.grains(),
        chain: 6,
        early_in: 2,
        early: [12, 40, 150].map(early).into(),
        work: vec![Moment {
            writes: 1200,
            millis: 40 * longer..200 * longer,
            any_write: 4,
        }],
    }
}

/// Returns the volume and the odds of the recordings for a number of states.
fn recordings(states: u64) -> Recordings {
    let rows = states.div_ceil(RECORDINGS * OF_ONE).max(1);
    let take = Take {
        writes: 1500,
        millis: 400,
        states: states.div_ceil(RECORDINGS * rows),
    };
    // A repair, and the beginning of the work after it. It gets more states, because a row may end before it.
    let repair = Take {
        writes: 150,
        states: 3 * take.states / 2,
        ..take
    };
    Recordings {
        row: vec![take, take, repair],
        holds: &[0, 30, 50],
        unpromised: 2,
    }
}

/// Cuts the power of one cell until `wanted` cuts count or the sink has enough.
///
/// # Errors
/// Errors of the machine.
pub fn run(part: Part, cell: Cell, wanted: u64, home: &Path, seed: u64, sink: &Sink) -> Result<()> {
    if wanted == 0 || sink.is_over() {
        return Ok(());
    }
    let subject = LogSubject::new(cell, Fault::None, home)?;
    let (mut counted, mut tried) = (0, 0);
    let mut take = |case: Case<'_, LogSubject<'_>>| {
        if let Some(session) = case.promised.sessions.last() {
            sink.session(Coverage::of(session, case.met.in_flight, case.grain));
        }
        sink.session(Coverage::of_repair(&case.checked));
        let outcome = case.checked.after_cut(case.wrong, case.grain);
        counted += u64::from(sink.cut(cell, outcome, case.met));
        tried += 1;
        // A subject that cannot work never makes a cut count: then the row has too few.
        Ok(counted < wanted && tried < 20 * wanted + 1000 && !sink.is_over())
    };
    match part {
        Part::States => states::states(&subject, &recordings(wanted), seed, &mut take),
        _ => live::cuts(&subject, &cuts(cell.filesystem, 1), seed, &mut take),
    }
}
