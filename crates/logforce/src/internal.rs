//! The seam for the project's own test programs, which open logs of systems that fail on purpose. No promise is
//! made about it.

use crate::{Log, Options, Result, pages};
use logforce_device::System;
use std::path::Path;

/// Opens a log of `system`, without measuring its commit methods.
pub fn open(system: &dyn System, path: impl AsRef<Path>, options: Options) -> Result<Log> {
    options.open_in(system, path.as_ref())
}

/// Opens a page file of `system`, without measuring.
pub fn open_pages(
    system: &dyn System,
    path: impl AsRef<Path>,
    options: pages::Options,
) -> pages::Result<pages::PageFile> {
    options.open_in(system, path.as_ref())
}

/// Sets the number of writes in flight before anything is measured; 0: one, which waits for the commits that were
/// acknowledged last to come again.
pub fn in_flight_at_first(options: Options, writes: usize) -> Options {
    options.with(|core| core.in_flight_at_first(writes))
}

/// Sets the bytes per force above which segments are no longer filled with zeroes.
pub fn force_of_bulk(options: Options, bytes: u64) -> Options {
    options.with(|core| core.force_of_bulk(bytes))
}
