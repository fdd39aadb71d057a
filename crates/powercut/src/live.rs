//! Live cuts: the plug is pulled while the subject works, and what is left is checked.
//!
//! Cycles come in chains on one disk. After each cut the survivor is checked, either in place,
//! so that the next session starts from a log that was recovered undisturbed, or in a copy, so that the
//! next session has to recover it on a disk whose plug is pulled again, perhaps meanwhile.

use crate::check::{CheckOutcome, Opening, Promises, Session, check};
use crate::ledger::SubjectLedger;
use crate::outage;
use crate::report::{Cell, Coverage, Cycle, Ended, Sink};
use crate::subject::Job;
use crate::subject::seam::Fault;
use anyhow::{Context, Result};
use logforce::{Guarantee, Method};
use logforce_crashtest::disk::{Command, Cut, Settings, Survival};
use logforce_crashtest::outage::Outage;
use logforce_crashtest::testbed::{Filesystem, Image, Mounted, Switched};
use logforce_testkit::Rng;
use std::path::Path;
use std::process::{Child, Stdio};

/// Cycles of a chain.
const CHAIN: usize = 6;

/// The filesystems and methods that must survive a power cut. A filesystem that journals its
/// data offers no direct I/O, so no method that needs it.
pub fn cells(filesystems: &[Filesystem], methods: &[Method]) -> Vec<Cell> {
    let offered = |cell: &Cell| {
        cell.filesystem != Filesystem::Ext4DataJournal || !cell.method().plan().direct
    };
    let all = filesystems
        .iter()
        .flat_map(|f| methods.iter().map(|m| Cell::new(*f, *m)));
    all.filter(offered).collect()
}

/// The methods that force.
pub const DURABLE: [Method; 5] = [
    Method::Fsync,
    Method::Fdatasync,
    Method::Dsync,
    Method::DirectFdatasync,
    Method::DirectDsync,
];

/// How the disk and the subject of a cycle behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// The disk.
    pub settings: Settings,
    /// The subject omits every force.
    pub fault: Fault,
    /// The guarantee that an acknowledgement must keep.
    pub claims: Guarantee,
    /// So many times the usual time until the cut.
    pub longer: u64,
}

/// The images that a chain of cycles uses, made once.
#[derive(Debug)]
pub struct Bench {
    stable: Image,
    current: Image,
    scratch: Image,
}

impl Bench {
    /// For one filesystem.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn new(filesystem: Filesystem) -> Result<Bench> {
        let image = || Image::new(filesystem.size());
        Ok(Bench {
            stable: image()?,
            current: image()?,
            scratch: image()?,
        })
    }
}

impl Bench {
    /// What is stable, and room for a copy of it.
    pub fn disk(&self) -> (&Image, &Image) {
        (&self.stable, &self.current)
    }
}

/// A disk that goes through several sessions and cuts.
#[derive(Debug)]
pub struct Chain<'a> {
    cell: Cell,
    bench: &'a Bench,
    home: &'a Path,
    promises: Promises,
    rng: Rng,
    session: u64,
}

impl<'a> Chain<'a> {
    /// Starts from a fresh filesystem.
    ///
    /// # Errors
    /// Of the machine.
    pub fn new(
        cell: Cell,
        template: &Image,
        bench: &'a Bench,
        home: &'a Path,
        seed: u64,
    ) -> Result<Self> {
        bench.stable.copy_from(template)?;
        Ok(Chain {
            cell,
            bench,
            home,
            promises: Promises::default(),
            rng: Rng::new(seed),
            session: 0,
        })
    }

    /// Runs one session, cuts the power, and checks what is left.
    ///
    /// # Errors
    /// Of the machine, not of the log.
    pub fn cycle(&mut self, manner: Manner) -> Result<Ended> {
        self.session += 1;
        let ledger = SubjectLedger::new()?;
        let switched = Switched {
            filesystem: self.cell.filesystem,
            stable: &self.bench.stable,
            current: &self.bench.current,
            counters: ledger.image(),
            record: None,
            settings: manner.settings,
        };
        let cut = Cut {
            survival: Survival {
                seed: self.rng.bits(),
                grain: self.rng.pick(self.cell.filesystem.grains()),
                keep: self.rng.pick(&[0, 0, 20, 50, 80]),
            },
        };
        // Either anywhere, while mounting and recovering too, or well into the work.
        let early = self.session > 1 && self.rng.one_in(2);
        let writes = match early {
            // Mounting and recovering is some ten writes, on a filesystem with a journal some more.
            true => self.rng.pick(&[12, 40, 150]),
            false => 1200,
        };
        let command = Command::CutAfter {
            writes: 1 + self.rng.below(writes),
            millis: manner.longer * if early { 150 } else { 40 + self.rng.below(160) },
            // Some come as they come: the write in whose midst they are is all that they take. So
            // do many of those that are to come while mounting and recovering, where little is
            // unflushed for long.
            loaded: !self.rng.one_in(if early { 2 } else { 4 }),
            cut,
        };
        self.cell.filesystem.check_at_boot(&self.bench.stable)?;
        let outage = Outage {
            switched,
            cut: command,
            early,
            home: self.home,
        };
        let outcome = outage::run(outage, &ledger, |dir| self.start(dir, &ledger, manner))?;
        let (report, broken) = (outcome.report, outcome.broken);
        let session = Session {
            number: self.session,
            claimed: outcome.claimed,
            all: outcome.all,
        };
        let coverage = Coverage::of(&session, report.met.in_flight, cut.survival.grain);
        self.promises.add(session);
        let mut outcome = self.check_log(manner)?;
        outcome.broken.extend(broken);
        Ok(Ended {
            report,
            outcome,
            grain: cut.survival.grain,
            coverage,
        })
    }

    fn start(&self, dir: &Path, ledger: &SubjectLedger, manner: Manner) -> Result<Child> {
        let job = Job {
            dir: dir.join("log"),
            ledger: ledger.path(),
            method: self.cell.method().name().to_owned(),
            session: self.session,
            seed: manner.settings.seed ^ self.session,
            demanding: manner.claims == Guarantee::PowerLoss,
            fault: manner.fault,
            commits: 0,
            repairs: false,
        };
        spawn("work", &serde_json::to_string(&job)?)
    }

    /// Checks the survivor: in place, or in a copy.
    fn check_log(&mut self, manner: Manner) -> Result<CheckOutcome> {
        let opening = Opening {
            method: self.cell.method(),
            claims: manner.claims,
        };
        let filesystem = self.cell.filesystem;
        if self.rng.one_in(2) {
            let stable = &self.bench.stable;
            return survivor(filesystem, stable, self.home, opening, &mut self.promises);
        }
        let scratch = &self.bench.scratch;
        scratch.copy_from(&self.bench.stable)?;
        let mut promises = self.promises.clone();
        survivor(filesystem, scratch, self.home, opening, &mut promises)
    }
}

/// Mounts what a cut left, as the next boot would, and compares the log there with the promises.
///
/// # Errors
/// Of the machine.
pub fn survivor(
    filesystem: Filesystem,
    image: &Image,
    home: &Path,
    opening: Opening,
    promises: &mut Promises,
) -> Result<CheckOutcome> {
    let mounted = match Mounted::survivor(filesystem, image, home)? {
        Ok(mounted) => mounted,
        Err(lost) => {
            return Ok(CheckOutcome {
                filesystem_lost: Some(lost),
                ..CheckOutcome::default()
            });
        }
    };
    let outcome = check(&mounted.path().join("log"), opening, promises);
    mounted.unmount()?;
    outcome
}

/// Starts another process of this program.
///
/// # Errors
/// If it does not start.
pub fn spawn(role: &str, job: &str) -> Result<Child> {
    std::process::Command::new(std::env::current_exe()?)
        .args([role, job])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("the process '{role}'"))
}

/// Chains of cycles over one cell, until so many cuts counted or the sink has had enough.
///
/// # Errors
/// Of the machine.
pub fn cell(cell: Cell, cycles: u64, home: &Path, seed: u64, sink: &Sink) -> Result<()> {
    let template = cell.filesystem.make()?;
    let bench = Bench::new(cell.filesystem)?;
    let mut rng = Rng::new(seed);
    let mut counted = 0;
    // A subject that cannot work never makes a cut count: then the row has too few.
    let mut tried = 0;
    while counted < cycles && tried < 20 * cycles + 200 && !sink.is_over() {
        let mut chain = Chain::new(cell, &template, &bench, home, rng.bits())?;
        for _ in 0..CHAIN {
            let manner = Manner {
                settings: Settings::honest(rng.bits(), rng.pick(&[0, 30, 50, 50])),
                fault: Fault::None,
                claims: Guarantee::PowerLoss,
                longer: 1,
            };
            tried += 1;
            let ended = chain.cycle(manner)?;
            sink.session(ended.coverage);
            let cycle = Cycle::new(&ended);
            counted += u64::from(cycle.counts());
            let clean = cycle.broken.is_empty() && cycle.filesystem_lost.is_none();
            sink.cycle(cell, cycle);
            if !clean || counted >= cycles || sink.is_over() {
                break;
            }
        }
    }
    Ok(())
}
