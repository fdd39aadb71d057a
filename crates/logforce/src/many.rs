//! Many logs in one process.

use crate::{Environment, EnvironmentOptions, Error, Log, OpenMode, Options, Result};
use logforce_device::System;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Openings at once: most of an opening is waiting for the device.
const AT_ONCE: usize = 16;

/// Starts an environment: what many logs of this process share, each opened with
/// [`Options::environment`]. Its threads end when all is dropped that holds it: its clones, its logs, and the
/// [`Options`] that it was set in.
///
/// # Errors
/// [`Error::Io`] if the system gives no threads.
pub fn environment(options: &EnvironmentOptions) -> Result<Environment> {
    Environment::start(logforce_device_os::OsSystem::new().runtime(), options)
}

/// Opens the logs in these directories, up to 16 at once, each with `options`: for a start after a
/// crash, where each opening waits for the device several times. Returns the results in the order of
/// the paths.
///
/// ```no_run
/// # fn main() -> logforce::Result<()> {
/// use logforce::{EnvironmentOptions, OpenMode, Options};
/// let environment = logforce::environment(&EnvironmentOptions::new())?;
/// let options = Options::new().environment(&environment);
/// let shards: Vec<_> = (0..1000).map(|n| format!("/var/lib/orders/{n}")).collect();
/// for (path, log) in shards.iter().zip(logforce::open_many(&shards, OpenMode::OpenOrCreate, &options)) {
///     let log = log.map_err(|e| { eprintln!("{path}: {e}"); e })?;
///     println!("{path}: {} bytes", log.durable_lsn().0 - log.front_lsn().0);
/// }
/// # Ok(())
/// # }
/// ```
pub fn open_many<P: AsRef<Path> + Sync>(
    paths: &[P],
    mode: OpenMode,
    options: &Options,
) -> Vec<Result<Log>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Log>>>> = paths.iter().map(|_| Mutex::default()).collect();
    let open = || {
        while let Some((path, slot)) = {
            let n = next.fetch_add(1, Ordering::Relaxed);
            paths.get(n).zip(results.get(n))
        } {
            let opened = crate::open(path.as_ref(), mode, options.clone());
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..paths.len().min(AT_ONCE) {
            // Where the system has no more threads, those that run open the rest.
            let _ = std::thread::Builder::new().spawn_scoped(scope, open);
        }
        open();
    });
    let opened = results.into_iter().map(|slot| {
        let result = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Each slot was filled: a panic in an opening has ended this call.
        result.unwrap_or(Err(Error::Closed))
    });
    opened.collect()
}
