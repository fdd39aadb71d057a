//! The thread that truncates at both ends, sets the metadata, and claims what is durable.

use super::{Space, Work, rank};
use crate::ledger::{Entry, Kind, LedgerWriter};
use logforce::Lsn;
use logforce_testkit::Rng;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of log that are kept: a few segments, so that they come round often.
const KEPT: u64 = 600 << 10;

/// Refusals by which a disk counts as full.
const REFUSALS: u64 = 8;

/// The metadata of a number: the number, and bytes that follow from it, so that a torn value shows.
pub fn metadata(session: u64, number: u64) -> Vec<u8> {
    let mut rng = Rng::new(session << 32 ^ number);
    let mut bytes = [session.to_le_bytes(), number.to_le_bytes()].concat();
    let len = 16 + rng.below(3000) as usize;
    while bytes.len() < len {
        bytes.push(rng.bits() as u8);
    }
    bytes
}

/// The session and the number of metadata, if it is whole.
pub fn read_metadata(bytes: &[u8]) -> Option<(u64, u64)> {
    let session = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let number = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    (metadata(session, number) == bytes).then_some((session, number))
}

pub(super) fn control(work: &Work<'_>, mut ledger: LedgerWriter) {
    let mut rng = Rng::new(work.job.seed ^ 0xC0_47_01);
    let mut metas = 0;
    while work.goes_on(&ledger) {
        std::thread::sleep(Duration::from_micros(500 + rng.below(8000)));
        let done = match rng.below(20) {
            0..9 => front(work, &mut ledger),
            9..12 => back(work, &mut ledger, &mut rng),
            12..16 => {
                metas += 1;
                meta(work, &mut ledger, metas)
            }
            16..18 => force(work, &mut ledger),
            _ => {
                // Everything below the durable LSN is promised, whichever thread forced it.
                let durable = work.log.durable_lsn();
                ledger.put(Entry {
                    guarantee: rank(work.log.guarantee()),
                    ..Entry::range(Kind::Forced, 0, durable.0)
                });
                Ok(())
            }
        };
        if let Err(e) = done
            && !work.survives(&e, &mut ledger)
        {
            return;
        }
    }
}

/// Moves the front up to what is to be kept.
fn front(work: &Work<'_>, ledger: &mut LedgerWriter) -> logforce::Result<()> {
    let front = {
        let starts = work.starts();
        let below = |upto: u64| starts.iter().copied().filter(|s| *s <= upto).max();
        match work.space {
            Space::Little => below(work.log.durable_lsn().0.saturating_sub(KEPT)),
            Space::UntilFull if work.refused.load(Ordering::Relaxed) >= REFUSALS => {
                starts.get(starts.len() / 2).copied().and_then(below)
            }
            Space::All | Space::UntilFull => None,
        }
    };
    let Some(front) = front.filter(|f| *f > work.log.front_lsn().0) else {
        return Ok(());
    };
    ledger.put(Entry::range(Kind::FrontIntent, front, front));
    work.log.truncate_front(Lsn(front))?;
    ledger.put(Entry::range(Kind::FrontDone, front, front));
    work.refused.store(0, Ordering::Relaxed);
    work.starts().retain(|s| *s >= front);
    Ok(())
}

/// Voids the last few records.
fn back(work: &Work<'_>, ledger: &mut LedgerWriter, rng: &mut Rng) -> logforce::Result<()> {
    // No thread appends meanwhile, so what is voided is known exactly.
    let _alone = work
        .appending
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let mut last: Vec<u64> = work.starts().iter().copied().collect();
    last.sort_unstable();
    let behind = 1 + rng.below(12) as usize;
    let Some(&from) = last.len().checked_sub(behind).and_then(|i| last.get(i)) else {
        return Ok(());
    };
    let tail = work.log.tail_lsn().0;
    ledger.put(Entry::range(Kind::BackIntent, from, tail));
    work.log.truncate_back(Lsn(from))?;
    ledger.put(Entry::range(Kind::BackDone, from, tail));
    work.starts().retain(|s| *s < from);
    Ok(())
}

fn meta(work: &Work<'_>, ledger: &mut LedgerWriter, number: u64) -> logforce::Result<()> {
    let entry = |kind| Entry {
        sequence: number,
        ..Entry::of(kind)
    };
    ledger.put(entry(Kind::MetaIntent));
    work.log.set_meta(&metadata(work.job.session, number))?;
    ledger.put(entry(Kind::MetaDone));
    Ok(())
}

fn force(work: &Work<'_>, ledger: &mut LedgerWriter) -> logforce::Result<()> {
    let end = work.log.tail_lsn();
    let guarantee = work.log.force(end)?;
    ledger.put(Entry {
        guarantee: rank(guarantee),
        ..Entry::range(Kind::Forced, 0, end.0)
    });
    Ok(())
}
