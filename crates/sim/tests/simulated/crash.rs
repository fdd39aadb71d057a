//! Crashes at every device operation of a workload, and the recovery after them.

use logforce_core::{Guarantee, Method, Options};
use logforce_sim::model::{lock, small};
use logforce_sim::stride;
use logforce_sim::workload::{Step, World};
use logforce_testkit::{Failure, SimOptions, Survival};

/// Steps after a recovery, which the log must accept.
pub const AFTER: [Step; 4] = [
    Step::Append(100),
    Step::Commit(3000),
    Step::Group(2, 700),
    Step::Read,
];

/// A workload, a disk, options.
pub struct Case {
    pub name: &'static str,
    pub disk: SimOptions,
    pub options: Options,
    pub threads: Vec<Vec<Step>>,
}

impl Case {
    pub fn world(&self, at: &str) -> World {
        let name = format!("{} {at}", self.name);
        World::new(name, self.disk.clone(), self.options.clone(), 1)
    }

    /// Cuts the power at every operation and checks several survivals of each.
    fn crash_everywhere(&self, failure: Failure, survivals: u64) {
        self.crash_at(failure, survivals, 0, 1);
    }

    /// Does the same as `crash_everywhere` only at every `stride`th operation.
    pub fn crash_at(&self, failure: Failure, survivals: u64, first: usize, stride: usize) {
        let whole = self.world("whole");
        whole.work(1, &self.threads).expect("nothing fails");
        let ops = whole.disk.ops();
        for op in (0..ops).skip(first).step_by(stride) {
            let world = self.world(&format!("cut at {op} of {ops}"));
            world.disk.cut_at(op);
            let result = world.work(1, &self.threads);
            assert!(world.disk.is_cut(), "{}: {result:?}", world.name);
            let image = world.image();
            for n in 0..survivals {
                world.restore(&image);
                let survival = Survival::ALL[((op + n) % 5) as usize];
                world.disk.crash(failure, Some(survival), op * 10 + n);
                // All later steps run only for one survival, because they cost more than the rest.
                let after = if n == 0 { &AFTER[..] } else { &[] };
                let recovered = world.recover(op, failure, after);
                recovered.unwrap_or_else(|e| {
                    let _report = world.report(format!("survival {n}"));
                    panic!("{} survival {n}: {e}", world.name)
                });
                if n == 0 {
                    assert!(lock(&world.model).live().len() >= 4);
                }
            }
        }
    }
}

pub fn case(name: &'static str, threads: Vec<Vec<Step>>) -> Case {
    Case {
        name,
        disk: SimOptions::default(),
        options: small(),
        threads,
    }
}

/// Returns commits that fill several segments.
fn rollover() -> Vec<Step> {
    let mut steps = vec![Step::Commit(0), Step::Commit(10), Step::Idle(5)];
    steps.extend((0..10).map(|n| Step::Commit(1000 + 900 * n)));
    steps.push(Step::Read);
    steps
}

/// Returns appends of records over several batches and segments, with atomic groups among them.
pub fn spanning() -> Vec<Step> {
    vec![
        Step::Commit(100),
        Step::Commit(20_000),
        Step::Group(3, 6_000),
        Step::Commit(60_000),
        Step::Append(30_000),
        Step::CommitGroup(4, 9_000),
        Step::Read,
    ]
}

/// Returns truncations at both ends, with recycling, and appends after them.
pub fn truncation() -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..3 {
        steps.extend((0..6).map(|n| Step::Commit(3_000 + 800 * n)));
        steps.extend([Step::Front(60), Step::Append(2_000), Step::Append(9_000)]);
        steps.extend([Step::Back(2), Step::Commit(50), Step::Read, Step::Back(1)]);
    }
    steps.extend([Step::Commit(10), Step::Front(100), Step::Commit(10)]);
    steps
}

/// Returns many appends and one force, then batches beside a through write.
pub fn bulk() -> Vec<Step> {
    let mut steps = vec![Step::Append(1_500); 40];
    steps.extend([Step::Force, Step::Append(5_000), Step::Idle(5)]);
    steps.extend([Step::Append(12_000), Step::Append(10), Step::Idle(1)]);
    steps.extend([Step::Commit(10), Step::Commit(20), Step::Read]);
    steps
}

/// Returns steps that close, open and drop the log.
fn reopening() -> Vec<Step> {
    vec![
        Step::Commit(100),
        Step::Reopen,
        Step::Append(9_000),
        Step::Drop,
        Step::Commit(14_000),
        Step::Idle(5),
        Step::Reopen,
        Step::Reopen,
        Step::Front(100),
        Step::Reopen,
        Step::Commit(1),
        Step::Back(1),
        Step::Reopen,
        Step::Commit(2),
    ]
}

#[test]
fn rollover_survives() {
    case("rollover", vec![rollover()]).crash_everywhere(Failure::Power, 3);
}

#[test]
fn spanning_records_survive() {
    case("spanning", vec![spanning()]).crash_everywhere(Failure::Power, 3);
}

#[test]
fn truncation_survives() {
    case("truncation", vec![truncation()]).crash_everywhere(Failure::Power, 3);
}

#[test]
fn bulk_survives() {
    case("bulk", vec![bulk()]).crash_everywhere(Failure::Power, 3);
}

#[test]
fn reopening_survives() {
    case("reopening", vec![reopening()]).crash_everywhere(Failure::Power, 3);
}

#[test]
fn several_committers_survive() {
    let committer = |n: usize| {
        let mut steps: Vec<Step> = (0..5).map(|i| Step::Commit(n * 700 + i * 300)).collect();
        steps.extend([Step::Append(4_000), Step::Group(3, 2_000), Step::Force]);
        steps
    };
    let mut threads: Vec<Vec<Step>> = (0..3).map(committer).collect();
    threads[0].extend([Step::Front(50), Step::Commit(3), Step::Back(1)]);
    case("committers", threads).crash_everywhere(Failure::Power, 3);
}

/// Every durable method survives on several kinds of disk.
#[test]
fn every_durable_method_survives() {
    let kinds = [
        SimOptions::default(),
        SimOptions {
            sector: 4096,
            blocking: true,
            isolate_flush: false,
            ..SimOptions::default()
        },
        SimOptions {
            direct: false,
            ..SimOptions::default()
        },
        SimOptions {
            in_place: false,
            physical_sector: 8192,
            ..SimOptions::default()
        },
    ];
    let mut steps = spanning()[..5].to_vec();
    steps.extend([Step::Front(50), Step::Commit(9_000), Step::Back(1)]);
    for method in Method::LINUX {
        for (n, disk) in kinds.iter().enumerate() {
            if method.plan().direct && !disk.direct {
                continue;
            }
            let weak = disk
                .facts()
                .assess(method, logforce_core::FileState::Zeroed);
            let guarantee = weak.map_or(Guarantee::Nothing, |a| a.guarantee);
            let mut case = case(method.name(), vec![steps.clone()]);
            case.disk = disk.clone();
            case.options = small()
                .max_batch_size(16 << 10)
                .method(method)
                .require(guarantee);
            // All methods together visit every operation; each alone would take too long.
            let every = stride(5);
            let first = (3 * method as usize + n) % every;
            case.crash_at(Failure::Power, 1, first, every);
            if n < 2 && guarantee < Guarantee::PowerLoss {
                case.crash_at(Failure::Process, 1, first, every);
                case.crash_at(Failure::Os, 1, first, 5);
            }
        }
    }
}
