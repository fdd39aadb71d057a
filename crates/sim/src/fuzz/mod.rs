//! What the fuzz targets do with an input. The targets in `fuzz/` at the root of the repository only
//! pass the bytes on. Here they are plain functions, so that a test of this workspace can replay every
//! kept input without a fuzzer.
//!
//! - [`decoders`]: every decoder of the format, on arbitrary bytes;
//! - [`arbitrary_files`]: a made-up directory, opened in every way;
//! - [`mutated_log`]: a real log, damaged, rolled back or forged in places, opened in every way and
//!   compared with what the log had acknowledged.
//!
//! A function panics where something is wrong. With `LOGFORCE_FUZZ_SAY` set it prints what an input
//! does.

mod agree;
mod arbitrary_files;
mod base;
mod decoders;
mod forge;
mod mutated;
mod mutated_log;
mod mutation;
mod opening;
mod oracle;
mod scripts;
mod sealing;

use arbitrary::{Arbitrary, Unstructured};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A directory's files. Unchanged ones are shared with the log that they come from.
type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and its corpus's.
    pub name: &'static str,
    /// Runs an input. Returns whether it is worth keeping.
    pub run: fn(&[u8]) -> bool,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "decoders",
        run: decoders,
    },
    Target {
        name: "arbitrary_files",
        run: arbitrary_files,
    },
    Target {
        name: "mutated_log",
        run: mutated_log,
    },
];

/// Every decoder of the format.
///
/// # Panics
/// Where a decoder contradicts the bytes.
pub fn decoders(bytes: &[u8]) -> bool {
    run(bytes, decoders::run)
}

/// A made-up directory.
///
/// # Panics
/// Where a log that opened does not keep what it then acknowledged.
pub fn arbitrary_files(bytes: &[u8]) -> bool {
    run(bytes, arbitrary_files::run)
}

/// A mutated log, opened in one way.
///
/// # Panics
/// Where it shows what it must not, or does not report a loss.
pub fn mutated_log(bytes: &[u8]) -> bool {
    run(bytes, mutated_log::run)
}

/// A mutated log, opened in all ways: by a strict opening and by one that truncates, read, inspected
/// and salvaged.
///
/// # Panics
/// Where two ways contradict each other.
pub fn all_ways(bytes: &[u8]) -> bool {
    run(bytes, mutated_log::all_ways)
}

/// Allocates what a target keeps from one input to the next, so that the bound on memory counts only
/// an input's own.
pub fn warm_up() {
    base::all();
}

fn run<'a, T: Arbitrary<'a> + std::fmt::Debug>(bytes: &'a [u8], body: fn(T)) -> bool {
    let Ok(input) = T::arbitrary_take_rest(Unstructured::new(bytes)) else {
        return false;
    };
    if says() {
        eprintln!("{input:#?}");
    }
    body(input);
    true
}

fn says() -> bool {
    std::env::var_os("LOGFORCE_FUZZ_SAY").is_some()
}
