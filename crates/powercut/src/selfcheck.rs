//! What the suite has to catch before anything that it finds, or does not find, counts.
//!
//! Disks that lie, programs with known mistakes, and the log itself with every force left out:
//! each must lose something that was acknowledged. Beside the mistakes, the same programs done
//! right must lose nothing.

use crate::ledger::{Kind, SubjectLedger};
use crate::live::{Bench, Chain, Manner, spawn};
use crate::outage::end;
use crate::report::Cell;
use crate::subject::raw::{Program, RawJob, lost};
use crate::subject::seam::Fault;
use anyhow::{Result, bail};
use logforce::{Guarantee, Method};
use logforce_crashtest::disk::{Command, Cut, Flushes, Settings, Survival};
use logforce_crashtest::testbed::Filesystem;
use logforce_crashtest::testbed::{Image, Mounted, Powered, Switched};
use logforce_testkit::Rng;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Cycles within which a mistake has to be caught. Of some, less than one cut in ten takes
/// something.
const ENOUGH: u64 = 200;
/// After each so many that caught nothing the next ones come later.
const LATER_AFTER: u64 = 10;
/// Cycles in which what is right must lose nothing.
const RIGHT: u64 = 6;

/// How one self-check went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// What was planted.
    pub planted: String,
    /// Where.
    pub filesystem: &'static str,
    /// Whether it has to lose something.
    pub wrong: bool,
    /// Cuts.
    pub cycles: u64,
    /// Acknowledged records or blocks, summed over the cuts.
    pub acknowledged: u64,
    /// How many of them were lost.
    pub lost: u64,
    /// Cuts after which the filesystem itself was lost: under a disk that lies that is a loss too.
    pub filesystem_lost: u64,
    /// The disk lies.
    pub lying_disk: bool,
}

impl Checked {
    /// What is wrong is caught, and what is right is not accused.
    pub fn is_as_it_should_be(&self) -> bool {
        let enough = self.cycles > 0 && self.acknowledged > 0;
        enough
            && match (self.wrong, self.lying_disk) {
                (false, _) => self.lost == 0 && self.filesystem_lost == 0,
                (true, false) => self.lost > 0,
                (true, true) => self.lost > 0 || self.filesystem_lost > 0,
            }
    }
}

/// A self-check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The shipped log, used as it should be, on a disk that lies about flushes.
    Disk(Flushes, Cell),
    /// A small program.
    Raw(Program, Filesystem),
    /// The shipped log with the forces of its commits left out below it. It has to open after the
    /// cut, with records missing.
    Forgetful(Cell),
}

/// All of them, for these filesystems.
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
    /// Where it is done.
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

    /// Does it, until something is lost or that should have been enough.
    ///
    /// # Errors
    /// Of the machine.
    pub fn run(&self, home: &Path, seed: u64) -> Result<Checked> {
        let filesystem = self.filesystem();
        let template = filesystem.make()?;
        let bench = Bench::new(filesystem)?;
        let mut rng = Rng::new(seed);
        let mut checked = Checked {
            planted: self.name(),
            filesystem: filesystem.name(),
            wrong: self.is_wrong(),
            cycles: 0,
            acknowledged: 0,
            lost: 0,
            filesystem_lost: 0,
            lying_disk: matches!(self, Check::Disk(..)),
        };
        let cycles = if checked.wrong { ENOUGH } else { RIGHT };
        let place = Place {
            filesystem,
            template: &template,
            bench: &bench,
            home,
        };
        for _ in 0..cycles {
            let seed = rng.bits();
            match *self {
                Check::Raw(program, _) => raw(&place, program, seed, &mut checked)?,
                Check::Disk(flushes, cell) => {
                    log(&place, cell, (flushes, false), seed, &mut checked)?;
                }
                Check::Forgetful(cell) => {
                    log(&place, cell, (Flushes::Honest, true), seed, &mut checked)?;
                }
            }
            if checked.wrong && checked.is_as_it_should_be() {
                break;
            }
        }
        Ok(checked)
    }
}

/// Where it is done.
struct Place<'a> {
    filesystem: Filesystem,
    template: &'a Image,
    bench: &'a Bench,
    home: &'a Path,
}

/// One cycle of the log.
fn log(
    place: &Place<'_>,
    cell: Cell,
    (flushes, forgetful): (Flushes, bool),
    seed: u64,
    checked: &mut Checked,
) -> Result<()> {
    let mut rng = Rng::new(seed);
    let mut chain = Chain::new(cell, place.template, place.bench, place.home, rng.bits())?;
    let ended = chain.cycle(Manner {
        settings: Settings {
            seed: rng.bits(),
            hold: 30,
            flushes,
        },
        fault: if forgetful {
            Fault::Unforced
        } else {
            Fault::None
        },
        claims: Guarantee::PowerLoss,
        // On a machine with other work to do little is acknowledged, and less is there to be lost.
        longer: 1 << (checked.cycles / LATER_AFTER).min(5),
    })?;
    checked.cycles += 1;
    checked.acknowledged += ended.outcome.acknowledged;
    // A log that does not open at all shows nothing of the comparison that finds lost records.
    if ended.outcome.opened || !forgetful {
        checked.lost += ended.outcome.lost;
    }
    checked.filesystem_lost += u64::from(ended.outcome.filesystem_lost.is_some());
    Ok(())
}

/// One cycle of a small program.
fn raw(place: &Place<'_>, program: Program, seed: u64, checked: &mut Checked) -> Result<()> {
    let mut rng = Rng::new(seed);
    let (filesystem, home) = (place.filesystem, place.home);
    let (stable, current) = place.bench.disk();
    stable.copy_from(place.template)?;
    let ledger = SubjectLedger::new()?;
    let switched = Switched {
        filesystem,
        stable,
        current,
        counters: ledger.image(),
        record: None,
        // A sync that overlaps with a write is caught only where writes take their time.
        settings: Settings::honest(
            rng.bits(),
            if program == Program::Overlap { 90 } else { 50 },
        ),
    };
    let mut powered = Powered::on(switched, home, None)?;
    let Some(dir) = powered.mounted() else {
        bail!("{filesystem} is not mounted");
    };
    let mut job = RawJob {
        program,
        dir: dir.join("raw"),
        ledger: ledger.path(),
    };
    let mut process = spawn("raw", &serde_json::to_string(&job)?)?;
    let wanted = 1 + rng.below(20);
    let until = Instant::now() + Duration::from_secs(20);
    while ledger.counters()?[0] < wanted && process.try_wait()?.is_none() {
        if Instant::now() > until {
            bail!("{}: nothing was acknowledged in 20 s", program.name());
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    powered.send(Command::CutAfter {
        writes: 1 + rng.below(6),
        millis: 20,
        loaded: false,
        cut: Cut {
            survival: Survival {
                seed: rng.bits(),
                grain: 4096,
                keep: rng.pick(&[0, 50]),
            },
        },
    })?;
    let report = powered.cut_by_itself()?;
    if let Some(wrong) = end(&mut process)? {
        bail!("{}: {wrong}", program.name());
    }
    powered.off()?;
    checked.cycles += 1;
    filesystem.check_at_boot(stable)?;
    let Ok(mounted) = Mounted::image(filesystem, stable, home) else {
        checked.filesystem_lost += 1;
        return Ok(());
    };
    job.dir = mounted.path().join("raw");
    let mut acknowledged = ledger.entries(&report.counters)?.swap_remove(0);
    acknowledged.retain(|e| e.kind == Kind::Acked);
    checked.acknowledged += acknowledged.len() as u64;
    checked.lost += lost(&job, &acknowledged)?;
    mounted.unmount()
}
