//! What the scenarios share.

use super::os;
use crate::exit::Usage;
use crate::output::complain;
use crate::signal;
use anyhow::bail;
use logforce_device::{Directory, Method};
use logforce_measure::machine::Machine;
use logforce_measure::workplace::{Workplace, leftovers};
use logforce_measure::{Interrupt, MeasureError};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Parses the name of a method.
pub fn parse_method(text: &str) -> Result<Method, String> {
    text.parse()
        .map_err(|e: logforce_device::UnknownMethod| e.to_string())
}

/// Parses a time in seconds.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is no number of seconds"))?;
    if !(seconds > 0.0 && seconds <= 1e6) {
        return Err("seconds must be above 0 and at most 1000000".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Refuses a `--dir` that is no directory.
pub fn check_directory(dir: &Path) -> anyhow::Result<()> {
    if !dir.is_dir() {
        let why = if dir.exists() {
            "is no directory"
        } else {
            "does not exist"
        };
        bail!(Usage(format!("--dir {} {why}", dir.display())));
    }
    Ok(())
}

/// Runs `body` with a directory of its own in `dir`, which is gone afterwards, also after Ctrl-C.
pub fn leaving_nothing<T>(
    dir: &Path,
    body: impl FnOnce(&Workplace, Interrupt) -> Result<T, MeasureError>,
) -> anyhow::Result<Result<T, MeasureError>> {
    let interrupt = Interrupt::new();
    let path_to_remove = Arc::new(Mutex::new(None));
    signal::install(interrupt.clone(), Arc::clone(&path_to_remove))?;
    for path in leftovers(dir) {
        complain(&format!(
            "note: {} was left by a run that was killed; remove it",
            path.display()
        ));
    }
    let measured = {
        let system = os::system();
        // Gone at the end of this block, before anything is printed.
        let place = Workplace::create(&system, dir)?;
        if let Ok(mut path) = path_to_remove.lock() {
            *path = Some(place.path().to_owned());
        }
        body(&place, interrupt)
    };
    if matches!(measured, Err(MeasureError::Interrupted)) {
        complain("interrupted before anything was measured");
    }
    Ok(measured)
}

/// What is measured on.
pub fn machine(directory: &dyn Directory) -> Result<Machine, MeasureError> {
    let facts = directory
        .facts()
        .map_err(MeasureError::io("asking about the filesystem"))?;
    Ok(Machine::new(&facts, os::host()))
}

/// The command line, quoted where a shell would need it.
pub fn command_line() -> String {
    let quote = |word: String| {
        let plain = |c: char| c.is_alphanumeric() || "-_./,=:+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let arguments = std::env::args_os()
        .skip(1)
        .map(|a| quote(a.to_string_lossy().into_owned()));
    std::iter::once("logforce".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}
