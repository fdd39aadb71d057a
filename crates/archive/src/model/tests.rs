//! Bounds of the exhaustive tests, and the bounds within which each planted fault is found.
//!
//! A test prints its number of states. Each is compared with a lower limit, so that a change which cuts the
//! search short is noticed.

use super::node::Sizes;
use super::search::{Found, search};
use super::steps::Archive;
use super::world::Budget;
use crate::fault::{Fault, plant};
use std::cell::RefCell;

/// Bounds of a search.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    machines: usize,
    is_begun: bool,
    sizes: Sizes,
    budget: Budget,
}

const NOTHING: Budget = Budget {
    openings: 0,
    records: 0,
    faults: 0,
    truncations: 0,
    levels: 0,
    prunes: 0,
    restores: 0,
    rollbacks: 0,
};

/// An archive with an owner, two machines, two chunks in flight, one record in a segment.
const BEGUN: Bounds = Bounds {
    machines: 2,
    is_begun: true,
    sizes: Sizes {
        window: 2,
        seals: 1,
        segment: 1,
    },
    budget: NOTHING,
};

/// An archive with an owner, and its machine alone.
const ALONE: Bounds = Bounds {
    machines: 1,
    ..BEGUN
};

/// No archive yet. Hints may land late.
const EMPTY: Bounds = Bounds {
    is_begun: false,
    ..BEGUN
};

const fn with(bounds: Bounds, budget: Budget) -> Bounds {
    Bounds { budget, ..bounds }
}

const fn sized(bounds: Bounds, window: usize, seals: u64, segment: u64) -> Bounds {
    let sizes = Sizes {
        window,
        seals,
        segment,
    };
    Bounds { sizes, ..bounds }
}

fn explore(bounds: Bounds, fault: Option<Fault>) -> Found {
    plant(fault);
    let model = Archive {
        machines: bounds.machines,
        sizes: bounds.sizes,
        budget: bounds.budget,
        is_begun: bounds.is_begun,
        checked: RefCell::default(),
    };
    let found = search(&model);
    plant(None);
    found
}

/// Searches all states within the bounds.
#[track_caller]
fn holds(bounds: Bounds, budget: Budget, at_least: usize) {
    let bounds = with(bounds, budget);
    let found = explore(bounds, None);
    eprintln!(
        "{} states, {} steps deep: {bounds:?}",
        found.states, found.depth
    );
    if let Some(violation) = found.violation {
        panic!("{}\n{:#?}", violation.property, violation.steps);
    }
    assert!(found.states >= at_least, "{} states", found.states);
}

macro_rules! budget {
    ($($name:ident $count:literal)*) => {
        Budget { $($name: $count,)* ..NOTHING }
    };
}

#[test]
fn openings_from_nothing_and_takeovers() {
    holds(EMPTY, budget!(openings 2 records 1 faults 1), 30_000);
    let two_seals = sized(EMPTY, 2, 2, 1);
    holds(two_seals, budget!(openings 2 records 2), 35_000);
}

#[test]
fn restarts_and_takeovers_of_a_live_writer() {
    holds(BEGUN, budget!(openings 1 records 3 faults 1), 31_000);
    holds(BEGUN, budget!(openings 2 records 2 rollbacks 1), 91_000);
    let two_seals = sized(BEGUN, 2, 2, 1);
    holds(two_seals, budget!(openings 1 records 2 faults 1), 12_000);
}

#[test]
fn segments_replace_chunks_during_takeovers() {
    holds(
        BEGUN,
        budget!(openings 1 records 2 levels 1 faults 1),
        270_000,
    );
    let two_records = sized(BEGUN, 2, 2, 2);
    holds(two_records, budget!(openings 1 records 3 levels 1), 170_000);
}

#[test]
fn history_is_pruned_during_takeovers() {
    let budget = budget!(openings 1 records 2 truncations 1 levels 1 prunes 1);
    holds(BEGUN, budget, 169_000);
}

#[test]
fn a_restorer_reads_at_any_moment() {
    let budget = budget!(records 2 truncations 1 levels 1 prunes 1 restores 1);
    holds(ALONE, budget, 95_000);
    holds(BEGUN, budget!(openings 1 records 2 restores 1), 64_000);
}

#[test]
#[ignore = "deep: minutes of one core"]
fn deep_openings_from_nothing() {
    holds(EMPTY, budget!(openings 2 records 2 faults 1), 125_000);
    holds(EMPTY, budget!(openings 3 records 1), 198_000);
}

#[test]
#[ignore = "deep: minutes of one core"]
fn deep_restarts_and_takeovers() {
    let three = Bounds {
        machines: 3,
        ..BEGUN
    };
    holds(three, budget!(openings 3 records 1), 4_030_000);
    let three_chunks = sized(BEGUN, 3, 1, 1);
    let two_faults = budget!(openings 1 records 3 faults 2);
    holds(three_chunks, two_faults, 1_030_000);
    let two_seals = sized(BEGUN, 2, 2, 1);
    let a_fault = budget!(openings 2 records 2 faults 1);
    holds(two_seals, a_fault, 2_150_000);
    holds(BEGUN, budget!(openings 2 records 4), 967_000);
}

#[test]
#[ignore = "deep: minutes of one core"]
fn deep_segments() {
    holds(BEGUN, budget!(openings 2 records 2 levels 1), 1_090_000);
    holds(BEGUN, budget!(openings 1 records 3 levels 2), 610_000);
    let two_records = sized(BEGUN, 2, 1, 2);
    holds(
        two_records,
        budget!(openings 1 records 3 levels 1 faults 1),
        1_750_000,
    );
}

#[test]
#[ignore = "deep: minutes of one core"]
fn deep_pruning() {
    let budget = budget!(openings 1 records 3 truncations 1 levels 1 prunes 1);
    holds(BEGUN, budget, 2_340_000);
    let budget = budget!(openings 1 records 2 truncations 1 levels 1 prunes 1 faults 1);
    holds(BEGUN, budget, 2_490_000);
}

#[test]
#[ignore = "deep: minutes of one core"]
fn deep_restorers() {
    let budget = budget!(records 3 truncations 1 levels 1 prunes 1 restores 1);
    holds(sized(ALONE, 2, 1, 2), budget, 827_000);
    holds(ALONE, budget!(records 3 levels 2 restores 1), 359_000);
    let budget = budget!(openings 1 records 2 levels 1 restores 1);
    holds(BEGUN, budget, 6_490_000);
}

/// Bounds within which a planted fault is found. `None` for those that `chase` and `damage` find.
fn bounds_of(fault: Fault) -> Option<Bounds> {
    Some(match fault {
        Fault::AcknowledgedBehindAHole => with(ALONE, budget!(records 2)),
        Fault::ExistingIsMine => with(ALONE, budget!(records 1 faults 1)),
        Fault::SealPassedOver => with(BEGUN, budget!(openings 1 records 2)),
        Fault::SettledTooEarly => with(BEGUN, budget!(openings 1 records 3)),
        Fault::DeletedBeforeTheFloor => with(ALONE, budget!(records 2 levels 1)),
        Fault::FloorAboveSegments => with(sized(ALONE, 2, 1, 2), budget!(records 3 levels 1)),
        Fault::FloorMovesBack => with(ALONE, budget!(records 3 levels 2 faults 1)),
        Fault::SealDeleted => with(BEGUN, budget!(openings 1 records 3 levels 1)),
        Fault::SweptTooEarly => with(BEGUN, budget!(openings 1 records 2 levels 1)),
        Fault::SegmentTooEarly => {
            let one_chunk = sized(BEGUN, 1, 1, 1);
            with(one_chunk, budget!(openings 1 records 3 levels 2))
        }
        Fault::NoLookAfterOwnSeal => with(BEGUN, budget!(openings 1 records 2 levels 1)),
        Fault::NoLookAfterOthersSeal | Fault::HintTooEarly => {
            with(BEGUN, budget!(openings 2 records 2 levels 1))
        }
        Fault::AnySealCounts => with(BEGUN, budget!(openings 1 records 1)),
        Fault::DeposedGoesOn => with(BEGUN, budget!(openings 2 records 2)),
        Fault::ShorterGoesOn | Fault::EndComparedOnce => {
            let two_seals = sized(ALONE, 2, 2, 1);
            with(two_seals, budget!(openings 1 records 1 rollbacks 1))
        }
        Fault::RestorerLooksOnce => with(ALONE, budget!(records 3 levels 2 restores 1)),
        Fault::PrunedBelowLocalFront => with(ALONE, budget!(records 2 truncations 1 prunes 1)),
        Fault::DeletedBeforePruned => {
            with(ALONE, budget!(records 3 truncations 1 levels 1 prunes 1))
        }
        Fault::SealsNotDoubled
        | Fault::HoleIsTheEnd
        | Fault::SealedWithoutALook
        | Fault::RestorerEndsEarly => return None,
    })
}

#[test]
fn each_planted_fault_is_found() {
    for fault in Fault::ALL.iter().copied() {
        let Some(bounds) = bounds_of(fault) else {
            continue;
        };
        let found = explore(bounds, Some(fault));
        let Some(violation) = found.violation else {
            panic!("{fault:?} was not found among {} states", found.states);
        };
        eprintln!(
            "{fault:?}: {} steps, {} states: {}",
            found.depth, found.states, violation.property
        );
        if std::env::var_os("LOGFORCE_STEPS").is_some() {
            eprintln!("{:#?}", violation.steps);
        }
    }
}
