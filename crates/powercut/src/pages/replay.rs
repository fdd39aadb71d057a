//! Crash states of a recorded run: each prefix with a part of what was not flushed in it.

use super::check::survivor;
use super::{Counts, Job, Promises};
use crate::live::spawn;
use crate::replay::recorded::Recorded;
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce_crashtest::outage::Length;
use logforce_crashtest::replay::{ReplayedDisk, places, survival};
use logforce_crashtest::testbed::{Filesystem, Image};
use logforce_testkit::Rng;
use std::path::Path;

const LENGTH: Length = Length {
    writes: 1200,
    millis: 300,
};

/// States that are built from one recording, before another one is made.
const OF_ONE: u64 = 150;

fn record(
    filesystem: Filesystem,
    start: &Image,
    copy_on_write: bool,
    rng: &mut Rng,
    home: &Path,
) -> Result<Recorded> {
    Recorded::new(filesystem, start, LENGTH, home, rng, |dir, ledger, rng| {
        let job = Job {
            dir: dir.join("file"),
            ledger,
            copy_on_write,
            seed: rng.bits(),
            fault: Fault::None,
        };
        spawn("page-work", &serde_json::to_string(&job)?)
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
) -> Result<Counts> {
    let mut rng = Rng::new(seed);
    let template = filesystem.make()?;
    let mut counts = Counts::default();
    let most = 10 * wanted + 5 * OF_ONE;
    while counts.counted < wanted && counts.counted + counts.empty < most {
        let run = record(filesystem, &template, copy_on_write, &mut rng, home)?;
        let some = OF_ONE.min(wanted - counts.counted);
        let some = of_one(
            filesystem,
            &template,
            copy_on_write,
            &run,
            some,
            home,
            &mut rng,
        )?;
        counts.add(some);
        if !counts.broken.is_empty() {
            break;
        }
    }
    Ok(counts)
}

/// Goes through a recording once, and builds states on the way.
fn of_one(
    filesystem: Filesystem,
    start: &Image,
    copy_on_write: bool,
    run: &Recorded,
    wanted: u64,
    home: &Path,
    rng: &mut Rng,
) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut disk = ReplayedDisk::new(start)?;
    let events = &run.recording.events;
    let mut at = places(events, wanted, rng.bits()).into_iter().peekable();
    for (number, event) in events.iter().enumerate() {
        while at.next_if_eq(&number).is_some() {
            // Where nothing can be lost, now and then only.
            if disk.is_flushed() && !rng.one_in(4) {
                continue;
            }
            let survival = survival(filesystem, rng.bits());
            let left = disk.cut(event, survival)?;
            let entries = run.entries(&event.counters);
            let mut promises = Promises::default();
            promises.add(&entries, &entries);
            let found = survivor(filesystem, left, home, copy_on_write, &mut promises)?;
            counts.take(found, disk.met().unflushed_sectors > 0, survival.grain);
            if !counts.broken.is_empty() {
                return Ok(counts);
            }
        }
        disk.apply(event)?;
    }
    Ok(counts)
}
