//! What a world was doing when something panicked: printed, held until a run is known to have
//! failed, or left out.

use logforce_testkit::SimDisk;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

static QUIET: AtomicBool = AtomicBool::new(false);
/// Panics and reports that nobody has seen yet, if they are held.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// From now on no [`FailureReport`] prints anything: in a batch of thousands of runs panics are usual.
pub fn be_quiet() {
    QUIET.store(true, Relaxed);
}

/// Whether [`be_quiet`] was called.
pub fn is_quiet() -> bool {
    QUIET.load(Relaxed)
}

/// From now on panics and reports are held and not printed. A run injects panics, and a check that a
/// power cut interrupts panics too: printed, they make a run that passes look like one that failed.
pub fn hold_reports() {
    with_held(|held| *held = Some(Vec::new()));
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let mut text = format!("thread '{}' {panic}", thread.name().unwrap_or("-"));
        // Taken only if the environment asks for it, as by the usual hook.
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text = format!("{text}\nstack backtrace:\n{backtrace}");
        }
        hold(text);
    }));
}

/// What is held was part of the run, which goes on.
pub fn forget_reports() {
    with_held(|held| {
        if let Some(held) = held {
            held.clear();
        }
    });
}

/// The panics and reports that are held.
pub fn held_reports() -> String {
    with_held(|held| {
        held.iter()
            .flatten()
            .map(|text| format!("{text}\n"))
            .collect()
    })
}

/// Holds a text, if texts are held.
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
