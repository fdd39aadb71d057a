//! Bytes of the objects: round trips, damage of each byte, keys, hostile headers, kept fuzzing inputs, and the
//! normative page.

#[path = "format/damage.rs"]
mod damage;
#[path = "format/fuzzed.rs"]
mod fuzzed;
#[path = "format/page.rs"]
mod page;
#[path = "format/round_trip.rs"]
mod round_trip;
#[path = "format/samples.rs"]
mod samples;

/// Replays the kept inputs of the fuzz target `archive_objects`, without a fuzzer.
#[test]
fn kept_fuzzing_inputs_pass() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");
    let mut count = 0;
    for what in ["corpus", "regressions"] {
        let Ok(inputs) = std::fs::read_dir(format!("{root}/{what}/archive_objects")) else {
            continue;
        };
        for input in inputs {
            let path = input.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let run = std::panic::catch_unwind(|| fuzzed::objects(&bytes));
            assert!(run.is_ok(), "{}: see above", path.display());
            count += 1;
        }
    }
    assert!(count >= 30, "{count} inputs");
}
