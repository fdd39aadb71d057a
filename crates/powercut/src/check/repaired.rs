//! A log that is damaged between two power cuts, and repaired under the second.

use super::{CheckOutcome, Present, Promises, Survivor, is_corruption};
use crate::subject::Identity;
use anyhow::{Context, Result, bail};
use logforce::{
    ErrorKind,
    inspect::{RepairOptions, Visit},
};
use logforce_testkit::Rng;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Records that are damaged in turn until an opening refuses one.
const TRIES: u32 = 10;

/// Damages a record of the log in `dir`, which a power cut left, so that no opening accepts it. `promises` say what
/// an opening of a copy has shown. Afterwards they are what a repair has to keep: the records below in the log,
/// all others that can be read in its copies. Returns whether there was such a record.
///
/// # Errors
/// Of the machine, and if a repair would keep too much or too little.
pub fn damage(dir: &Path, promises: &mut Promises, rng: &mut Rng) -> Result<bool> {
    let Some(base) = &mut promises.base else {
        return Ok(false);
    };
    let anchor = match logforce::inspect::open(dir) {
        // Cut before it was made.
        Err(e) if e.kind() == ErrorKind::NoLog => return Ok(false),
        inspector => inspector?.summary().anchor.0,
    };
    let above: Vec<u64> = base
        .present
        .range(anchor..)
        .map(|(start, _)| *start)
        .collect();
    if above.is_empty() {
        return Ok(false);
    }
    let mut tried = 0;
    let (damaged, cut) = loop {
        let damaged = rng.pick(&above);
        flip(dir, damaged)?;
        let plan = logforce::inspect::repair(dir, &RepairOptions::new().dry_run(true))?;
        if let Some(cut) = plan.cut {
            break (damaged, cut);
        }
        // Nothing tells it from a write that the power cut tore.
        flip(dir, damaged)?;
        tried += 1;
        if tried == TRIES {
            return Ok(false);
        }
    };
    let from = cut.from.0;
    let mut readable = salvaged(dir)?;
    if from > damaged
        || (base.present.range(from..damaged)).any(|(_, r)| is_whole(r, base, &readable))
    {
        bail!("damage at LSN {damaged}, and a repair would cut from LSN {from} on");
    }
    base.present.retain(|start, _| *start < from);
    readable.retain(|start, _| *start >= from);
    promises.cut = Some(readable);
    Ok(true)
}

/// Returns whether the whole atomic append of a record can be read: a repair keeps it.
fn is_whole(record: &Present, base: &Survivor, readable: &BTreeMap<u64, Present>) -> bool {
    let append = |r: &Present| (r.identity.session, r.identity.thread, r.identity.first);
    let mut all = base
        .present
        .iter()
        .filter(|(_, r)| append(r) == append(record));
    all.all(|(start, r)| readable.get(start) == Some(r))
}

/// Inverts a byte of the record at `lsn`.
fn flip(dir: &Path, lsn: u64) -> Result<()> {
    let segments = logforce::inspect::open(dir)?.summary().segments;
    let holds = |s: &&logforce::inspect::SegmentInfo| (s.start.0..s.start.0 + s.len).contains(&lsn);
    let segment = segments.iter().find(holds).context("no segment has it")?;
    let file = dir.join(&segment.name);
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let (mut byte, at) = ([0], lsn - segment.start.0);
    file.read_exact_at(&mut byte, at)?;
    file.write_all_at(&[!byte[0]], at)?;
    Ok(file.sync_all()?)
}

/// The records that salvage reads in `dir`.
fn salvaged(dir: &Path) -> logforce::Result<BTreeMap<u64, Present>> {
    let mut found = BTreeMap::new();
    let inspector = match logforce::inspect::salvage(dir) {
        // Copies of which the power cut left nothing.
        Err(e) if e.kind() == ErrorKind::NoLog => return Ok(found),
        inspector => inspector?,
    };
    inspector.walk(&mut |visit| {
        if let Visit::Record { record, .. } = visit
            && let Ok(identity) = Identity::read(&record.data)
        {
            let end = record.end.0;
            found.insert(record.start.0, Present { identity, end });
        }
        true
    })?;
    Ok(found)
}

/// Repairs the log that a power cut left while it was repaired, or after that, and compares the copies with what
/// they have to contain. Returns whether it can be opened.
pub(super) fn mend(dir: &Path, cut: &BTreeMap<u64, Present>, outcome: &mut CheckOutcome) -> bool {
    let kept = logforce::inspect::repair(dir, &RepairOptions::new()).and_then(|report| {
        outcome.repaired = report.cut.is_some();
        let copies = report.earlier.iter().chain(&report.aside);
        copies
            .map(|dir| salvaged(dir))
            .collect::<logforce::Result<Vec<_>>>()
    });
    match kept {
        Ok(kept) => {
            for (start, record) in cut {
                if !kept.iter().any(|kept| kept.get(start) == Some(record)) {
                    outcome.breaks(format!(
                        "a repair has cut the record at LSN {start}, and no copy contains it"
                    ));
                }
            }
            true
        }
        Err(e) if is_corruption(&e) => {
            outcome.filesystem_lost = Some(e.to_string());
            false
        }
        Err(e) => {
            outcome.breaks(format!("the log cannot be repaired: {e}"));
            false
        }
    }
}
