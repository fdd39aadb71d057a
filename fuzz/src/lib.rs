//! Memory limit of all fuzz targets.

use cap::Cap;
use std::alloc::System;
use std::sync::Once;

/// Memory that an input may use at a time, bytes. The largest legitimate need is the simulated disk with
/// a full log: some megabytes.
const ROOM: usize = 32 << 20;

/// Makes an unbounded allocation fail, which ends the process: libFuzzer keeps the input.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// Runs an input in bounded memory. Returns whether libFuzzer should keep it.
pub fn bounded(run: fn(&[u8]) -> bool, input: &[u8]) -> libfuzzer_sys::Corpus {
    static WARM: Once = Once::new();
    WARM.call_once(|| {
        logforce_sim::fuzz::warm_up();
        // The message of a panic needs additional memory.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = MEMORY.set_limit(usize::MAX);
            report(info);
        }));
    });
    let limit = MEMORY.allocated().saturating_add(ROOM);
    if MEMORY.set_limit(limit).is_err() {
        unreachable!("the limit lies above what is allocated");
    }
    let kept = run(input);
    if MEMORY.set_limit(usize::MAX).is_err() {
        unreachable!("no limit is below what is allocated");
    }
    match kept {
        true => libfuzzer_sys::Corpus::Keep,
        false => libfuzzer_sys::Corpus::Reject,
    }
}
