//! Results of real runs, unchanged.
#![allow(dead_code)]

use logforce_report::Document;
use serde_json::Value;

/// One result of each scenario.
pub const SAMPLES: [(&str, &str); 6] = [
    ("journal", include_str!("../data/journal.json")),
    ("group", include_str!("../data/group.json")),
    ("pages", include_str!("../data/pages.json")),
    ("map", include_str!("../data/map.json")),
    ("sweep", include_str!("../data/sweep.json")),
    ("inserts", include_str!("../data/inserts.json")),
];

/// Returns the JSON of a sample.
pub fn value(name: &str) -> Value {
    let (_, text) = SAMPLES.iter().find(|(n, _)| *n == name).unwrap();
    serde_json::from_str(text).unwrap()
}

/// Returns a sample.
pub fn sample(name: &str) -> Document {
    Document::from_value(value(name), name).unwrap()
}

/// Returns a sample with a change.
pub fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Document {
    let mut value = value(name);
    change(&mut value);
    Document::from_value(value, name).unwrap()
}

/// Returns all samples.
pub fn documents() -> Vec<(&'static str, Document)> {
    SAMPLES
        .iter()
        .map(|(name, _)| (*name, sample(name)))
        .collect()
}
