//! Internal interface for this project's test programs, which open logs on simulated systems that fail on
//! purpose. It may change at any time.

use crate::{Log, Options, Result, file, pages};
use logforce_device::System;
use std::path::Path;

/// Opens a log on `system`, without measuring commit methods.
pub fn open(system: &dyn System, path: impl AsRef<Path>, options: Options) -> Result<Log> {
    options.open_in(system, path.as_ref())
}

/// Opens a page file on `system`, without measuring.
pub fn open_pages(
    system: &dyn System,
    path: impl AsRef<Path>,
    options: pages::Options,
) -> pages::Result<pages::PageFile> {
    options.open_in(system, path.as_ref())
}

/// Opens a durable file on `system`, without measuring.
pub fn open_file(
    system: &dyn System,
    path: impl AsRef<Path>,
    options: file::Options,
) -> file::Result<file::File> {
    options.open_in(system, path.as_ref())
}

/// Sets the number of writes in flight before the log has measured. 0 means one write, which is delayed so
/// that the threads whose commits were acknowledged last can join it.
pub fn in_flight_at_first(options: Options, writes: usize) -> Options {
    options.with(|core| core.in_flight_at_first(writes))
}

/// Sets the bytes per force above which the log stops filling segments with zeroes.
pub fn force_of_bulk(options: Options, bytes: u64) -> Options {
    options.with(|core| core.force_of_bulk(bytes))
}
