//! The rules, each by itself.

use super::promises::within;
use super::{CheckOutcome, Present, Promises, Survivor};
use crate::ledger::Kind;
use crate::subject::read_metadata;
use std::collections::{BTreeMap, HashMap};

type Ranges = [(u64, u64)];

/// Compares what is there with what was promised by acknowledgements of at least that rank.
pub fn compare(promises: &Promises, rank: u64, survivor: &Survivor, outcome: &mut CheckOutcome) {
    let (done, begun) = promises.truncated_back();
    front(promises, survivor, outcome);
    lost(promises, rank, survivor, (&done, &begun), outcome);
    resurrected(survivor, &done, outcome);
    places(promises, survivor, outcome);
    gaps(promises, survivor, (&done, &begun), outcome);
    order(survivor, outcome);
    groups(survivor, outcome);
    metadata(promises, survivor, outcome);
}

/// The front is where a truncation moved it, and never below where it was promised to be.
fn front(promises: &Promises, survivor: &Survivor, outcome: &mut CheckOutcome) {
    let mut possible: Vec<u64> = promises.base.iter().map(|b| b.front).collect();
    let mut least = possible.first().copied().unwrap_or(0);
    for session in &promises.sessions {
        possible.extend(session.all(Kind::FrontIntent).map(|e| e.start));
        possible.extend(session.all(Kind::Opened).map(|e| e.start));
        let done = session.claims(Kind::FrontDone).map(|e| e.start).max();
        least = least.max(done.unwrap_or(0));
    }
    let front = survivor.front;
    if front < least {
        outcome.breaks(format!("the front is {front}, and was moved to {least}"));
    }
    // A log that no process saw open has its front where logs begin.
    if !possible.is_empty() && !possible.contains(&front) && promises.log_must_exist() {
        outcome.breaks(format!("the front is {front}, to which it was never moved"));
    }
}

/// Invariant 1: what was acknowledged is there.
fn lost(
    promises: &Promises,
    rank: u64,
    survivor: &Survivor,
    (done, begun): (&Ranges, &Ranges),
    outcome: &mut CheckOutcome,
) {
    let required = promises.required(rank, survivor.front, done);
    outcome.acknowledged = required.len() as u64;
    // A range whose truncation only began is there whole, or not at all.
    let taken: Vec<_> = begun
        .iter()
        .filter(|(start, end)| survivor.present.range(start..end).next().is_none())
        .copied()
        .collect();
    for (start, wanted) in &required {
        let there = survivor.present.get(start);
        if there.is_some_and(|p| same(p, wanted)) || (there.is_none() && within(*start, &taken)) {
            continue;
        }
        outcome.lost += 1;
        let id = wanted.identity;
        outcome.breaks(format!(
            "lost: record {} of thread {} of session {}, acknowledged at LSN {start}",
            id.sequence, id.thread, id.session
        ));
    }
}

/// Returns true if it is that record.
fn same(there: &Present, wanted: &Present) -> bool {
    let key = |p: &Present| (p.identity.session, p.identity.thread, p.identity.sequence);
    key(there) == key(wanted) && there.end == wanted.end
}

/// Invariant 10: what was voided does not come back.
fn resurrected(survivor: &Survivor, done: &Ranges, outcome: &mut CheckOutcome) {
    for start in survivor.present.keys() {
        if within(*start, done) {
            outcome.breaks(format!("the record at LSN {start} was truncated"));
        }
    }
}

/// Records lie where they were appended, and no position is used twice.
fn places(promises: &Promises, survivor: &Survivor, outcome: &mut CheckOutcome) {
    let mut where_appended: HashMap<(u64, u64, u64), u64> = HashMap::new();
    let mut opened = promises.base.as_ref().map_or(0, |b| b.end);
    for session in &promises.sessions {
        if let Some(e) = session.all(Kind::Opened).next() {
            if e.end < opened {
                outcome.breaks(format!(
                    "session {} recovered up to {} what reached {opened}",
                    session.number, e.end
                ));
            }
            opened = e.end;
        }
        for (start, record) in session.records() {
            let id = record.identity;
            where_appended.insert((id.session, id.thread, id.sequence), start);
            if start < opened {
                outcome.breaks(format!("LSN {start} was used twice"));
            }
        }
    }
    if let Some(base) = promises.base.as_ref().filter(|b| survivor.end < b.end) {
        let (end, before) = (survivor.end, base.end);
        outcome.breaks(format!(
            "the log ends at {end}, and was shown up to {before}"
        ));
    }
    for (start, there) in &survivor.present {
        let id = there.identity;
        let appended = where_appended.get(&(id.session, id.thread, id.sequence));
        if appended.is_some_and(|at| at != start) {
            outcome.breaks(format!(
                "{id:?} was appended elsewhere, and is at LSN {start}"
            ));
        }
        if there.end > survivor.end {
            outcome.breaks(format!("LSN {start} lies above the end {}", survivor.end));
        }
    }
}

/// Invariant 2: what is there of a session is a prefix of what it appended.
fn gaps(
    promises: &Promises,
    survivor: &Survivor,
    (done, begun): (&Ranges, &Ranges),
    outcome: &mut CheckOutcome,
) {
    for session in &promises.sessions {
        let mine = survivor
            .present
            .iter()
            .filter(|(_, p)| p.identity.session == session.number);
        let Some(last) = mine.map(|(start, _)| *start).max() else {
            continue;
        };
        for (start, record) in session.records().range(survivor.front..last) {
            let there = survivor.present.contains_key(start);
            if !there && !within(*start, done) && !within(*start, begun) {
                let id = record.identity;
                outcome.breaks(format!(
                    "a gap: record {} of thread {} of session {} at LSN {start} is missing, \
                     and one at {last} is there",
                    id.sequence, id.thread, id.session
                ));
            }
        }
    }
}

/// A thread's records are in the order in which it appended them, each once.
fn order(survivor: &Survivor, outcome: &mut CheckOutcome) {
    let mut last: HashMap<(u64, u64), u64> = HashMap::new();
    let mut end = 0;
    for (start, there) in &survivor.present {
        let id = there.identity;
        let before = last.insert((id.session, id.thread), id.sequence);
        if before.is_some_and(|b| b >= id.sequence) {
            outcome.breaks(format!("out of order at LSN {start}: {id:?}"));
        }
        if *start < end {
            outcome.breaks(format!("records overlap at LSN {start}"));
        }
        end = there.end;
    }
}

/// An atomic append is there whole or not at all. No truncation splits one.
fn groups(survivor: &Survivor, outcome: &mut CheckOutcome) {
    let mut members: BTreeMap<(u64, u64, u64), u64> = BTreeMap::new();
    let grouped = survivor.present.values().map(|p| p.identity);
    for id in grouped.clone() {
        *members
            .entry((id.session, id.thread, id.first))
            .or_default() += 1;
    }
    for id in grouped.filter(|id| id.sequence == id.first || id.count > 1) {
        let there = members[&(id.session, id.thread, id.first)];
        if there != id.count {
            outcome.breaks(format!("{there} of {} that are one: {id:?}", id.count));
        }
    }
}

/// The metadata is what was last set, or what was being set.
fn metadata(promises: &Promises, survivor: &Survivor, outcome: &mut CheckOutcome) {
    let base = promises.base.as_ref().and_then(|b| b.meta.clone());
    let base = base.as_deref().and_then(read_metadata);
    let mut least = base;
    let mut possible: Vec<Option<(u64, u64)>> = vec![base];
    for session in &promises.sessions {
        let numbered = |e: &crate::ledger::Entry| Some((session.number, e.sequence));
        possible.extend(session.all(Kind::MetaIntent).map(numbered));
        let done = session.claims(Kind::MetaDone).filter_map(numbered).max();
        least = least.max(done);
    }
    let found = match &survivor.meta {
        None => None,
        Some(bytes) => match read_metadata(bytes) {
            Some(found) => Some(found),
            None => return outcome.breaks("the metadata was never set".to_owned()),
        },
    };
    if found < least || !possible.contains(&found) {
        outcome.breaks(format!(
            "the metadata is {found:?}, and {least:?} had been set"
        ));
    }
}
