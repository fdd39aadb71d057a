//! Known bugs that other programs than the simulator catch: loom, the fuzzer, failing system calls.

use super::{KnownBug, bug};

/// Bugs that loom catches by exploring the orders that weak memory allows: `order-…`, by the tests of core
/// itself.
pub const ORDERINGS: &[KnownBug] = &[
    bug(
        "order-register",
        "a task's second look may come before its waker is visible to others",
    ),
    bug(
        "order-wake",
        "the look for wakers may come before what they are woken for is visible to others",
    ),
    bug(
        "order-unlock",
        "what was done under a lock may be seen after it is given back",
    ),
    bug(
        "order-poison",
        "the log has failed, and the cause is not there yet",
    ),
];

/// Bugs that fuzzing catches. `cargo xtask fuzz --planted` runs it.
pub const FUZZING: &[KnownBug] = &[
    bug(
        "length-before-checksum",
        "a length is believed before the checksum over it: memory without bound",
    ),
    bug(
        "frame-beyond-payload",
        "a frame's length is not held against its payload's end: a panic",
    ),
    bug(
        "control-checksum-ignored",
        "a damaged slot of the control file is believed",
    ),
    bug(
        "payload-checksum-ignored",
        "damaged records are shown (invariant 2)",
    ),
    bug(
        "stamps-not-searched",
        "acknowledged data is silently cut (invariant 3)",
    ),
    bug(
        "void-list-endless",
        "a void batch may name itself as the one before it: recovery never ends",
    ),
];

/// Bugs that failing system calls catch (`crates/powercut`, process faults `inject`).
pub const SYSTEM_CALLS: &[KnownBug] = &[
    bug(
        "error-is-not-found",
        "6: an error while facts are gathered raises the guarantee",
    ),
    bug(
        "signal-is-an-error",
        "5: a call that a signal interrupts counts as failed",
    ),
];
