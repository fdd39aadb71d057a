//! Lives of a log that follow from a seed: threads, options, disks, failures, crashes in recovery.
//!
//! `LOGFORCE_SEEDS=n` runs so many, `LOGFORCE_SEED=s` replays one.

use logforce_core::{FileState, Guarantee, Method, Options};
use logforce_sim::from_env;
use logforce_sim::model::lock;
use logforce_sim::work::{Step, World, random_steps};
use logforce_testkit::{Failure, Fault, Rng, SimOptions};
use std::time::Duration;

/// How many seeds are run where nobody says otherwise.
const SEEDS: u64 = 1_500;

fn random_options(rng: &mut Rng, disk: &SimOptions) -> Options {
    let unit = disk.facts().write_unit();
    let methods: Vec<Method> = Method::LINUX
        .into_iter()
        .filter(|m| disk.facts().assess(*m, FileState::Zeroed).is_some())
        .collect();
    let max_batch = unit * (2 + rng.below(4) as u32);
    Options::new()
        .method(rng.pick(&methods))
        .require(Guarantee::ProcessCrash)
        .segment_len(u64::from(unit) * (4 + rng.below(6)))
        .max_batch(max_batch)
        .staging(max_batch as usize * (1 + rng.below(4) as usize))
        .idle_stamp(Duration::from_micros(rng.pick(&[100, 2_000, 50_000])))
        .spares(rng.below(3) as usize)
        .live_stats(rng.one_in(2))
}

fn random_threads(rng: &mut Rng) -> Vec<Vec<Step>> {
    if rng.one_in(2) {
        let count = 5 + rng.below(25);
        return vec![random_steps(rng, count, true)];
    }
    let threads = 2 + rng.below(3);
    (0..threads)
        .map(|n| {
            let count = 3 + rng.below(12);
            let mut steps = random_steps(rng, count, false);
            // One thread only truncates: of two, neither could say what must be there.
            steps.retain(|s| n == 0 || !matches!(s, Step::Front(_) | Step::Back(_)));
            steps
        })
        .collect()
}

/// A life of several boots.
fn life(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = SimOptions {
        log_lines: 400,
        ..SimOptions::random(seed)
    };
    let options = random_options(&mut rng, &disk);
    let mut world = World::new(format!("LOGFORCE_SEED={seed}"), disk, options, seed);
    for boot in 0..1 + rng.below(4) {
        if rng.one_in(3) {
            // Moved to a device with other sectors, opened by a program with other ideas.
            let physical = rng.pick(&[4096, 4096, 8192, 16384]);
            world.disk.change(|o| o.physical_sector = physical);
            world.options = random_options(&mut rng, &world.disk.options());
        }
        let mut disturbed = false;
        if rng.one_in(4) {
            let fault = rng.pick(&[Fault::Io, Fault::NoSpace]);
            world.disk.fail_at(rng.below(200), fault);
            disturbed = true;
        }
        if !rng.one_in(4) {
            let within = rng.pick(&[60, 300]);
            world.disk.cut_at(rng.below(within));
            disturbed = true;
        }
        let result = world.work(seed ^ boot, &random_threads(&mut rng));
        let _report = world.report(format!("boot {boot}: {result:?}"));
        assert!(result.is_ok() || disturbed, "{result:?}");
        let failure = rng.pick(&[
            Failure::Power,
            Failure::Power,
            Failure::Power,
            Failure::Os,
            Failure::Process,
        ]);
        world.disk.crash(failure, None, rng.bits());
        // The cache that a crashed process leaves may be lost by the next failure.
        let mut worst = failure;
        if world.failed_operation().contains("barrier") {
            // So may what a barrier that failed was to write: the reopening believes the medium.
            worst = Failure::Power;
        }
        while rng.one_in(3) {
            world.disk.cut_at(rng.below(45));
            world.try_open(rng.bits(), worst);
            let next = rng.pick(&[Failure::Power, Failure::Process]);
            world.disk.crash(next, None, rng.bits());
            if next == Failure::Power {
                worst = next;
            }
        }
        let recovered = world.recover(rng.bits(), worst, &[]);
        recovered.unwrap_or_else(|e| panic!("boot {boot}: {e}"));
    }
    let _report = world.report("at the end".to_owned());
    let steps = [Step::Append(500), Step::Commit(9_000), Step::Read];
    let recovered = world.recover(seed, Failure::Process, &steps);
    recovered.unwrap_or_else(|e| panic!("at the end: {e}"));
    assert!(lock(&world.model).live().len() >= 2);
}

#[test]
fn random_lives() {
    if let Some(seed) = from_env("LOGFORCE_SEED") {
        return life(seed);
    }
    let count = from_env("LOGFORCE_SEEDS").unwrap_or(SEEDS);
    for seed in 0..count {
        life(seed);
    }
}
