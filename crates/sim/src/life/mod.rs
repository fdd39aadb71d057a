//! Lives of a log that follow from a seed: threads, options, disks, failures, crashes in recovery,
//! and looks at what damage would do.

mod tally;
mod trip;

pub use tally::Tally;

use crate::model::lock;
use crate::work::{Step, World, amounts_to, is_quiet, random_steps, random_troubles};
use logforce_core::{Error, ErrorKind, FileState, Guarantee, Method, OnDamage, Options};
use logforce_testkit::{Failure, Fault, FaultKind, Rng, SimOptions, SimRuntime};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A life lasts for so many calls of the log at least,
pub const CALLS: u64 = 200;

/// and for so many losses of power.
pub const CUTS: u64 = 3;

/// Options, and how long their segments are.
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
        .max_batch(max_batch)
        .buffer_size(max_batch as usize * (1 + rng.below(4) as usize))
        .idle_stamp(Duration::from_micros(rng.pick(&[100, 2_000, 50_000])))
        .max_spare_segments(rng.below(3) as usize)
        .max_in_flight_writes(1 + rng.below(4) as usize)
        .pipeline_threshold(rng.pick(&[1, 4096, 65_536]))
        .live_stats(rng.one_in(2));
    (options, segment_size)
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
            // One thread only truncates and sets metadata: of two, neither could say what must be
            // there.
            let alone = |s: &Step| matches!(s, Step::Front(_) | Step::Back(_) | Step::Meta(_));
            steps.retain(|s| n == 0 || !alone(s));
            steps
        })
        .collect()
}

/// A life in progress.
struct Life {
    world: World,
    rng: Rng,
    /// Decides on calls that fail for a while. Apart from `rng`: a life is as it is without them, up
    /// to the first that strikes.
    trouble: Rng,
    tally: Tally,
    /// A call was made to fail, or space may end: the next work may end in an error.
    disturbed: bool,
    /// The device was made to panic.
    panics: bool,
    /// The longest segments it had.
    longest: u64,
}

/// Lives the life of a seed, and says what happened in it.
///
/// # Panics
/// If an invariant does not hold, with what was seen.
pub fn live(seed: u64) -> Tally {
    let mut rng = Rng::new(seed);
    let disk = SimOptions {
        // Nobody reads them where thousands live, and writing them down costs what a life does.
        log_lines: if is_quiet() { 0 } else { 400 },
        ..SimOptions::random(seed)
    };
    let (options, longest) = random_options(&mut rng, &disk);
    let mut life = Life {
        world: World::new(format!("seed {seed}"), disk, options, seed),
        rng,
        trouble: Rng::new(seed ^ 0x7b0b_13e5),
        tally: Tally::default(),
        disturbed: false,
        panics: false,
        longest,
    };
    let mut boot = 0;
    while life.tally.cuts < CUTS || life.world.calls.load(Relaxed) < CALLS {
        if boot > 0 && life.rng.one_in(2) {
            life.move_house();
        }
        life.disturb();
        life.work(seed, boot);
        let (crashed, mut failure) = life.crash();
        if life.rng.one_in(3) {
            let image = life.world.image();
            let cut = trip::damage(&mut life.world, &mut life.rng, crashed, &mut life.tally);
            if cut && life.trouble.one_in(2) {
                trip::live_on(&life.world, life.trouble.bits());
                life.tally.lived_on += 1;
                failure = Failure::Power;
            } else {
                life.world.restore(&image);
            }
        }
        life.recover(boot, failure);
        boot += 1;
    }
    life.end(seed)
}

impl Life {
    /// Moved to a device with other sectors, opened by a program with other ideas.
    fn move_house(&mut self) {
        let physical = self.rng.pick(&[4096, 4096, 8192, 16384]);
        self.world.disk.change(|o| o.physical_sector = physical);
        let (options, segment_size) = random_options(&mut self.rng, &self.world.disk.options());
        self.world.options = options;
        self.longest = self.longest.max(segment_size);
    }

    /// Plans what fails during the next work.
    fn disturb(&mut self) {
        let (disk, rng) = (&self.world.disk, &mut self.rng);
        self.disturbed = false;
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
            self.disturbed = true;
        }
        if rng.one_in(8) {
            let capacity = 1 << (17 + rng.below(5));
            disk.change(|o| o.capacity = Some(capacity));
            self.disturbed = true;
        }
        if !rng.one_in(4) {
            let within = rng.pick(&[60, 400, 1_500]);
            disk.cut_at(rng.below(within));
            self.disturbed = true;
        }
        if self.trouble.one_in(4) {
            for mut trouble in random_troubles(&mut self.trouble) {
                // An opening has its own below; this is to strike later as well.
                trouble.after += self.trouble.pick(&[0, 200, 1_000]);
                disk.trouble(trouble);
            }
            self.disturbed = true;
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
            // Something has failed, not only been planned to; and it is called what it is.
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

    /// Ends the boot, and says by what kind of failure, and what that amounts to: what this leaves for
    /// certain must be there.
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
        self.tally.note_crash(failure);
        (failure, amounts_to)
    }

    /// Looks and opens while calls fail. Answers what the failures amount to by then.
    fn recover_in_trouble(&mut self, failure: Failure) -> Failure {
        let (world, rng) = (&self.world, &mut self.trouble);
        let mut worst = failure;
        if rng.one_in(2) {
            world.look_in_trouble(rng.bits(), rng);
        }
        while rng.one_in(2) {
            let on_damage = rng.pick(&[OnDamage::Refuse, OnDamage::Truncate]);
            let troubles = random_troubles(rng);
            let opened = world.open_in_trouble(rng.bits(), worst, on_damage, &troubles);
            self.tally.in_trouble += 1;
            self.tally.opened_in_trouble += u64::from(opened);
            worst = amounts_to(&world.disk, worst);
            if rng.one_in(2) {
                let next = rng.pick(&[Failure::Power, Failure::Process]);
                world.disk.crash(next, None, rng.bits());
                self.tally.note_crash(next);
                if next == Failure::Power {
                    worst = next;
                }
            }
        }
        worst
    }

    fn recover(&mut self, boot: u64, failure: Failure) {
        // The cache that a crashed process leaves may be lost by the next failure.
        let mut worst = self.recover_in_trouble(failure);
        while self.rng.one_in(3) {
            self.world.disk.cut_at(self.rng.below(45));
            let returned = self.world.try_open(self.rng.bits(), worst);
            let next = self.rng.pick(&[Failure::Power, Failure::Process]);
            self.world.disk.crash(next, None, self.rng.bits());
            self.tally.note_crash(next);
            self.tally.cut_in_recovery += u64::from(!returned);
            if next == Failure::Power {
                worst = next;
            }
        }
        let recovered = self.world.recover(self.rng.bits(), worst, &[]);
        recovered.unwrap_or_else(|e| panic!("boot {boot}: {e}"));
    }

    fn end(mut self, seed: u64) -> Tally {
        let world = &self.world;
        let _report = world.report("at the end".to_owned());
        let steps = [Step::Append(500), Step::Commit(9_000), Step::Read];
        let recovered = world.recover(seed, Failure::Process, &steps);
        recovered.unwrap_or_else(|e| panic!("at the end: {e}"));
        SimRuntime::run(seed, |rt| {
            let model = lock(&world.model).clone();
            model.check_kept(&*world.disk.system(rt));
        });
        let model = lock(&world.model);
        assert!(model.live().len() >= 2);
        self.tally.lives = 1;
        self.tally.calls = world.calls.load(Relaxed);
        self.tally.rolled_over = u64::from(model.opened_at().0 > self.longest);
        self.tally.truncated = u64::from(model.was_truncated());
        drop(model);
        self.tally
            .note_found(&world.found.lock().expect("never panics"));
        self.tally.note_faults(&world.disk.faults());
        self.tally
    }
}

/// How many calls the device has answered with an error, or with a panic.
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

/// An opening that was refused: the row of the decision table that it names, if it does.
fn refused(error: &Error, tally: &mut Tally) {
    if let Error::Damaged(damage) = error {
        tally.note_case(damage.case);
        tally.damages += 1;
    } else {
        assert_ne!(error.kind(), ErrorKind::InvalidInput, "{error}");
        tally.other_refusals += 1;
    }
}
