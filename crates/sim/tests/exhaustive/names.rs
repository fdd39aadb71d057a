//! Every subset of directory changes that a crash may leave, at every operation of a workload.

use super::workers::{share, thorough};
use logforce_core::Options;
use logforce_sim::model::{PATH, small};
use logforce_sim::workload::{Step, World};
use logforce_testkit::{Failure, Fault, Left, SimOptions, Survival};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the steps after a recovery, which need all files of the log, including the spares.
fn after() -> Vec<Step> {
    let mut steps = vec![Step::Commit(9_000); 4];
    steps.extend([Step::Front(60), Step::Commit(9_000), Step::Read]);
    steps
}

/// Returns steps of creation, rollover, recycling, truncation of several segments, closing and opening.
fn steps() -> Vec<Step> {
    let mut steps = vec![Step::Commit(100)];
    steps.extend(vec![Step::Commit(7_000); 8]);
    steps.extend([Step::Front(90), Step::Commit(7_000), Step::Commit(9_000)]);
    steps.extend([Step::Front(60), Step::Commit(9_000), Step::Reopen]);
    steps.extend(vec![Step::Commit(11_000); 4]);
    steps.extend([Step::Append(3_000), Step::Front(100), Step::Commit(5_000)]);
    steps
}

/// Returns steps that truncate several segments and use their files again.
fn recycling() -> Vec<Step> {
    let mut steps = vec![Step::Commit(7_000); 9];
    steps.extend([Step::Front(100), Step::Idle(5)]);
    steps.extend(vec![Step::Commit(7_000); 2]);
    steps
}

/// Returns all combinations of what may be left of each change.
fn combinations(may: &[Vec<Left>]) -> Vec<Vec<Left>> {
    let mut all = vec![Vec::new()];
    for choices in may {
        let with = |before: &Vec<Left>| {
            let before = before.clone();
            choices.iter().map(move |c| [&before[..], &[*c]].concat())
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

#[derive(Debug, Default)]
struct Count {
    points: u64,
    subsets: u64,
    states: u64,
    most: usize,
}

struct Case {
    name: &'static str,
    options: Options,
    torn: bool,
}

impl Case {
    fn world(&self, at: &str) -> World {
        let disk = SimOptions {
            torn_renames: self.torn,
            ..SimOptions::default()
        };
        let name = format!("{} {at}", self.name);
        World::new(name, disk, self.options.clone(), 1)
    }

    /// Cuts the power at one operation, and checks every state in which it may leave the names.
    fn at(&self, op: u64, count: &mut Count) {
        let world = self.world(&format!("cut at {op}"));
        world.disk.cut_at(op);
        let result = world.work(1, &[steps()]);
        assert!(world.disk.is_cut(), "{}: {result:?}", world.name);
        self.all_that_may_be_left(&world, op, count);
    }

    /// Fails one operation; the log goes on if it can. Cuts the power after its close.
    fn failing_at(&self, op: u64, at_most: usize, count: &mut Count) {
        let world = self.world(&format!("failing at {op}"));
        world.disk.fail_at(op, Fault::Io);
        world.work_through(1, &recycling());
        if world.disk.may_leave(PATH).len() <= at_most {
            self.all_that_may_be_left(&world, op, count);
        }
    }

    fn all_that_may_be_left(&self, world: &World, op: u64, count: &mut Count) {
        let may = world.disk.may_leave(PATH);
        let image = world.image();
        count.points += 1;
        count.most = count.most.max(may.len());
        let mut seen = BTreeSet::new();
        for left in combinations(&may) {
            count.subsets += 1;
            for data in [Survival::Lost, Survival::Kept] {
                world.restore(&image);
                world
                    .disk
                    .crash_leaving(Failure::Power, data, PATH, &left, op);
                if !seen.insert((world.disk.names(PATH), data == Survival::Kept)) {
                    continue;
                }
                count.states += 1;
                let after = if may.is_empty() { vec![] } else { after() };
                let recovered = world.recover(op, Failure::Power, &[]);
                // All files are used again. A file with two names must not become two files.
                let recovered =
                    recovered.and_then(|()| world.recover(op, Failure::Process, &after));
                recovered.unwrap_or_else(|e| {
                    let names = world.disk.names(PATH);
                    let _report = world.report(format!("{left:?} {data:?}: {names:?}"));
                    panic!("{} {left:?} {data:?}: {e}", world.name)
                });
            }
        }
    }

    /// Returns, for a power cut at each operation, the number of undecided name changes.
    fn undecided(&self) -> Vec<usize> {
        let whole = self.world("whole");
        whole.work(1, &[steps()]).expect("nothing fails");
        let ops = whole.disk.ops() as usize;
        let found = share(ops, Vec::new, |found, op| {
            let world = self.world(&format!("cut at {op}"));
            world.disk.cut_at(op as u64);
            let _ = world.work(1, &[steps()]);
            found.push((op, world.disk.may_leave(PATH).len()));
        });
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort_unstable();
        found.into_iter().map(|(_, undecided)| undecided).collect()
    }

    /// Cuts the power at every `stride`th operation among those with the same number of undecided changes,
    /// so that the few operations with many changes are included. Skips those with more than `at_most`.
    fn everywhere(&self, stride: usize, at_most: usize) {
        let mut before = BTreeMap::<usize, usize>::new();
        let mut points = Vec::new();
        for (op, undecided) in self.undecided().into_iter().enumerate() {
            let before = before.entry(undecided).or_default();
            if undecided <= at_most && before.is_multiple_of(stride) {
                points.push(op as u64);
            }
            *before += 1;
        }
        let workers = share(points.len(), Count::default, |count, n| {
            self.at(points[n], count);
        });
        let sum = |of: fn(&Count) -> u64| workers.iter().map(of).sum::<u64>();
        let most = workers.iter().map(|c| c.most).max();
        println!(
            "exhaustive names ({}): {} crash points, {} subsets of up to {} changes, {} different \
             states with data lost and kept",
            self.name,
            sum(|c| c.points),
            sum(|c| c.subsets),
            most.unwrap_or_default(),
            sum(|c| c.states),
        );
        assert!(most >= Some(4), "too few changes at a time");
    }
}

#[test]
fn every_subset_of_names() {
    Case {
        name: "whole renames",
        options: small().segment_size(16 << 10),
        torn: false,
    }
    .everywhere(if thorough() { 1 } else { 10 }, usize::MAX);
}

#[test]
fn every_subset_of_names_with_spares() {
    Case {
        name: "whole renames, three spares",
        options: small().segment_size(16 << 10).max_spare_segments(3),
        torn: false,
    }
    .everywhere(if thorough() { 1 } else { 15 }, usize::MAX);
}

/// A file whose preparation failed may come back, with the header of a segment that has since been prepared
/// in another file.
#[test]
fn every_subset_of_names_after_a_failure() {
    let case = Case {
        name: "after a failure",
        options: small().segment_size(16 << 10).max_spare_segments(3),
        torn: false,
    };
    let whole = case.world("whole");
    whole.work(1, &[recycling()]).expect("nothing fails");
    let ops = whole.disk.ops();
    let at_most = if thorough() { 10 } else { 6 };
    let workers = share(ops as usize, Count::default, |count, op| {
        case.failing_at(op as u64, at_most, count);
    });
    let points: u64 = workers.iter().map(|c| c.points).sum();
    let states: u64 = workers.iter().map(|c| c.states).sum();
    println!(
        "exhaustive names ({}): {points} failures of {ops}, {states} different states",
        case.name
    );
    assert!(points > ops / 2, "{points} of {ops}");
}

/// A filesystem without a journal may leave halves of renames; the supported filesystems do not. Each
/// undecided change multiplies the number of possible states by four, so at most four changes are tried.
#[test]
fn every_subset_of_halves_of_renames() {
    Case {
        name: "halves of renames",
        options: small().segment_size(16 << 10).max_spare_segments(3),
        torn: true,
    }
    .everywhere(
        if thorough() { 1 } else { 40 },
        if thorough() { usize::MAX } else { 4 },
    );
}

/// A filesystem repair may leave each file of the log a second time under the name of a spare.
#[test]
fn every_file_is_another_spare() {
    let case = Case {
        name: "second names",
        options: small().segment_size(16 << 10).max_spare_segments(3),
        torn: false,
    };
    let world = case.world("closed");
    world.work(1, &[steps()]).expect("nothing fails");
    let image = world.image();
    let mut count = [0; 2];
    for name in world.disk.names(PATH).into_keys() {
        let kinds = [".seg", ".spare"].map(|kind| name.ends_with(kind));
        for second in ["0000000000000001.spare", "fffffffffffff000.spare"] {
            if kinds == [false; 2] {
                continue;
            }
            world.restore(&image);
            assert!(world.disk.link_file(PATH, &name, second));
            let recovered = world.recover(1, Failure::Process, &after());
            recovered.unwrap_or_else(|e| panic!("{name} and {second}: {e}"));
            let names = world.disk.names(PATH);
            let files: BTreeSet<u64> = names.values().copied().collect();
            assert_eq!(files.len(), names.len(), "{name} and {second}: {names:?}");
            count = [0, 1].map(|n| count[n] + u32::from(kinds[n]));
        }
    }
    println!(
        "exhaustive names (second names): {} of segments, {} of spares",
        count[0], count[1]
    );
    assert!(count[0] >= 4 && count[1] >= 2, "too few files");
}
