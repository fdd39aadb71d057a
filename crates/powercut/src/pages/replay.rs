//! Crash states of a recorded run: each prefix with a part of what was not flushed in it.

use super::check::survivor;
use super::{Job, Promises, Tally};
use crate::disk::{Cache, Command, Cut, EventKind, Recording, Settings, Survival};
use crate::ledger::{Entry, Ledger};
use crate::live::{end, spawn};
use crate::subject::seam::Fault;
use crate::testbed::{Filesystem, Image, Powered, Switched};
use anyhow::{Result, bail};
use logforce_testkit::Rng;
use std::collections::HashMap;
use std::path::Path;

/// Writes of a recording.
const WRITES: u64 = 1200;
/// And its longest duration, in milliseconds.
const MILLIS: u64 = 300;
/// States that are built from one recording, before another one is made.
const OF_ONE: u64 = 150;

struct Run {
    recording: Recording,
    entries: Vec<Vec<Entry>>,
}

fn record(
    filesystem: Filesystem,
    start: &Image,
    copy_on_write: bool,
    rng: &mut Rng,
    home: &Path,
) -> Result<Run> {
    let (ledger, record) = (Ledger::new()?, Image::new(0)?);
    let image = || Image::new(start.len());
    let (stable, current) = (image()?, image()?);
    stable.copy_from(start)?;
    let switched = Switched {
        filesystem,
        stable: &stable,
        current: &current,
        ledger: &ledger,
        record: Some(&record),
        settings: Settings::honest(rng.bits(), rng.pick(&[0, 30, 50])),
    };
    let mut powered = Powered::on(switched, home, None)?;
    let Some(dir) = powered.mounted() else {
        bail!("{filesystem} is not mounted");
    };
    let job = Job {
        dir: dir.join("file"),
        ledger: ledger.path(),
        copy_on_write,
        seed: rng.bits(),
        fault: Fault::None,
    };
    let mut subject = spawn("page-work", &serde_json::to_string(&job)?)?;
    powered.send(Command::CutAfter {
        writes: WRITES,
        millis: MILLIS,
        loaded: false,
        cut: Cut {
            survival: Survival {
                seed: 0,
                grain: 4096,
                keep: 0,
            },
        },
    })?;
    powered.cut_by_itself()?;
    if let Some(wrong) = end(&mut subject)? {
        bail!("while recording: {wrong}");
    }
    powered.off()?;
    Ok(Run {
        recording: Recording::read(&record)?,
        entries: ledger.entries(&ledger.counters()?)?,
    })
}

/// Builds states until `wanted` of them counted, or something broke.
///
/// # Errors
/// Of the machine.
pub fn states(
    filesystem: Filesystem,
    copy_on_write: bool,
    wanted: u64,
    home: &Path,
    seed: u64,
) -> Result<Tally> {
    let mut rng = Rng::new(seed);
    let template = filesystem.make()?;
    let mut tally = Tally::default();
    let most = 10 * wanted + 5 * OF_ONE;
    while tally.counted < wanted && tally.counted + tally.empty < most {
        let run = record(filesystem, &template, copy_on_write, &mut rng, home)?;
        let some = OF_ONE.min(wanted - tally.counted);
        let some = of_one(
            filesystem,
            &template,
            copy_on_write,
            &run,
            some,
            home,
            &mut rng,
        )?;
        tally.add(some);
        if !tally.broken.is_empty() {
            break;
        }
    }
    Ok(tally)
}

/// Goes through a recording once, and builds states on the way.
fn of_one(
    filesystem: Filesystem,
    start: &Image,
    copy_on_write: bool,
    run: &Run,
    wanted: u64,
    home: &Path,
    rng: &mut Rng,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let (stable, scratch) = (Image::new(start.len())?, Image::new(start.len())?);
    stable.copy_from(start)?;
    let mut cache = Cache::default();
    let mut numbers = HashMap::new();
    let events = &run.recording.events;
    let mut at: Vec<usize> = (0..wanted)
        .map(|_| rng.below(events.len() as u64) as usize)
        .collect();
    at.sort_unstable();
    let mut at = at.into_iter().peekable();
    for (number, event) in events.iter().enumerate() {
        let is_write = matches!(event.kind, EventKind::Write | EventKind::WriteHeld);
        while at.next_if_eq(&number).is_some() {
            // Where nothing can be lost, now and then only.
            if cache.is_empty() && !rng.one_in(4) {
                continue;
            }
            let survival = Survival {
                seed: rng.bits(),
                grain: rng.pick(filesystem.grains()),
                keep: rng.pick(&[0, 10, 50, 90]),
            };
            scratch.copy_from(&stable)?;
            let mut torn = Cache::default();
            if is_write {
                torn.write(event.offset, &event.data, true);
            }
            cache.survive(survival, scratch.file())?;
            torn.survive(survival, scratch.file())?;
            let lanes = run.entries.iter().zip(&event.counters);
            let entries: Vec<Vec<Entry>> = lanes
                .map(|(lane, count)| lane.iter().take(*count as usize).copied().collect())
                .collect();
            let mut promises = Promises::default();
            promises.add(&entries, &entries);
            let found = survivor(filesystem, &scratch, home, copy_on_write, &mut promises)?;
            tally.take(found, cache.met().unflushed_sectors > 0, survival.grain);
            if !tally.broken.is_empty() {
                return Ok(tally);
            }
        }
        match event.kind {
            EventKind::Write | EventKind::WriteHeld => {
                let held = event.kind == EventKind::WriteHeld;
                numbers.insert(event.id, cache.write(event.offset, &event.data, held));
            }
            EventKind::Complete => {
                if let Some(number) = numbers.remove(&event.id) {
                    cache.complete(number);
                }
            }
            EventKind::Flush => cache.flush(stable.file())?,
        }
    }
    Ok(tally)
}
