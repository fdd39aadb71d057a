//! Every pair of crash points of a short workload.

use crate::crew::{all, share};
use logforce_core::Error;
use logforce_sim::model::{lock, small};
use logforce_sim::work::{Step, World};
use logforce_testkit::{Failure, SimOptions, Survival};

/// What is done before the first crash: commits, an append of several records, rollover, both
/// truncations, metadata.
fn before() -> Vec<Step> {
    vec![
        Step::Commit(200),
        Step::Meta(30),
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

/// What goes on after it.
fn after() -> Vec<Step> {
    vec![
        Step::CommitGroup(2, 900),
        Step::Meta(32),
        Step::Append(4_000),
        Step::Back(1),
        Step::Commit(10),
        Step::Front(50),
        Step::Commit(11),
    ]
}

/// How the first crash and the second leave what was not durable.
const SURVIVALS: [(Survival, Survival); 5] = [
    (Survival::Lost, Survival::Lost),
    (Survival::Kept, Survival::Lost),
    (Survival::Lost, Survival::Kept),
    (Survival::Writes, Survival::Writes),
    (Survival::Sectors, Survival::Sectors),
];

#[derive(Debug, Default)]
struct Count {
    firsts: u64,
    pairs: u64,
}

fn world(at: String) -> World {
    let options = small().segment_len(16 << 10);
    World::new(at, SimOptions::default(), options, 1)
}

/// The first crash at `first`, the second at every operation from there on.
fn from(first: u64, count: &mut Count) {
    let world = world(format!("cut at {first}"));
    world.disk.cut_at(first);
    let result = world.work(1, &[before()]);
    assert!(world.disk.is_cut(), "{}: {result:?}", world.name);
    let cut = world.image();
    // One kind at each point, two at every other; the neighbours have the others.
    let kinds = match (all(), first % 2) {
        (true, _) => SURVIVALS.len() as u64,
        (false, 0) => 2,
        (false, _) => 1,
    };
    for n in 0..kinds {
        let kind = (first + n * 2) as usize % SURVIVALS.len();
        let (one, two) = SURVIVALS[kind];
        world.restore(&cut);
        world.disk.crash(Failure::Power, Some(one), first);
        let crashed = world.image();
        go_on(&world, first).expect("nothing fails");
        let ops = world.disk.ops();
        count.firsts += 1;
        for second in 0..ops {
            let _report = world.report(format!("{one:?}, then {two:?} at {second} of {ops}"));
            world.restore(&crashed);
            world.disk.cut_at(second);
            let result = go_on(&world, first);
            assert!(world.disk.is_cut(), "{}: {result:?}", world.name);
            world
                .disk
                .crash(Failure::Power, Some(two), second << 20 ^ first);
            let recovered = world.recover(second, Failure::Power, &[]);
            recovered.unwrap_or_else(|e| panic!("{} {second}: {e}", world.name));
            count.pairs += 1;
        }
    }
}

/// Recovery from a loss of power, and on.
fn go_on(world: &World, seed: u64) -> Result<(), Error> {
    world.work_after(Failure::Power, seed, &[after()])
}

#[test]
fn every_pair_of_crashes() {
    let whole = world("whole".to_owned());
    whole.work(1, &[before()]).expect("nothing fails");
    let ops = whole.disk.ops();
    assert!(lock(&whole.model).live().len() >= 3);
    let crew = share(ops as usize, Count::default, |count, op| {
        from(op as u64, count);
    });
    let sum = |of: fn(&Count) -> u64| crew.iter().map(of).sum::<u64>();
    println!(
        "exhaustive pairs: {ops} operations, {} first crashes, {} pairs",
        sum(|c| c.firsts),
        sum(|c| c.pairs),
    );
}
