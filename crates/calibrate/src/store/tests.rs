use super::*;
use logforce_testkit::{Rng, SimOptions};
use proptest::prelude::*;

fn encode(all: &[Calibration]) -> Vec<u8> {
    evidence::encode(all)
}

fn decode(bytes: &[u8]) -> Vec<Calibration> {
    evidence::decode(bytes)
}

fn calibration(n: u64) -> Calibration {
    let facts = SimOptions::default().facts();
    let figure = |method, micros: u64, to_default| Figure {
        method,
        median: Duration::from_nanos(micros * 1000 + n),
        median_large: Duration::from_micros(2 * micros),
        to_default,
    };
    Calibration {
        valid_for: ValidFor::now(&facts, 4096 << (n % 4)),
        decision: Decision {
            method: Method::Dsync,
            decided: true,
            why: "half the time".to_owned(),
            figures: vec![
                figure(Method::DirectDsync, 90, None),
                figure(
                    Method::Dsync,
                    45,
                    Some(Interval {
                        mid: 0.5,
                        low: 0.45,
                        high: 0.55,
                    }),
                ),
            ],
        },
        pairs: 321,
        spent: Duration::from_millis(299),
        measured_at: 1_700_000_000_000 + n,
        live: Some(Live {
            method: Method::Dsync,
            forces: 5000 + n,
            p50: Duration::from_micros(47),
        }),
        confirmed: 2,
    }
}

#[test]
fn what_is_written_is_read() {
    let all: Vec<_> = (0..4).map(calibration).collect();
    assert_eq!(decode(&encode(&all)), all);
    assert_eq!(decode(&encode(&[])), []);
}

#[test]
fn another_schema_or_version_is_not_read() {
    let text = String::from_utf8(encode(&[calibration(1)])).unwrap();
    for (from, to) in [
        ("\"version\": 1", "\"version\": 2"),
        ("logforce-calibration", "logforce-verify"),
    ] {
        let other = text.replace(from, to);
        assert_ne!(other, text);
        assert_eq!(decode(other.as_bytes()), []);
    }
}

#[test]
fn an_entry_that_cannot_be_is_left_out_alone() {
    let bytes = encode(&[calibration(1), calibration(2)]);
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let long = "x".repeat(5000);
    for (field, bad) in [
        ("method", serde_json::json!("o_sync")),
        ("why", serde_json::json!(long)),
        ("why", serde_json::json!("\u{1b}[2J")),
        ("figures", serde_json::json!([{"method": "dsync"}])),
        ("pairs", serde_json::json!(-1)),
        ("valid_for", serde_json::json!(null)),
        (
            "live",
            serde_json::json!({"method": "x", "forces": 1, "p50_ns": 1}),
        ),
    ] {
        let mut document = document.clone();
        document["entries"][0][field] = bad;
        let left = decode(document.to_string().as_bytes());
        assert_eq!(left, [calibration(2)], "{field}");
    }
    let mut document = document;
    document["entries"][0]["figures"][1]["to_default"]["low"] = serde_json::json!(7.0);
    assert_eq!(decode(document.to_string().as_bytes()).len(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>) {
        prop_assert!(decode(&bytes).is_empty());
    }

    /// A valid file with some changed bytes: every entry that is read can be written and read again.
    #[test]
    fn changed_bytes_are_survived(seed: u64, changes in 1usize..8) {
        let mut bytes = encode(&[calibration(1), calibration(2)]);
        let mut rng = Rng::new(seed);
        for _ in 0..changes {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.bits() as u8;
        }
        let read = decode(&bytes);
        prop_assert_eq!(decode(&encode(&read)), read);
    }
}

#[test]
fn deep_and_endless_documents_are_refused() {
    assert_eq!(decode("[".repeat(100_000).as_bytes()), []);
    assert_eq!(decode("{\"entries\":".repeat(10_000).as_bytes()), []);
}
