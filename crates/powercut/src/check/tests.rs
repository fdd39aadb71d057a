//! Each rule finds what breaks it, and nothing in a log that keeps its promises.

use super::promises::{Promises, Session, Survivor};
use super::{CheckOutcome, Present, rules};
use crate::ledger::{Entry, Kind};
use crate::subject::{Identity, metadata};
use std::collections::BTreeMap;

const POWER_LOSS: u64 = 3;

fn record(session: u64, sequence: u64, first: u64, count: u64, end: u64) -> Present {
    let identity = Identity {
        session,
        thread: 0,
        sequence,
        first,
        count,
    };
    Present { identity, end }
}

fn acked(sequence: u64, start: u64, guarantee: u64) -> Entry {
    Entry {
        sequence,
        guarantee,
        ..Entry::range(Kind::Acked, start, start + 10)
    }
}

fn meta(kind: Kind, sequence: u64) -> Entry {
    Entry {
        sequence,
        ..Entry::of(kind)
    }
}

/// Session 7 appended 0 to 4 at 100, 110, … 140; 3 and 4 are one group. It moved the front to 100, and
/// set metadata 1, then perhaps 2.
fn whole() -> (Promises, Survivor) {
    let records: Vec<Entry> = (0..5).map(|n| acked(n, 100 + n * 10, POWER_LOSS)).collect();
    let control = vec![
        Entry::range(Kind::Opened, 50, 100),
        Entry::range(Kind::FrontIntent, 100, 100),
        Entry::range(Kind::FrontDone, 100, 100),
        meta(Kind::MetaIntent, 1),
        meta(Kind::MetaDone, 1),
        meta(Kind::MetaIntent, 2),
    ];
    let entries = vec![records, control];
    let mut promises = Promises::default();
    promises.add(Session {
        number: 7,
        claimed: entries.clone(),
        all: entries,
    });
    let mut present = BTreeMap::new();
    for n in 0..3 {
        present.insert(100 + n * 10, record(7, n, n, 1, 110 + n * 10));
    }
    present.insert(130, record(7, 3, 3, 2, 140));
    present.insert(140, record(7, 4, 3, 2, 150));
    let survivor = Survivor {
        front: 100,
        end: 150,
        present,
        meta: Some(metadata(7, 1)),
    };
    (promises, survivor)
}

fn compared(promises: &Promises, survivor: &Survivor) -> CheckOutcome {
    let mut outcome = CheckOutcome::default();
    rules::compare(promises, POWER_LOSS, survivor, &mut outcome);
    outcome
}

/// Returns the findings after a change of the promises or of the log.
fn found(change: impl FnOnce(&mut Promises, &mut Survivor)) -> CheckOutcome {
    let (mut promises, mut survivor) = whole();
    change(&mut promises, &mut survivor);
    compared(&promises, &survivor)
}

fn says(outcome: &CheckOutcome, what: &str) -> bool {
    outcome.broken.iter().any(|b| b.contains(what))
}

/// Both what was claimed and what was done.
fn also(promises: &mut Promises, thread: usize, entry: Entry) {
    promises.sessions[0].claimed[thread].push(entry);
    promises.sessions[0].all[thread].push(entry);
}

#[test]
fn kept_promises_are_no_finding() {
    let (promises, survivor) = whole();
    let outcome = compared(&promises, &survivor);
    assert_eq!(outcome.broken, [] as [String; 0]);
    assert_eq!((outcome.acknowledged, outcome.lost), (5, 0));
    // What was being set when the power went may be there.
    let later = found(|_, s| s.meta = Some(metadata(7, 2)));
    assert!(later.broken.is_empty(), "{later:?}");
}

#[test]
fn an_acknowledged_record_that_is_gone_is_lost() {
    let outcome = found(|_, s| {
        s.present.remove(&110);
    });
    assert_eq!((outcome.acknowledged, outcome.lost), (5, 1));
    assert!(says(&outcome, "lost: record 1"));
    let other = found(|_, s| {
        s.present.insert(110, record(7, 9, 9, 1, 120));
    });
    assert_eq!(other.lost, 1, "another record in its place");
    let weak = found(|p, s| {
        p.sessions[0].claimed[0].truncate(3);
        p.sessions[0].claimed[0].push(acked(3, 130, POWER_LOSS - 1));
        s.present.retain(|start, _| *start < 130);
    });
    assert!(weak.broken.is_empty(), "what was promised less: {weak:?}");
}

#[test]
fn what_lies_below_something_forced_is_lost_too() {
    let outcome = found(|p, s| {
        p.sessions[0].claimed[0].clear();
        let forced = Entry {
            guarantee: POWER_LOSS,
            ..Entry::range(Kind::Forced, 0, 120)
        };
        also(p, 1, forced);
        s.present.clear();
    });
    assert_eq!((outcome.acknowledged, outcome.lost), (2, 2));
}

#[test]
fn a_gap_is_found_though_nobody_was_promised_what_is_missing() {
    let outcome = found(|p, s| {
        p.sessions[0].claimed[0].clear();
        s.present.remove(&110);
    });
    assert_eq!(outcome.lost, 0);
    assert!(says(&outcome, "a gap"), "{outcome:?}");
}

#[test]
fn what_was_truncated_must_not_come_back() {
    let back = |kind| Entry::range(kind, 130, 150);
    let done = found(|p, _| {
        also(p, 1, back(Kind::BackIntent));
        also(p, 1, back(Kind::BackDone));
    });
    assert!(says(&done, "was truncated"), "{done:?}");
    let gone = |p: &mut Promises, s: &mut Survivor| {
        also(p, 1, back(Kind::BackIntent));
        s.present.retain(|start, _| *start < 130);
    };
    assert!(found(gone).broken.is_empty(), "begun, and all of it gone");
    let half = found(|p, s| {
        gone(p, s);
        s.present.insert(140, record(7, 4, 4, 1, 150));
    });
    assert_eq!(half.lost, 1, "begun, and half of it gone");
}

#[test]
fn the_front_is_where_it_was_moved() {
    assert!(says(&found(|_, s| s.front = 50), "was moved to 100"));
    assert!(says(&found(|_, s| s.front = 105), "never moved"));
}

#[test]
fn positions_are_used_once_and_reported_right() {
    let twice = found(|p, _| p.sessions[0].all[1][0].end = 115);
    assert!(says(&twice, "used twice"), "{twice:?}");
    let elsewhere = found(|_, s| {
        let moved = s.present.remove(&120).unwrap();
        s.present.insert(121, moved);
    });
    assert!(says(&elsewhere, "appended elsewhere"));
    assert!(says(&found(|_, s| s.end = 145), "above the end"));
    let shorter = found(|p, _| {
        p.base = Some(Survivor {
            end: 200,
            front: 50,
            ..Survivor::default()
        });
    });
    assert!(says(&shorter, "was shown up to 200"));
}

#[test]
fn order_and_overlaps_are_looked_at() {
    let swapped = found(|_, s| {
        let (a, b) = (s.present[&100], s.present[&110]);
        s.present.insert(100, Present { end: 110, ..b });
        s.present.insert(110, Present { end: 120, ..a });
    });
    assert!(says(&swapped, "out of order"));
    let overlapping = found(|_, s| {
        if let Some(first) = s.present.get_mut(&100) {
            first.end = 111;
        }
    });
    assert!(says(&overlapping, "overlap"));
}

#[test]
fn half_a_group_is_found() {
    let outcome = found(|p, s| {
        p.sessions[0].claimed[0].truncate(3);
        p.sessions[0].all[0].truncate(4);
        s.present.remove(&140);
    });
    assert!(says(&outcome, "1 of 2 that are one"), "{outcome:?}");
}

#[test]
fn metadata_goes_neither_back_nor_wrong() {
    assert!(says(&found(|_, s| s.meta = None), "had been set"));
    assert!(says(
        &found(|_, s| s.meta = Some(metadata(7, 3))),
        "had been set"
    ));
    assert!(says(&found(|_, s| s.meta = Some(vec![1; 20])), "never set"));
}

#[test]
fn what_an_opening_showed_is_promised() {
    let (mut promises, survivor) = whole();
    promises.replace_by(survivor.clone());
    assert!(compared(&promises, &survivor).broken.is_empty());
    let mut shorter = survivor;
    shorter.present.remove(&140);
    assert_eq!(compared(&promises, &shorter).lost, 1);
}

/// Errors of the library share the system's error, and those of a backend keep its number.
#[test]
fn a_damaged_filesystem_is_found_in_an_error() {
    let of = |errno: rustix::io::Errno| {
        let (error, path) = (std::io::Error::from(errno), std::path::Path::new("file"));
        let named = logforce_device::failure::at(&error, error.kind(), "read", path);
        [error, named].map(|error| logforce::file::Error::Io {
            doing: "read",
            path: path.into(),
            source: std::sync::Arc::new(error),
        })
    };
    for error in of(rustix::io::Errno::UCLEAN) {
        assert!(super::is_corruption(&error));
    }
    for error in of(rustix::io::Errno::NOENT) {
        assert!(!super::is_corruption(&error));
    }
}
