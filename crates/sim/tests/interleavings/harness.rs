//! Exploration of a test in many schedules; the message of a failure says how to repeat it.

use logforce_sim::from_env;
use logforce_testkit::CLOCK;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::cell::Cell;
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::Once;
use std::time::Instant;

/// Default number of schedules of a test.
const SCHEDULES: u64 = 600;
/// Number of schedules that follow from one seed. PCT learns their length from the first.
const BLOCK: usize = 20;
/// Largest number of steps of a schedule. More steps mean an endless loop.
const MAX_STEPS: usize = 400_000;

/// Test that runs in this thread.
#[derive(Clone, Copy)]
struct Running {
    test: &'static str,
    seed: u64,
    schedule: u64,
}

thread_local! {
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

/// Runs `body` in the requested number of schedules.
pub fn explore(test: &'static str, body: fn()) {
    explore_by(test, SCHEDULES, body);
}

/// Does the same for a test with long schedules, by default in `usual` of them.
pub fn explore_by(test: &'static str, usual: u64, body: fn()) {
    install_hook();
    let blocks = match from_env("LOGFORCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let wanted = from_env("LOGFORCE_SCHEDULES").unwrap_or(usual);
            let from = from_env("LOGFORCE_FROM").unwrap_or(0);
            from..from + wanted.div_ceil(BLOCK as u64)
        }
    };
    let began = Instant::now();
    let mut count = 0;
    for seed in blocks {
        let schedules = Walk {
            inner: strategy(seed),
        };
        RUNNING.set(Some(Running {
            test,
            seed,
            schedule: 0,
        }));
        count += Runner::new(schedules, config()).run(body);
        RUNNING.set(None);
    }
    let took = began.elapsed();
    println!(
        "{test}: {count} schedules, {:.0} a second",
        count as f64 / took.as_secs_f64()
    );
}

/// Returns the strategy of a seed: half of the seeds random, the others priorities with one to four changes.
fn strategy(seed: u64) -> Box<dyn Scheduler> {
    match seed % 2 {
        0 => Box::new(RandomScheduler::new_from_seed(seed, BLOCK)),
        _ => Box::new(PctScheduler::new_from_seed(
            seed,
            2 + (seed / 2 % 4) as usize,
            BLOCK,
        )),
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 512 << 10;
    // The seed suffices to repeat the schedule.
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    config
}

/// A scheduler that runs the clock only when no other thread can run. An earlier timeout would hide a lost
/// wake.
struct Walk {
    inner: Box<dyn Scheduler>,
}

impl Scheduler for Walk {
    fn new_execution(&mut self) -> Option<Schedule> {
        if let Some(running) = RUNNING.get() {
            RUNNING.set(Some(Running {
                schedule: running.schedule + 1,
                ..running
            }));
        }
        self.inner.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        yields: bool,
    ) -> Option<TaskId> {
        let is_clock = |task: &Task| task.name().is_some_and(|n| n == CLOCK);
        let others: Vec<&Task> = runnable.iter().copied().filter(|t| !is_clock(t)).collect();
        match others.as_slice() {
            [] => runnable.first().map(|clock| clock.id()),
            others => self.inner.next_task(others, current, yields),
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}

/// Installs a panic hook by which a failed schedule ends the process at once. Unwinding would run destructors
/// that wait for threads which never run again.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Shuttle installs a hook once. This hook is installed later and replaces it.
        Runner::new(RandomScheduler::new_from_seed(0, 1), config()).run(|| ());
        let usual = std::panic::take_hook();
        drop(usual);
        std::panic::set_hook(Box::new(failed));
    });
}

fn failed(info: &PanicHookInfo<'_>) {
    let text = info.payload_as_str().unwrap_or("a panic without words");
    if text == "the device panics (injected)" {
        return;
    }
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    let mut lines = match RUNNING.get() {
        None => format!("panicked at {at}: {text}\n"),
        Some(Running {
            test,
            seed,
            schedule,
        }) => format!(
            "\nFAILED {test} seed {seed} schedule {schedule}: {text}\n  at {at}\nTo see it again:\n  \
             {}LOGFORCE_SEED={seed} RUSTFLAGS=\"--cfg shuttle --cfg planted\" \
             CARGO_TARGET_DIR=target/interleavings \\\n  cargo test -p logforce-sim --test \
             interleavings {test}\n",
            std::env::var("LOGFORCE_PLANTED")
                .map(|p| format!("LOGFORCE_PLANTED={p} "))
                .unwrap_or_default()
        ),
    };
    if std::env::var_os("LOGFORCE_BACKTRACE").is_some() {
        lines += &format!("{}\n", std::backtrace::Backtrace::force_capture());
    }
    // Bypasses the harness's capture, because the process ends here.
    let _ = std::io::stderr().write_all(lines.as_bytes());
    if RUNNING.get().is_some() {
        std::process::exit(101);
    }
}
