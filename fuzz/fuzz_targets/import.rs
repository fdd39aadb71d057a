//! `logforce_sim::fuzz::import` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| -> libfuzzer_sys::Corpus {
    logforce_fuzz::bounded(logforce_sim::fuzz::import, input)
});
