//! `logforce_sim::fuzz::arbitrary_files` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| -> libfuzzer_sys::Corpus {
    logforce_fuzz::bounded(logforce_sim::fuzz::arbitrary_files, input)
});
