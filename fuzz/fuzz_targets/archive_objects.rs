//! `crates/archive/tests/format/fuzzed.rs` under libFuzzer.
#![no_main]

#[path = "../../crates/archive/tests/format/fuzzed.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|input: &[u8]| -> libfuzzer_sys::Corpus {
    logforce_fuzz::bounded(fuzzed::objects, input)
});
