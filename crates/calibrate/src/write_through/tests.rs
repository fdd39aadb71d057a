use super::decide::{Pairs, decide};
use super::*;
use crate::evidence;
use logforce_testkit::SimOptions;

fn encode(all: &[WriteThroughCalibration]) -> Vec<u8> {
    evidence::encode(all)
}

fn decode(bytes: &[u8]) -> Vec<WriteThroughCalibration> {
    evidence::decode(bytes)
}

/// Returns equal pairs: the given milliseconds by write-through, one millisecond by a barrier.
fn pairs(shapes: &[(u32, u64, f64)], count: usize) -> Vec<Pairs> {
    let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
    let of = |&(runs, bytes, through): &(u32, u64, f64)| Pairs {
        runs,
        bytes,
        times: vec![(ms(through), ms(1.0)); count],
    };
    shapes.iter().map(of).collect()
}

fn limit(shapes: &[(u32, u64, f64)]) -> (u32, u64) {
    let decided = decide(&pairs(shapes, 20));
    assert!(!decided.why.is_empty() && decided.figures.len() == shapes.len());
    (decided.limit.runs, decided.limit.bytes)
}

#[test]
fn the_crossover_follows_the_figures() {
    // The device supports write-through: four runs are cheaper than a flush, eight are not.
    let native = [
        (1, 4096, 0.2),
        (1, 65_536, 0.4),
        (1, 1 << 20, 2.0),
        (2, 8192, 0.3),
        (4, 16_384, 0.6),
        (8, 32_768, 1.2),
        (16, 65_536, 0.5),
    ];
    assert_eq!(limit(&native), (4, 65_536));
    // A write-through is a write and a flush: equal for one run, and slower for several.
    let flushed = [(1, 4096, 1.0), (1, 1 << 20, 1.05), (2, 8192, 1.3)];
    assert_eq!(limit(&flushed), (1, 1 << 20));
    // Two runs that are faster by less than a tenth are not written through.
    assert_eq!(limit(&[(1, 4096, 0.5), (2, 8192, 0.95)]), (1, 4096));
    assert_eq!(limit(&[(1, 4096, 1.5), (2, 8192, 0.2)]), (0, 0));
}

#[test]
fn too_little_is_as_if_nothing_was_measured() {
    for count in [0, 1, 11] {
        let decided = decide(&pairs(&[(1, 4096, 9.0), (2, 8192, 0.1)], count));
        assert_eq!(decided.limit, WriteThroughLimit::UNMEASURED);
        assert!(
            decided.why.contains("without a measurement"),
            "{}",
            decided.why
        );
    }
    assert_eq!(decide(&[]).limit, WriteThroughLimit::UNMEASURED);
}

fn calibration(volume: &str) -> WriteThroughCalibration {
    let mut facts = SimOptions::default().facts();
    facts.volume = volume.to_owned();
    let decided = decide(&pairs(&[(1, 4096, 0.5), (2, 8192, 0.7)], 20));
    WriteThroughCalibration {
        valid_for: ValidFor::now(&facts, 4096),
        decided,
        turns: 20,
        spent: Duration::from_millis(500),
        measured_at: 1_700_000_000_000,
    }
}

#[test]
fn what_is_stored_comes_back_and_what_is_not_ours_is_left_out() {
    let both = [calibration("a"), calibration("b")];
    let bytes = encode(&both);
    assert_eq!(decode(&bytes), both);
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(
        decode(text.replace("\"runs\": 2,", "\"runs\": 2000,").as_bytes()),
        []
    );
    for (from, to) in [
        ("logforce-page-calibration", "other"),
        ("\"version\": 1", "\"version\": 2"),
        ("\"low\": 0.5", "\"low\": -1.0"),
        ("\"spent_ms\": 500", "\"spent_ms\": \"x\""),
        ("{", "["),
    ] {
        assert!(text.contains(from), "{text}");
        assert_eq!(decode(text.replace(from, to).as_bytes()), [], "{from}");
    }
    for cut in 0..text.len() {
        let _ = decode(&text.as_bytes()[..cut]);
    }
}
