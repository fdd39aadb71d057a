//! Random runs of a log, each determined by a seed: threads, options, disks, failures, crashes
//! inside recovery, and what the log shows of a corrupted copy.

mod corruption;
mod coverage;
mod histories;
mod replicas;

pub use coverage::Coverage;

use crate::mending::OnDamage;
use crate::model::{PATH, lock};
use crate::workload::{
    Step, World, amounts_to, forget_reports, is_quiet, random_failing_calls, random_steps,
};
use logforce_core::{EnvironmentOptions, Error, ErrorKind, FileState, Guarantee, Method, Options};
use logforce_testkit::{Failure, Fault, FaultKind, Rng, SimOptions};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Least number of calls of the log in a run.
pub const CALLS: u64 = 200;

/// Least number of power cuts in a run.
pub const POWER_CUTS: u64 = 3;

/// Draws options. Returns them and the size of their segments.
fn random_options(rng: &mut Rng, disk: &SimOptions) -> (Options, u64) {
    let unit = disk.facts().write_unit();
    let methods: Vec<Method> = Method::LINUX
        .into_iter()
        .filter(|m| disk.facts().assess(*m, FileState::Zeroed).is_some())
        .collect();
    let max_batch = unit * (2 + rng.below(4) as u32);
    let segment_size = u64::from(unit) * (4 + rng.below(6));
    let options = Options::new()
        .method(rng.pick(&methods))
        .require(Guarantee::ProcessCrash)
        .segment_size(segment_size)
        .max_batch_size(max_batch.into())
        .buffer_size(u64::from(max_batch) * (1 + rng.below(4)))
        .idle_stamp(Duration::from_micros(rng.pick(&[100, 2_000, 50_000])))
        .max_spare_segments(rng.below(3) as usize)
        .max_in_flight_writes(1 + rng.below(4) as usize)
        .in_flight_at_first(4)
        .large_write_size(rng.pick(&[1, 4096, 65_536]))
        .live_stats(rng.one_in(2));
    (options, segment_size)
}

/// Lets segments begin small and grow, and draws an environment for the log. Uses a separate generator,
/// so that the other choices of known seeds stay the same.
fn share(world: &mut World, segment_size: u64, rng: &mut Rng) {
    world.options = world.options.clone().device_zeroes(true);
    let unit = u64::from(world.disk.options().facts().write_unit());
    if rng.one_in(3) {
        let units = (segment_size / unit).max(4);
        let first = unit * (4 + rng.below(units - 3));
        world.options = world.options.clone().first_segment_size(first);
    }
    world.environment = rng.one_in(3).then(|| {
        EnvironmentOptions::new()
            .threads(2 + rng.below(3) as usize)
            .memory_size(rng.pick(&[0, 64 << 10, 64 << 20]))
            .open_logs(1)
    });
    // The write limit lies below the end of the prepared space.
    if rng.one_in(2) {
        let step = rng.pick(&[1, 8 * unit, 30 * unit]);
        world.options = world.options.clone().write_limit_step(step);
    }
    // The bulk threshold: some segments are only reserved.
    if rng.one_in(2) {
        let bulk = rng.pick(&[1, unit, 4 * unit]);
        world.options = world.options.clone().force_of_bulk(bulk);
    }
    // A write waits for those whose commits were just acknowledged.
    if rng.one_in(3) {
        world.options = world.options.clone().in_flight_at_first(0);
    }
}

fn random_threads(rng: &mut Rng) -> Vec<Vec<Step>> {
    if rng.one_in(2) {
        let count = 20 + rng.below(60);
        return vec![random_steps(rng, count, true)];
    }
    let threads = 2 + rng.below(3);
    (0..threads)
        .map(|n| {
            let count = 5 + rng.below(25);
            let mut steps = random_steps(rng, count, false);
            // Only one thread truncates and sets metadata: with two, the model could not say whose
            // call came last.
            let alone = |s: &Step| matches!(s, Step::Front(_) | Step::Back(_) | Step::Meta(_));
            steps.retain(|s| n == 0 || !alone(s));
            steps
        })
        .collect()
}

/// A run in progress.
struct Simulation {
    world: World,
    rng: Rng,
    /// Generator that draws the calls that fail for a while. It is separate from `rng`, so that these calls
    /// do not change a run before the first of them fails.
    failing_rng: Rng,
    coverage: Coverage,
    /// Generator that draws the shared environment.
    sharing_rng: Rng,
    /// Generator that decides when the log is restored from a copy. It is separate for the same reason.
    copying_rng: Rng,
    /// True if the device was made to panic.
    panics: bool,
    /// Size of the largest segments in the run, bytes.
    largest_segment: u64,
}

/// Makes the run of a seed, and returns its coverage.
///
/// # Panics
/// If an invariant does not hold. The message names what was seen.
pub fn run(seed: u64) -> Coverage {
    let mut rng = Rng::new(seed);
    let mut copying_rng = Rng::new(seed ^ 0x00c0_b1e5);
    let disk = SimOptions {
        tells_blocks: !copying_rng.one_in(4),
        zeroes: Rng::new(seed ^ 0x1d_2e70_e500).one_in(8),
        // A batch of thousands of runs never prints these lines, which would cost as much time as the
        // run itself.
        log_lines: if is_quiet() { 0 } else { 400 },
        ..SimOptions::random(seed)
    };
    let (options, largest_segment) = random_options(&mut rng, &disk);
    let mut run = Simulation {
        world: World::new(format!("seed {seed}"), disk, options, seed),
        rng,
        failing_rng: Rng::new(seed ^ 0x7b0b_13e5),
        coverage: Coverage::default(),
        sharing_rng: Rng::new(seed ^ 0x51a2_ed00),
        copying_rng,
        panics: false,
        largest_segment,
    };
    share(&mut run.world, largest_segment, &mut run.sharing_rng);
    let mut boot = 0;
    while run.coverage.power_cuts < POWER_CUTS || run.world.calls.load(Relaxed) < CALLS {
        if boot > 0 && run.rng.one_in(2) {
            run.change_device();
        }
        run.plan_faults();
        run.work(seed, boot);
        let (crashed, mut failure) = run.crash();
        if run.rng.one_in(3) {
            let image = run.world.image();
            let truncated = corruption::corrupt_and_look(
                &mut run.world,
                &mut run.rng,
                crashed,
                &mut run.coverage,
            );
            if truncated && run.failing_rng.one_in(2) {
                corruption::continue_truncated(&run.world, run.failing_rng.bits());
                run.coverage.continued += 1;
                failure = Failure::Power;
            } else {
                run.world.restore(&image);
            }
        }
        if failure != Failure::Process && run.copying_rng.one_in(4) {
            run.world.disk.copy_sparsely(PATH);
            run.coverage.sparse_copies += 1;
        }
        run.recover(boot, failure);
        // All panics so far were intended.
        forget_reports();
        boot += 1;
    }
    run.coverage.diverged = histories::run(seed);
    run.coverage.note_replicas(replicas::run(seed));
    run.finish(seed)
}

impl Simulation {
    /// Moves the log to a device with other sectors, and opens it with other options.
    fn change_device(&mut self) {
        let physical = self.rng.pick(&[4096, 4096, 8192, 16384]);
        self.world.disk.change(|o| o.physical_sector = physical);
        let (options, segment_size) = random_options(&mut self.rng, &self.world.disk.options());
        self.world.options = options;
        share(&mut self.world, segment_size, &mut self.sharing_rng);
        self.largest_segment = self.largest_segment.max(segment_size);
    }

    /// Plans the faults during the next work.
    fn plan_faults(&mut self) {
        let (disk, rng) = (&self.world.disk, &mut self.rng);
        self.panics = false;
        if rng.one_in(4) {
            let fault = rng.pick(&[
                Fault::Io,
                Fault::Io,
                Fault::Io,
                Fault::NoSpace,
                Fault::Panic,
            ]);
            disk.fail_at(rng.below(300), fault);
            self.panics = fault == Fault::Panic;
        }
        if rng.one_in(8) {
            let capacity = 1 << (17 + rng.below(5));
            disk.change(|o| o.capacity = Some(capacity));
        }
        if !rng.one_in(4) {
            let within = rng.pick(&[60, 400, 1_500]);
            disk.cut_at(rng.below(within));
        }
        if self.failing_rng.one_in(4) {
            for mut failing in random_failing_calls(&mut self.failing_rng) {
                // `recover_amid_failing_calls` covers openings; these calls fail later as well.
                failing.after += self.failing_rng.pick(&[0, 200, 1_000]);
                disk.fail_calls(failing);
            }
        }
    }

    fn work(&mut self, seed: u64, boot: u64) {
        let threads = random_threads(&mut self.rng);
        let world = &self.world;
        let before = errors(world);
        let worked = catch_unwind(AssertUnwindSafe(|| world.work(seed ^ boot, &threads)));
        let result = match worked {
            Ok(result) => result,
            Err(panic) if self.panics && is_injected(&*panic) => Err(Error::Closed),
            Err(panic) => resume_unwind(panic),
        };
        let _report = world.report(format!("boot {boot}: {result:?}"));
        if let Err(e) = &result
            && !world.disk.is_cut()
        {
            // An error needs a call of the device that failed, not only a planned failure, and its
            // kind must fit.
            let fits = [
                ErrorKind::Io,
                ErrorKind::NoSpace,
                ErrorKind::Poisoned,
                ErrorKind::Closed,
            ];
            assert!(errors(world) > before, "{e}");
            assert!(fits.contains(&e.kind()), "{:?}: {e}", e.kind());
        }
        world.disk.change(|o| o.capacity = None);
    }

    /// Ends the boot by a failure. Returns its kind and the kind that it amounts to. The model demands
    /// the records that survive the latter.
    fn crash(&mut self) -> (Failure, Failure) {
        let failure = self.rng.pick(&[
            Failure::Power,
            Failure::Power,
            Failure::Power,
            Failure::Os,
            Failure::Process,
        ]);
        let amounts_to = amounts_to(&self.world.disk, failure);
        self.world.disk.crash(failure, None, self.rng.bits());
        self.coverage.note_crash(failure);
        (failure, amounts_to)
    }

    /// Inspects and opens the log while calls fail. Returns the kind that all failures so far amount to.
    fn recover_amid_failing_calls(&mut self, failure: Failure) -> Failure {
        let (world, rng) = (&self.world, &mut self.failing_rng);
        let mut worst = failure;
        if rng.one_in(2) {
            world.look_amid_failing_calls(rng.bits(), rng);
        }
        while rng.one_in(2) {
            let on_damage = rng.pick(&[OnDamage::Refuse, OnDamage::Repair]);
            let failing = random_failing_calls(rng);
            let opened = world.open_amid_failing_calls(rng.bits(), worst, on_damage, &failing);
            self.coverage.openings_amid_failing_calls += 1;
            self.coverage.opened_amid_failing_calls += u64::from(opened);
            worst = amounts_to(&world.disk, worst);
            if rng.one_in(2) {
                let next = rng.pick(&[Failure::Power, Failure::Process]);
                world.disk.crash(next, None, rng.bits());
                self.coverage.note_crash(next);
                if next == Failure::Power {
                    worst = next;
                }
            }
        }
        worst
    }

    fn recover(&mut self, boot: u64, failure: Failure) {
        // The next failure may lose the system's cache that a crashed process has left.
        let mut worst = self.recover_amid_failing_calls(failure);
        while self.rng.one_in(3) {
            self.world.disk.cut_at(self.rng.below(45));
            let returned = self.world.try_open(self.rng.bits(), worst);
            let next = self.rng.pick(&[Failure::Power, Failure::Process]);
            self.world.disk.crash(next, None, self.rng.bits());
            self.coverage.note_crash(next);
            self.coverage.crashes_in_recovery += u64::from(!returned);
            if next == Failure::Power {
                worst = next;
            }
        }
        let recovered = self.world.recover(self.rng.bits(), worst, &[]);
        recovered.unwrap_or_else(|e| panic!("boot {boot}: {e}"));
    }

    fn finish(mut self, seed: u64) -> Coverage {
        let world = &self.world;
        let _report = world.report("at the end".to_owned());
        let steps = [Step::Append(500), Step::Commit(9_000), Step::Read];
        let recovered = world.recover(seed, Failure::Process, &steps);
        recovered.unwrap_or_else(|e| panic!("at the end: {e}"));
        let model = lock(&world.model);
        assert!(model.live().len() >= 2);
        self.coverage.runs = 1;
        self.coverage.calls = world.calls.load(Relaxed);
        self.coverage.rolled_over = u64::from(model.opened_at().0 > self.largest_segment);
        self.coverage.truncated = u64::from(model.was_truncated());
        drop(model);
        self.coverage
            .note_found(&world.found.lock().expect("never panics"));
        self.coverage.note_faults(&world.disk.faults());
        self.coverage
    }
}

/// Returns the number of device calls that have failed or panicked.
fn errors(world: &World) -> u64 {
    let counts = world.disk.faults();
    let kinds = [
        FaultKind::WriteError,
        FaultKind::BarrierError,
        FaultKind::OtherError,
        FaultKind::ReadError,
        FaultKind::ProcessError,
        FaultKind::ShortRead,
        FaultKind::ShortListing,
        FaultKind::NoSpace,
        FaultKind::Panic,
    ];
    kinds.into_iter().map(|kind| counts.get(kind)).sum()
}

fn is_injected(panic: &(dyn std::any::Any + Send)) -> bool {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied());
    text.is_some_and(|t| t.contains("(injected)"))
}

/// Counts an opening that was refused, with the row of the decision table that its error names.
fn note_refusal(error: &Error, coverage: &mut Coverage) {
    if let Error::Damaged(damage) = error {
        coverage.note_case(damage.case);
        coverage.damages += 1;
    } else {
        assert_ne!(error.kind(), ErrorKind::InvalidInput, "{error}");
        coverage.other_refusals += 1;
    }
}
