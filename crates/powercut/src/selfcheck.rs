//! Known faults that the suite must catch before its findings count.
//!
//! Disks that lie, programs with known mistakes, and the log without its forces must lose something that was
//! acknowledged. The same programs without the mistakes must lose nothing.

use crate::check::CheckOutcome;
use crate::log::{LogSubject, cuts};
use crate::raw::{self, RawSubject};
use crate::report::Cell;
use crate::subject::raw::Program;
use crate::subject::seam::Fault;
use anyhow::{Result, bail};
use logforce::Method;
use logforce_crashtest::disk::Flushes;
use logforce_crashtest::live::{self, Cuts};
use logforce_crashtest::testbed::Filesystem;
use logforce_testkit::Rng;
use serde::Serialize;
use std::path::Path;

/// Cuts within which a mistake has to be caught. Of some mistakes less than one cut in ten takes something.
const ENOUGH: u64 = 200;
/// Number of cuts that caught nothing, after which the next ones come later.
const LATER_AFTER: u64 = 10;
/// Cuts in which a right program must lose nothing.
const RIGHT: u64 = 6;

/// Result of a self-check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Description of the fault.
    pub planted: String,
    /// Name of the filesystem.
    pub filesystem: &'static str,
    /// True if something must be lost.
    pub wrong: bool,
    /// Cuts.
    pub cycles: u64,
    /// Acknowledged records or blocks, summed over the cuts.
    pub acknowledged: u64,
    /// Lost records or blocks.
    pub lost: u64,
    /// Cuts after which the filesystem itself was lost. On a disk that lies that is a loss too.
    pub filesystem_lost: u64,
    /// True if the disk lies.
    pub lying_disk: bool,
}

impl Checked {
    /// Returns true if a fault was caught, or a right program was not accused.
    pub fn is_as_it_should_be(&self) -> bool {
        let enough = self.cycles > 0 && self.acknowledged > 0;
        enough
            && match (self.wrong, self.lying_disk) {
                (false, _) => self.lost == 0 && self.filesystem_lost == 0,
                (true, false) => self.lost > 0,
                (true, true) => self.lost > 0 || self.filesystem_lost > 0,
            }
    }

    /// Adds the check after a cut.
    fn add(&mut self, outcome: &CheckOutcome, lost: u64) {
        self.cycles += 1;
        self.acknowledged += outcome.acknowledged;
        self.lost += lost;
        self.filesystem_lost += u64::from(outcome.filesystem_lost.is_some());
    }

    fn goes_on(&self) -> bool {
        match self.wrong {
            true => self.cycles < ENOUGH && !self.is_as_it_should_be(),
            false => self.cycles < RIGHT,
        }
    }
}

/// A self-check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The shipped log on a disk that lies about flushes.
    Disk(Flushes, Cell),
    /// A small program.
    Raw(Program, Filesystem),
    /// The shipped log over a system without the forces of its commits. It has to open after the cut, with records
    /// missing.
    Forgetful(Cell),
}

/// Returns all self-checks of these filesystems.
pub fn all(cells: &[Cell], filesystems: &[Filesystem]) -> Vec<Check> {
    let mut checks = Vec::new();
    for &filesystem in filesystems {
        let cell = Cell::new(filesystem, Method::Fdatasync);
        checks.push(Check::Disk(Flushes::Ignored, cell));
        checks.push(Check::Disk(Flushes::Unknown, cell));
        for program in Program::WRONG.into_iter().chain(Program::RIGHT) {
            if program.shows_on(filesystem) {
                checks.push(Check::Raw(program, filesystem));
            }
        }
    }
    checks.extend(cells.iter().map(|c| Check::Forgetful(*c)));
    checks
}

impl Check {
    /// Returns the filesystem.
    pub fn filesystem(&self) -> Filesystem {
        match self {
            Check::Disk(_, cell) | Check::Forgetful(cell) => cell.filesystem,
            Check::Raw(_, filesystem) => *filesystem,
        }
    }

    fn name(&self) -> String {
        match self {
            Check::Disk(Flushes::Ignored, _) => "a disk that ignores flushes".to_owned(),
            Check::Disk(Flushes::Unknown, _) => "a disk that does not know flushes".to_owned(),
            Check::Disk(Flushes::Honest, _) => "an honest disk".to_owned(),
            Check::Raw(program, _) => program.name().to_owned(),
            Check::Forgetful(cell) => {
                format!("the log by {}, its commits not forced", cell.method())
            }
        }
    }

    fn is_wrong(&self) -> bool {
        !matches!(self, Check::Raw(program, _) if Program::RIGHT.contains(program))
    }

    /// Cuts the power until something is lost or that should have happened.
    ///
    /// # Errors
    /// Errors of the machine, and if a small program ends badly.
    pub fn run(&self, home: &Path, seed: u64) -> Result<Checked> {
        let mut checked = Checked {
            planted: self.name(),
            filesystem: self.filesystem().name(),
            wrong: self.is_wrong(),
            cycles: 0,
            acknowledged: 0,
            lost: 0,
            filesystem_lost: 0,
            lying_disk: matches!(self, Check::Disk(..)),
        };
        match *self {
            Check::Raw(program, filesystem) => {
                let subject = RawSubject::new(program, filesystem, home)?;
                live::cuts(&subject, &raw::cuts(program), seed, &mut |case| {
                    if let Some(wrong) = case.wrong {
                        bail!("{}: {wrong}", program.name());
                    }
                    checked.add(&case.checked, case.checked.lost);
                    Ok(checked.goes_on())
                })?;
            }
            Check::Disk(flushes, cell) => {
                log(cell, flushes, Fault::None, home, seed, &mut checked)?;
            }
            Check::Forgetful(cell) => {
                let fault = Fault::Unforced;
                log(cell, Flushes::Honest, fault, home, seed, &mut checked)?;
            }
        }
        Ok(checked)
    }
}

/// Cuts the power of fresh logs.
fn log(
    cell: Cell,
    flushes: Flushes,
    fault: Fault,
    home: &Path,
    seed: u64,
    checked: &mut Checked,
) -> Result<()> {
    let subject = LogSubject::new(cell, fault, home)?;
    let mut rng = Rng::new(seed);
    while checked.goes_on() {
        // On a busy machine little is acknowledged, and less can be lost.
        let longer = 1 << (checked.cycles / LATER_AFTER).min(5);
        let cuts = Cuts {
            flushes,
            holds: &[30],
            chain: 1,
            ..cuts(cell.filesystem, longer)
        };
        live::cuts(&subject, &cuts, rng.bits(), &mut |case| {
            // A log that does not open at all shows nothing of the comparison that finds lost records.
            let shows = case.checked.opened || fault == Fault::None;
            checked.add(&case.checked, if shows { case.checked.lost } else { 0 });
            Ok(checked.goes_on() && !checked.cycles.is_multiple_of(LATER_AFTER))
        })?;
    }
    Ok(())
}
