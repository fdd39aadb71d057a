//! Crash tests of the examples with their own file format. Each also runs without syncs, and has to lose
//! something then. Needs root, FUSE and loop devices.

#![cfg(target_os = "linux")]

mod journal;
mod page_store;

use logforce::file::{File, Options};
use logforce::{Guarantee, Method};
use logforce_crashtest::{Crashtest, Filesystem};
use std::time::{Duration, SystemTime};

/// Syncs of a workload.
#[derive(Clone, Copy, PartialEq)]
enum Syncs {
    /// As the example makes them, by one of these methods, chosen anew at each start.
    By([Method; 2]),
    /// None: no commit waits for the disk, and a header may overtake its pages.
    None,
}

/// Returns the time since 1970.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Returns the options of an opening.
fn options(syncs: Syncs) -> Options {
    // The disk of the test is in memory, so an opening says that nothing there survives a loss of power. A
    // method that is named syncs all the same.
    let options = File::options()
        .create(true)
        .require(Guarantee::ProcessCrash);
    options.method(match syncs {
        Syncs::By(methods) => methods[now().subsec_micros() as usize % 2],
        Syncs::None => Method::Buffered,
    })
}

/// Returns a test of a few cuts and states; deep runs have more of both, and xfs.
fn crashtest() -> Crashtest {
    match std::env::var_os("LOGFORCE_DEEP") {
        Some(_) => Crashtest::new().filesystems(&[Filesystem::Ext4, Filesystem::Xfs]),
        None => Crashtest::new()
            .filesystems(&[Filesystem::Ext4])
            .cuts(6)
            .states(60),
    }
    .explain(false)
}
