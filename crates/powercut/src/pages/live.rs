//! Live cuts: the plug is pulled while the subject commits, mounts or recovers.

use super::check::survivor;
use super::{Job, Promises, Tally};
use crate::disk::{Command, Cut, Settings, Survival};
use crate::ledger::Ledger;
use crate::live::{end, spawn};
use crate::subject::seam::Fault;
use crate::testbed::{Filesystem, Image, Powered, Switched};
use anyhow::Result;
use logforce_testkit::Rng;
use std::path::Path;

/// Cuts of one page file, before another one is made.
const CHAIN: u64 = 5;

/// Where cuts happen, and to what.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    filesystem: Filesystem,
    home: &'a Path,
    copy_on_write: bool,
    fault: Fault,
}

/// Cuts until `wanted` of them counted, or something broke.
///
/// # Errors
/// Of the machine.
pub fn cuts(
    filesystem: Filesystem,
    copy_on_write: bool,
    fault: Fault,
    wanted: u64,
    home: &Path,
    seed: u64,
) -> Result<Tally> {
    let place = Place {
        filesystem,
        home,
        copy_on_write,
        fault,
    };
    let template = filesystem.make()?;
    let image = || Image::new(filesystem.size());
    let (stable, current, scratch) = (image()?, image()?, image()?);
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    // A subject that cannot work never makes a cut count.
    let most = 10 * wanted + 50;
    while tally.counted < wanted && tally.counted + tally.empty < most {
        stable.copy_from(&template)?;
        let mut promises = Promises::default();
        for session in 0..CHAIN {
            let lost = tally.filesystem_lost;
            cycle(
                place,
                [&stable, &current, &scratch],
                session > 0,
                &mut promises,
                &mut rng,
                &mut tally,
            )?;
            if !tally.broken.is_empty() {
                return Ok(tally);
            }
            if tally.filesystem_lost > lost || tally.counted >= wanted {
                break;
            }
        }
    }
    Ok(tally)
}

fn cycle(
    place: Place<'_>,
    [stable, current, scratch]: [&Image; 3],
    may_be_early: bool,
    promises: &mut Promises,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Result<()> {
    let ledger = Ledger::new()?;
    let grain = rng.pick(place.filesystem.grains());
    let cut = Cut {
        survival: Survival {
            seed: rng.bits(),
            grain,
            keep: rng.pick(&[0, 0, 20, 50, 80]),
        },
    };
    let early = may_be_early && rng.one_in(3);
    let command = Command::CutAfter {
        writes: 1 + rng.below(if early { 60 } else { 900 }),
        millis: if early { 100 } else { 40 + rng.below(120) },
        loaded: !rng.one_in(4),
        cut,
    };
    place.filesystem.check_at_boot(stable)?;
    let switched = Switched {
        filesystem: place.filesystem,
        stable,
        current,
        ledger: &ledger,
        record: None,
        settings: Settings::honest(rng.bits(), rng.pick(&[0, 30, 50])),
    };
    let mut powered = Powered::on(switched, place.home, early.then_some(command))?;
    let mut subject = match powered.mounted() {
        None => None,
        Some(dir) => {
            let job = Job {
                dir: dir.join("file"),
                ledger: ledger.path(),
                copy_on_write: place.copy_on_write,
                seed: rng.bits(),
                fault: place.fault,
            };
            Some(spawn("page-work", &serde_json::to_string(&job)?)?)
        }
    };
    if !early {
        powered.send(command)?;
    }
    let report = powered.cut_by_itself()?;
    if let Some(subject) = &mut subject {
        tally.broken.extend(end(subject)?);
    }
    powered.off()?;
    let claimed = ledger.entries(&report.counters)?;
    let all = ledger.entries(&ledger.counters()?)?;
    promises.add(&claimed, &all);
    // In place, or in a copy: then the next session recovers, and its plug is pulled too.
    let found = match rng.one_in(2) {
        true => survivor(
            place.filesystem,
            stable,
            place.home,
            place.copy_on_write,
            promises,
        )?,
        false => {
            scratch.copy_from(stable)?;
            survivor(
                place.filesystem,
                scratch,
                place.home,
                place.copy_on_write,
                &mut promises.clone(),
            )?
        }
    };
    tally.take(found, report.met.unflushed_sectors > 0, grain);
    Ok(())
}
