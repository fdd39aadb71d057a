//! Every pair of crash points of a short workload.

use super::workers::{all, share, thorough};
use logforce_core::Error;
use logforce_sim::model::{lock, small};
use logforce_sim::workload::{Step, World};
use logforce_testkit::{Failure, Rng, SimOptions, Survival};
use std::collections::BTreeMap;

/// Returns the steps before the first crash: commits, an append of several records, rollover, both
/// truncations, metadata.
fn before() -> Vec<Step> {
    vec![
        Step::Commit(200),
        Step::Meta(1_500),
        Step::CommitGroup(3, 2_000),
        Step::Append(7_000),
        Step::Commit(50),
        Step::Back(1),
        Step::Commit(9_000),
        Step::Front(60),
        Step::Meta(31),
        Step::Commit(20),
    ]
}

/// Returns the steps after both crashes.
fn after() -> Vec<Step> {
    vec![
        Step::CommitGroup(2, 900),
        Step::Meta(1_600),
        Step::Append(4_000),
        Step::Back(1),
        Step::Commit(10),
        Step::Front(50),
        Step::Commit(11),
    ]
}

/// A pair of crashes: the kind of the first and what survives it of the volatile data, and what survives the
/// second, a power cut.
///
/// After a power cut only durable data is left. Only after a killed process can recovery find bytes that the
/// next power cut loses.
#[derive(Debug, Clone, Copy)]
struct Kind {
    first: Failure,
    left: Survival,
    second: Survival,
    /// True if recovery can read past the system's cache; otherwise it must believe the cache.
    direct: bool,
}

const fn kind(first: Failure, left: Survival, second: Survival, direct: bool) -> Kind {
    Kind {
        first,
        left,
        second,
        direct,
    }
}

const KINDS: [Kind; 10] = [
    kind(Failure::Power, Survival::Lost, Survival::Lost, true),
    kind(Failure::Process, Survival::Kept, Survival::Lost, true),
    kind(Failure::Power, Survival::Kept, Survival::Lost, false),
    kind(Failure::Process, Survival::Kept, Survival::Lost, false),
    kind(Failure::Power, Survival::Writes, Survival::Writes, true),
    kind(Failure::Os, Survival::Kept, Survival::Lost, true),
    kind(Failure::Power, Survival::Lost, Survival::Kept, false),
    kind(
        Failure::Process,
        Survival::Sectors,
        Survival::Sectors,
        false,
    ),
    kind(Failure::Power, Survival::Sectors, Survival::Sectors, true),
    kind(Failure::Os, Survival::Sectors, Survival::Writes, false),
];

#[derive(Debug, Default)]
struct Count {
    firsts: u64,
    /// Number of pairs, by the kind of the first crash.
    pairs: BTreeMap<String, u64>,
}

fn world(at: String, direct: bool) -> World {
    let options = small().segment_size(16 << 10).max_spare_segments(2);
    let disk = SimOptions {
        direct,
        ..SimOptions::default()
    };
    World::new(at, disk, options, 1)
}

/// Returns the number of operations of the workload before the first crash.
fn operations(direct: bool) -> u64 {
    let whole = world("whole".to_owned(), direct);
    whole.work(1, &[before()]).expect("nothing fails");
    assert!(lock(&whole.model).live().len() >= 3);
    whole.disk.ops()
}

/// Makes the first crash at `first`, and the second at every operation from there on.
fn from(first: u64, kind: Kind, count: &mut Count) {
    let world = world(format!("cut at {first}"), kind.direct);
    world.disk.cut_at(first);
    let result = world.work(1, &[before()]);
    assert!(world.disk.is_cut(), "{}: {result:?}", world.name);
    world.disk.crash(kind.first, Some(kind.left), first);
    let crashed = world.image();
    // Recovers from the first crash and goes on.
    let go_on = || -> Result<(), Error> { world.work_after(kind.first, first, &[after()]) };
    go_on().expect("nothing fails");
    let ops = world.disk.ops();
    count.firsts += 1;
    // Outside of a deep run only some; the neighbours of this crash have the others.
    let stride = if thorough() { 1 } else { 3 };
    for second in (first % stride..ops).step_by(stride as usize) {
        let _report = world.report(format!("{kind:?}, the second at {second} of {ops}"));
        world.restore(&crashed);
        world.disk.cut_at(second);
        let result = go_on();
        assert!(world.disk.is_cut(), "{}: {result:?}", world.name);
        let seed = second << 20 ^ first;
        world.disk.crash(Failure::Power, Some(kind.second), seed);
        let recovered = world.recover(second, Failure::Power, &[]);
        recovered.unwrap_or_else(|e| panic!("{} {second}: {e}", world.name));
        *count.pairs.entry(format!("{:?}", kind.first)).or_default() += 1;
    }
}

#[test]
fn every_pair_of_crashes() {
    let mut todo = Vec::new();
    for direct in [true, false] {
        let kinds = KINDS.into_iter().filter(|k| k.direct == direct);
        let kinds: Vec<Kind> = kinds.collect();
        for first in 0..operations(direct) {
            // One kind at each point; the neighbours have the others. But recovery must force what a
            // killed process leaves in a cache that cannot be bypassed. That kind is tried at every
            // point, because otherwise chance would decide which points have it.
            let rotating = kinds[first as usize % kinds.len()];
            let process = kinds.iter().copied().find(|k| k.first == Failure::Process);
            let here = match (all(), process) {
                (true, _) => kinds.clone(),
                (_, Some(process)) if !direct && rotating.first != Failure::Process => {
                    vec![rotating, process]
                }
                _ => vec![rotating],
            };
            todo.extend(here.into_iter().map(|kind| (first, kind)));
        }
    }
    // Pairs in which recovery must force come first, the others in random order, so that a bug shows soon.
    let mut rng = Rng::new(0);
    todo.sort_by_cached_key(|(_, kind)| (kind.first != Failure::Process, rng.bits()));
    let workers = share(todo.len(), Count::default, |count, n| {
        let (first, kind) = todo[n];
        from(first, kind, count);
    });
    let mut pairs = BTreeMap::<_, u64>::new();
    for (kind, n) in workers.iter().flat_map(|c| &c.pairs) {
        *pairs.entry(kind).or_default() += n;
    }
    println!(
        "exhaustive pairs: {} first crashes, {} pairs, by the kind of the first: {pairs:?}",
        workers.iter().map(|c| c.firsts).sum::<u64>(),
        pairs.values().sum::<u64>(),
    );
    assert_eq!(pairs.len(), 3, "a kind of crash was left out");
}
