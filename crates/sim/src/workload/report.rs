//! Reports of what a world was doing at a panic: printed, held until a run is known to have failed, or
//! left out.

use logforce_testkit::SimDisk;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

static QUIET: AtomicBool = AtomicBool::new(false);
/// Panics and reports that were not printed yet, if they are held.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Stops every [`FailureReport`] from printing, because panics are usual in a batch of thousands of runs.
pub fn be_quiet() {
    QUIET.store(true, Relaxed);
}

/// Returns true if [`be_quiet`] was called.
pub fn is_quiet() -> bool {
    QUIET.load(Relaxed)
}

/// Holds panics and reports from now on instead of printing them. A run injects panics, and a check that a
/// power cut interrupts panics too. If printed, they would make a passing run look like a failed one.
pub fn hold_reports() {
    with_held(|held| *held = Some(Vec::new()));
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let mut text = format!("thread '{}' {panic}", thread.name().unwrap_or("-"));
        // Captured only if the environment requests it, as by the usual hook.
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text = format!("{text}\nstack backtrace:\n{backtrace}");
        }
        hold(text);
    }));
}

/// Drops the held texts: they were part of the run, which goes on.
pub fn forget_reports() {
    with_held(|held| {
        if let Some(held) = held {
            held.clear();
        }
    });
}

/// Returns the held panics and reports.
pub fn held_reports() -> String {
    with_held(|held| {
        held.iter()
            .flatten()
            .map(|text| format!("{text}\n"))
            .collect()
    })
}

/// Holds a text if texts are held. Returns whether it did.
fn hold(text: String) -> bool {
    with_held(|held| match held {
        Some(held) => {
            held.push(text);
            true
        }
        None => false,
    })
}

fn with_held<T>(body: impl FnOnce(&mut Option<Vec<String>>) -> T) -> T {
    body(&mut HELD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Reports the disk's last operations if the test fails.
pub struct FailureReport {
    disk: SimDisk,
    what: String,
}

impl FailureReport {
    pub(crate) fn new(disk: SimDisk, what: String) -> FailureReport {
        FailureReport { disk, what }
    }
}

impl Drop for FailureReport {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_quiet() {
            let log = self.disk.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(70)..].join("\n");
            let text = format!("--- {}\n{tail}", self.what);
            if !hold(text.clone()) {
                println!("{text}");
            }
        }
    }
}
