//! Live cuts: the plug is pulled while the subject commits, mounts or recovers.

use super::check::survivor;
use super::{Counts, Job, Promises};
use crate::ledger::SubjectLedger;
use crate::live::spawn;
use crate::outage;
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce_crashtest::disk::{Command, Cut, Settings, Survival};
use logforce_crashtest::outage::Outage;
use logforce_crashtest::testbed::{Filesystem, Image, Switched};
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
) -> Result<Counts> {
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
    let mut counts = Counts::default();
    // A subject that cannot work never makes a cut count.
    let most = 10 * wanted + 50;
    while counts.counted < wanted && counts.counted + counts.empty < most {
        stable.copy_from(&template)?;
        let mut promises = Promises::default();
        for session in 0..CHAIN {
            let lost = counts.filesystem_lost;
            cycle(
                place,
                [&stable, &current, &scratch],
                session > 0,
                &mut promises,
                &mut rng,
                &mut counts,
            )?;
            if !counts.broken.is_empty() {
                return Ok(counts);
            }
            if counts.filesystem_lost > lost || counts.counted >= wanted {
                break;
            }
        }
    }
    Ok(counts)
}

fn cycle(
    place: Place<'_>,
    [stable, current, scratch]: [&Image; 3],
    may_be_early: bool,
    promises: &mut Promises,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Result<()> {
    let ledger = SubjectLedger::new()?;
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
        counters: ledger.image(),
        record: None,
        settings: Settings::honest(rng.bits(), rng.pick(&[0, 30, 50])),
    };
    let outage = Outage {
        switched,
        cut: command,
        early,
        home: place.home,
    };
    let outcome = outage::run(outage, &ledger, |dir| {
        let job = Job {
            dir: dir.join("file"),
            ledger: ledger.path(),
            copy_on_write: place.copy_on_write,
            seed: rng.bits(),
            fault: place.fault,
        };
        spawn("page-work", &serde_json::to_string(&job)?)
    })?;
    counts.broken.extend(outcome.broken);
    promises.add(&outcome.claimed, &outcome.all);
    // In place, or in a copy: then the next session recovers, and its plug is pulled too.
    let mut copy = promises.clone();
    let (image, promises) = match rng.one_in(2) {
        true => (stable, promises),
        false => {
            scratch.copy_from(stable)?;
            (scratch, &mut copy)
        }
    };
    let (filesystem, home, copy_on_write) = (place.filesystem, place.home, place.copy_on_write);
    let found = survivor(filesystem, image, home, copy_on_write, promises)?;
    counts.take(found, outcome.report.met.unflushed_sectors > 0, grain);
    Ok(())
}
