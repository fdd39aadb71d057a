//! Bodies of the fuzz targets. The targets in `fuzz/` at the root of the repository only pass the bytes
//! on. Here they are plain functions, so that a test of this workspace can replay every kept input
//! without a fuzzer.
//!
//! - [`decoders`]: every decoder of the format, on arbitrary bytes;
//! - [`arbitrary_files`]: a made-up directory, opened in every way;
//! - [`mutated_log`]: a real log, damaged, rolled back or forged in parts, opened in every way and
//!   compared with what the log had acknowledged;
//! - [`import`](fn@import): chunks of a real log, changed, as a restore from an archive imports them.
//!
//! A function panics if something is wrong. If `LOGFORCE_FUZZ_SAY` is set, it prints what an input does.

mod agree;
mod arbitrary_files;
mod base;
mod decoders;
mod forge;
mod import;
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

/// Files of a directory. Unchanged files are shared with the log that they come from.
type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target and of its corpus.
    pub name: &'static str,
    /// Function that runs an input. Returns whether the input should be kept.
    pub run: fn(&[u8]) -> bool,
}

/// All fuzz targets.
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
    Target {
        name: "import",
        run: import,
    },
];

/// Runs every decoder of the format.
///
/// # Panics
/// If a decoder contradicts the bytes.
pub fn decoders(bytes: &[u8]) -> bool {
    run(bytes, decoders::run)
}

/// Opens a made-up directory.
///
/// # Panics
/// If a log that opened does not keep what it then acknowledged.
pub fn arbitrary_files(bytes: &[u8]) -> bool {
    run(bytes, arbitrary_files::run)
}

/// Opens a mutated log in one way.
///
/// # Panics
/// If the log shows what it must not, or does not report a loss.
pub fn mutated_log(bytes: &[u8]) -> bool {
    run(bytes, mutated_log::run)
}

/// Imports changed chunks of a log.
///
/// # Panics
/// If the restored log is not a part of that log, or a refused import leaves one.
pub fn import(bytes: &[u8]) -> bool {
    run(bytes, import::run)
}

/// Opens a mutated log in all ways: by a strict opening, by one that truncates, for reading, for
/// inspection and for salvage.
///
/// # Panics
/// If two ways contradict each other.
pub fn all_ways(bytes: &[u8]) -> bool {
    run(bytes, mutated_log::all_ways)
}

/// Allocates the memory that a target keeps between inputs, so that the bound on memory counts only that
/// of an input.
pub fn warm_up() {
    base::all();
    import::sources();
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
