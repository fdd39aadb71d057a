//! Live cuts: the power goes while the program works, starts, or recovers.

use crate::acks::Line;
use crate::disk::{Command, Cut, Event, Flushes, Settings, Survival};
use crate::outage::Outage;
use crate::parts::{Part, Rehearsal};
use crate::stage::{Checked, Promised, Stage, Working};
use crate::testbed::{Filesystem, Image, Powered, Switched};
use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};

/// Sessions on one disk, before a fresh one is taken.
const CHAIN: u64 = 6;
/// Length of the work in a rehearsal after the first acknowledgement.
const REHEARSED: Duration = Duration::from_millis(300);
/// Most a cut waits after the usual time of the first acknowledgement, milliseconds.
const SPREAD: u64 = 200;

/// A checked case.
pub(crate) struct Case<'a> {
    pub(crate) part: Part,
    pub(crate) promised: &'a Promised,
    pub(crate) checked: Checked,
    /// The disk as the cut left it, before the check.
    pub(crate) left: &'a Image,
    /// The origin of a replayed state; `None` after a live cut.
    pub(crate) origin: Option<Origin<'a>>,
}

/// The recorded run and the cut from which a state was built.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// The disk before the run.
    pub(crate) start: &'a Image,
    pub(crate) events: &'a [Event],
    /// Acknowledgements of the run.
    pub(crate) lines: &'a [Line],
    /// Index of the event at which the power goes.
    pub(crate) number: usize,
    /// The part of the unflushed data that survives.
    pub(crate) survival: Survival,
}

/// Receives the cases; returns false if there are enough.
pub(crate) type Sink<'a> = dyn FnMut(Case<'_>) -> Result<bool> + 'a;

/// The images of a chain of sessions.
struct Disks {
    stable: Image,
    current: Image,
    scratch: Image,
}

impl Disks {
    fn new(len: u64) -> Result<Disks> {
        let image = || Image::new(len);
        Ok(Disks {
            stable: image()?,
            current: image()?,
            scratch: image()?,
        })
    }

    fn switched<'a>(&'a self, stage: &'a Stage<'_>, settings: Settings) -> Switched<'a> {
        Switched {
            filesystem: stage.filesystem,
            stable: &self.stable,
            current: &self.current,
            counters: stage.acks.counters(),
            record: None,
            settings,
        }
    }
}

/// Waits until the workload has acknowledged something; returns false if it ended before, or took too long.
fn first_ack(stage: &Stage<'_>, working: &mut Working) -> Result<bool> {
    let began = Instant::now();
    while stage.acks.count() == 0 {
        if began.elapsed() > stage.plan.patience || working.has_ended()? {
            return Ok(stage.acks.count() > 0);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(true)
}

/// Runs the workload without a cut, ends it by `kill -9`, and checks. The inner error says why the workload cannot be
/// tested.
pub(crate) fn rehearse(
    stage: &Stage<'_>,
    sink: &mut Sink<'_>,
) -> Result<std::result::Result<Rehearsal, String>> {
    let disks = Disks::new(stage.template.len())?;
    disks.stable.copy_from(&stage.template)?;
    let settings = Settings::honest(stage.plan.seed, 0);
    stage.acks.begin()?;
    let powered = Powered::on(disks.switched(stage, settings), stage.home, None)?;
    let Some(mounted) = powered.mounted().map(Path::to_owned) else {
        anyhow::bail!("the fresh filesystem cannot be mounted");
    };
    let began = Instant::now();
    let mut working = stage.start(&mounted, stage.plan.seed)?;
    let acknowledged = first_ack(stage, &mut working)?;
    let first = began.elapsed();
    let until = Instant::now() + REHEARSED;
    while acknowledged && Instant::now() < until && !working.has_ended()? {
        std::thread::sleep(Duration::from_millis(2));
    }
    let worked = began.elapsed() - first;
    let ended = working.kill()?;
    if !acknowledged {
        let (lines, rest) = stage.acks.lines();
        let why = match (&rest, ended.status) {
            (Some(rest), _) => format!("it wrote {rest:?} without a newline"),
            _ if !lines.is_empty() => "it wrote lines that begin with ? only".to_owned(),
            (None, Some(status)) if status.success() => format!(
                "it {}; a program that continues in the background ends with its first process, so it has to stay in \
                 the foreground",
                ended.failure()
            ),
            (None, Some(_)) => format!("it {}", ended.failure()),
            (None, None) => format!(
                "it ran for {} s without one (--patience); a program that buffers its output has to flush it{}",
                first.as_secs(),
                match ended.last_line() {
                    line if line.is_empty() => line,
                    line => format!("; its last line of output is {line:?}"),
                }
            ),
        };
        return Ok(Err(format!("the workload acknowledged nothing: {why}")));
    }
    let promised = stage.promised(&Promised::default(), u64::MAX);
    let report = powered.shut_down()?;
    disks.scratch.copy_from(&disks.stable)?;
    sink(Case {
        part: Part::Kill,
        checked: stage.check(&disks.stable, &promised)?,
        promised: &promised,
        left: &disks.scratch,
        origin: None,
    })?;
    let acks = promised.acked.len() as u64;
    Ok(Ok(Rehearsal {
        filesystem: stage.filesystem,
        first_ack_ms: first.as_millis() as u64,
        acks_per_second: acks as f64 / worked.as_secs_f64().max(0.001),
        flushes: report.flushes,
        writes: report.writes,
        acks,
    }))
}

/// Cuts the power again and again, until the sink has enough.
pub(crate) fn cuts(
    stage: &Stage<'_>,
    rehearsal: &Rehearsal,
    part: Part,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let disks = Disks::new(stage.template.len())?;
    let mut rng = fastrand::Rng::with_seed(stage.plan.seed ^ part as u64);
    loop {
        disks.stable.copy_from(&stage.template)?;
        let mut promised = Promised::default();
        for session in 0..CHAIN {
            let early = session > 0 && rng.bool();
            let counted = session_on(stage, rehearsal, &disks, part, early, &mut rng)?;
            promised = stage.promised(&promised, counted);
            disks.scratch.copy_from(&disks.stable)?;
            // In place: the next session starts from what was recovered undisturbed. In a copy: the next session
            // recovers itself, and its power is cut too, perhaps meanwhile.
            let (checked, left) = match rng.bool() {
                true => (&disks.stable, &disks.scratch),
                false => (&disks.scratch, &disks.stable),
            };
            let checked = stage.check(checked, &promised)?;
            let is_whole = checked == Checked::Survived;
            let go_on = sink(Case {
                part,
                promised: &promised,
                checked,
                left,
                origin: None,
            })?;
            if !go_on {
                return Ok(());
            }
            if !is_whole {
                break;
            }
        }
    }
}

/// Runs one session to its cut; returns the number of lines before it.
fn session_on(
    stage: &Stage<'_>,
    rehearsal: &Rehearsal,
    disks: &Disks,
    part: Part,
    early: bool,
    rng: &mut fastrand::Rng,
) -> Result<u64> {
    let settings = Settings {
        flushes: match part {
            Part::Control => Flushes::Ignored,
            _ => Flushes::Honest,
        },
        ..Settings::honest(rng.u64(..), rng.choice([0, 30, 50]).unwrap_or(0))
    };
    stage.filesystem.check_at_boot(&disks.stable)?;
    let outage = Outage {
        switched: disks.switched(stage, settings),
        cut: command(stage.filesystem, rehearsal, early, rng),
        early,
        home: stage.home,
    };
    let (kill, seed) = (stage.plan.kill && rng.u8(..3) == 0, rng.u64(..));
    stage.acks.begin()?;
    let (report, ended) = outage.run(
        |mounted| {
            let mut working = stage.start(mounted, seed)?;
            if kill {
                first_ack(stage, &mut working)?;
                std::thread::sleep(Duration::from_millis(seed % 100));
                working.kill()?;
                working = stage.start(mounted, seed)?;
            }
            Ok(working)
        },
        Stage::end,
    )?;
    if let Some(ended) = ended {
        stage.count(&report.counters, ended);
    }
    Ok(report.counters[0])
}

/// Chooses when the power goes, and what survives.
fn command(
    filesystem: Filesystem,
    rehearsal: &Rehearsal,
    early: bool,
    rng: &mut fastrand::Rng,
) -> Command {
    let survival = Survival {
        seed: rng.u64(..),
        grain: rng.choice(filesystem.grains()).copied().unwrap_or(512),
        keep: rng.choice([0, 0, 20, 50, 80]).unwrap_or(0),
    };
    let usual = rehearsal.first_ack_ms;
    // Anywhere, also while the program starts or recovers; or well into its work.
    let (writes, millis) = match (early, rng.bool()) {
        (true, _) => (1 + rng.u64(..60), usual + 150),
        (false, true) => (1 + rng.u64(..2 * rehearsal.writes.max(1)), usual + SPREAD),
        (false, false) => (u64::from(u32::MAX), usual + rng.u64(..SPREAD)),
    };
    Command::CutAfter {
        writes,
        millis,
        loaded: rng.u8(..4) != 0,
        cut: Cut { survival },
    }
}
