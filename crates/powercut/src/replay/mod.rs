//! Record and replay: one run is recorded, write by write, and crash states are built from it by
//! the thousand.
//!
//! A state is a prefix of the recording and a random part of what was not flushed in it. What was
//! acknowledged when the next event came has to be there. The second recording of a cell starts
//! from a crash state of the first, so that its prefixes are recoveries that were cut short. The third starts
//! from a crash state of the second with a damaged record, and its prefixes are repairs that were cut short.

pub(crate) mod recorded;
mod states;

use crate::check::{Promises, Session, damage};
use crate::live::{spawn, survivor};
use crate::report::{Cell, Sink};
use crate::subject::Job;
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce_crashtest::counters::Counters;
use logforce_crashtest::outage::Length;
use logforce_crashtest::testbed::{Image, Mounted};
use logforce_testkit::Rng;
use recorded::Recorded;
use states::States;
use std::path::Path;

/// A recorded run of the log.
#[derive(Debug)]
struct Run {
    /// What was on the disk before it.
    start: Image,
    recorded: Recorded,
    session: u64,
    /// What had been promised before it.
    promises: Promises,
}

impl Run {
    /// Records a run that starts from `start`.
    fn record(
        cell: Cell,
        start: Image,
        promises: Promises,
        session: u64,
        rng: &mut Rng,
        home: &Path,
    ) -> Result<Run> {
        let repairs = promises.cut.is_some();
        let recorded = Recorded::new(
            cell.filesystem,
            &start,
            if repairs { LENGTH_OF_REPAIR } else { LENGTH },
            home,
            rng,
            |dir, ledger, rng| {
                let job = Job {
                    dir: dir.join("log"),
                    ledger,
                    method: cell.method().name().to_owned(),
                    session,
                    seed: rng.bits(),
                    demanding: true,
                    fault: Fault::None,
                    commits: 0,
                    repairs,
                };
                spawn("work", &serde_json::to_string(&job)?)
            },
        )?;
        Ok(Run {
            start,
            recorded,
            session,
            promises,
        })
    }

    /// Whether a log had been there when the event with these counters came.
    fn has_begun(&self, counters: &Counters) -> bool {
        self.promises.log_must_exist() || counters.iter().any(|n| *n > 0)
    }

    /// What had been promised when the event with these counters came.
    fn promised(&self, counters: &Counters) -> Promises {
        let entries = self.recorded.entries(counters);
        let mut promises = self.promises.clone();
        // What was begun later had not been begun in this state: the same entries serve as what
        // was promised and as what may have come to pass.
        promises.add(Session {
            number: self.session,
            claimed: entries.clone(),
            all: entries,
        });
        promises
    }
}

const LENGTH: Length = Length {
    writes: 1500,
    millis: 400,
};

/// Length of the recording of a repair and the beginning of the work after it.
const LENGTH_OF_REPAIR: Length = Length {
    writes: 150,
    millis: 400,
};

/// Recordings one after the other: of a new log, of a recovery, of a repair.
const SESSIONS: u64 = 3;

/// States that are built from one recording, before another one is made. Few: a block of the
/// filesystem's own that a tear would take lies unflushed in many states of a recording, and one
/// recording would then say what a whole row looks like.
const OF_ONE: u64 = 200;

/// Crash states of one cell, until so many counted or the sink has had enough.
///
/// # Errors
/// Of the machine.
pub fn cell(cell: Cell, states: u64, home: &Path, seed: u64, sink: &Sink) -> Result<()> {
    let mut rng = Rng::new(seed);
    let template = cell.filesystem.make()?;
    let mut counted = 0;
    // A subject that cannot work never makes a state count: then the row has too few.
    let mut tried = 0;
    while counted < states && tried < 20 * states + 5 * OF_ONE && !sink.is_over() {
        let start = Image::new(template.len())?;
        start.copy_from(&template)?;
        let mut run = Run::record(cell, start, Promises::default(), 1, &mut rng, home)?;
        for session in 1..=SESSIONS {
            let wanted = OF_ONE.min((states - counted).div_ceil(SESSIONS + 1 - session));
            tried += wanted;
            let mut built = States::new(cell, &run, home)?;
            counted += built.some(wanted, &mut rng, sink)?;
            let last = built.last();
            if session == SESSIONS || counted >= states || sink.is_over() {
                break;
            }
            let Some((start, mut promises)) = last else {
                break;
            };
            drop(built);
            if session + 1 == SESSIONS && !damaged(cell, &start, home, &mut promises, &mut rng)? {
                break;
            }
            run = Run::record(cell, start, promises, session + 1, &mut rng, home)?;
        }
    }
    Ok(())
}

/// Damages the log in a crash state; returns whether it could.
fn damaged(
    cell: Cell,
    state: &Image,
    home: &Path,
    promises: &mut Promises,
    rng: &mut Rng,
) -> Result<bool> {
    let copy = Image::new(state.len())?;
    copy.copy_from(state)?;
    let shown = survivor(cell.filesystem, &copy, home, cell.opening(), promises)?;
    if !shown.opened || !shown.broken.is_empty() {
        return Ok(false);
    }
    let Ok(mounted) = Mounted::survivor(cell.filesystem, state, home)? else {
        return Ok(false);
    };
    let done = damage(&mounted.path().join("log"), promises, rng);
    mounted.unmount()?;
    done
}
