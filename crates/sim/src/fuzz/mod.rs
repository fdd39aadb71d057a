//! What the fuzz targets do with an input. The targets themselves, in `fuzz/` at the root of the
//! repository, only hand the bytes over; here they are plain functions, so that a test of this
//! workspace can replay every input that is kept, without a fuzzer.
//!
//! - [`decoders`]: every decoder of the format, on arbitrary bytes;
//! - [`arbitrary_files`]: a directory made up from nothing, opened in every way;
//! - [`mutated_log`]: a real log, damaged, rolled back or forged in places, opened in every way and
//!   held against what the log had promised.
//!
//! A function panics where something is wrong, and says what an input does if `LOGFORCE_FUZZ_SAY`
//! is set.

mod agree;
mod arbitrary_files;
mod base;
mod decoders;
mod forge;
mod mutated_log;
mod mutation;
mod opening;
mod oracle;
mod scripts;
mod sealing;

use arbitrary::{Arbitrary, Unstructured};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A directory's files. Those of a log that nothing was done to are shared with it.
type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, of its corpus too.
    pub name: &'static str,
    /// Does what the input says. Whether that was worth keeping.
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
/// Where bytes and decoder do not agree.
pub fn decoders(bytes: &[u8]) -> bool {
    run(bytes, decoders::run)
}

/// A directory made up from nothing.
///
/// # Panics
/// Where a log that opened does not keep what it then acknowledged.
pub fn arbitrary_files(bytes: &[u8]) -> bool {
    run(bytes, arbitrary_files::run)
}

/// A real log that something was done to.
///
/// # Panics
/// Where it shows what it must not, or keeps quiet about a loss.
pub fn mutated_log(bytes: &[u8]) -> bool {
    run(bytes, mutated_log::run)
}

/// A real log that something was done to, opened in all ways: by a strict opening and by one that
/// truncates, read, inspected and salvaged.
///
/// # Panics
/// Where two ways contradict each other.
pub fn all_ways(bytes: &[u8]) -> bool {
    run(bytes, mutated_log::all_ways)
}

/// Makes the memory that a target keeps from one input to the next, so that what is counted later
/// is an input's own.
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
