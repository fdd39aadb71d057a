//! Handlers of SIGINT (Ctrl-C), SIGTERM and SIGHUP.

use crate::exit::INTERRUPTED;
use crate::output::complain;
use anyhow::Context;
use logforce_measure::Interrupt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Raises `interrupt` on SIGINT, SIGTERM and SIGHUP. A second signal removes the directories `leave_nothing`
/// and ends the process at once, because the disk may be stuck.
pub fn install(
    interrupt: Interrupt,
    leave_nothing: Arc<Mutex<Vec<PathBuf>>>,
) -> anyhow::Result<()> {
    ctrlc::set_handler(move || {
        if !interrupt.raise() {
            return;
        }
        complain("interrupted twice: ending at once");
        let paths = leave_nothing
            .lock()
            .map(|mut paths| std::mem::take(&mut *paths));
        for path in paths.unwrap_or_default() {
            let _ = std::fs::remove_dir_all(path);
        }
        std::process::exit(i32::from(INTERRUPTED));
    })
    .context("cannot listen for Ctrl-C")
}
