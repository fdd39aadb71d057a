//! A line of a dump.

use super::data::Data;
use logforce::{
    Lsn, Record,
    inspect::{BatchInfo, BatchKind, Damage, SegmentInfo},
};
use logforce_terminal::numbers::count;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// A batch, a record or a damaged place. A field that does not apply is `None`: left out of JSON, empty
/// in CSV.
#[derive(Debug, Default, Serialize)]
pub struct Line {
    what: &'static str,
    lsn: u64,
    end: Option<u64>,
    file: Option<String>,
    offset: Option<u64>,
    kind: Option<&'static str>,
    epoch: Option<String>,
    stamp: Option<u64>,
    void_from: Option<u64>,
    frames: Option<u32>,
    payload_bytes: Option<u32>,
    bytes: Option<u64>,
    proven: Option<bool>,
    data: Option<String>,
    case: Option<&'static str>,
    found: Option<String>,
    durable_to: Option<u64>,
    #[serde(skip)]
    text: String,
}

/// Map from each LSN to the file that holds it.
pub struct Places(BTreeMap<Lsn, (Lsn, String)>);

impl Places {
    /// Builds the map of these segments.
    pub fn new(segments: &[SegmentInfo]) -> Self {
        let place = |s: &SegmentInfo| (s.start, (s.start.plus(s.len), s.name.clone()));
        Places(segments.iter().map(place).collect())
    }

    fn of(&self, lsn: Lsn) -> Option<(String, u64)> {
        let (start, (end, name)) = self.0.range(..=lsn).next_back()?;
        (lsn < *end).then(|| (name.clone(), lsn.since(*start)))
    }
}

fn kind(kind: BatchKind) -> &'static str {
    match kind {
        BatchKind::Data => "data",
        BatchKind::Stamp => "stamp",
        BatchKind::Epoch => "epoch",
        BatchKind::Void => "void",
    }
}

impl Line {
    /// Returns the line of a batch.
    pub fn batch(b: &BatchInfo) -> Self {
        let voids = b.void_from < b.lsn;
        let mut text = format!(
            "{}, {} in {}, stamp {}, epoch {}, {} offset {}",
            kind(b.kind),
            count(b.frames, "frame"),
            count(b.payload_len, "byte"),
            b.stamp,
            b.epoch,
            b.file,
            b.offset
        );
        if voids {
            text.push_str(&format!(", voids from LSN {}", b.void_from));
        }
        Line {
            what: "batch",
            lsn: b.lsn.0,
            end: Some(b.end.0),
            file: Some(b.file.clone()),
            offset: Some(b.offset),
            kind: Some(kind(b.kind)),
            epoch: Some(b.epoch.to_string()),
            stamp: Some(b.stamp.0),
            void_from: voids.then_some(b.void_from.0),
            frames: Some(b.frames),
            payload_bytes: Some(b.payload_len),
            text,
            ..Line::default()
        }
    }

    /// Returns the line of a record.
    pub fn record(record: &Record, proven: bool, places: &Places, data: Data, most: usize) -> Self {
        let (file, offset) = places.of(record.start).unzip();
        let data = data.show(&record.data, most);
        let mut text = count(record.data.len() as u64, "byte");
        if !proven {
            text.push_str(", not known to have been durable");
        }
        if let Some(data) = &data {
            text.push_str(": ");
            text.push_str(data);
        }
        Line {
            what: "record",
            lsn: record.start.0,
            end: Some(record.end.0),
            file,
            offset,
            bytes: Some(record.data.len() as u64),
            proven: Some(proven),
            data,
            text,
            ..Line::default()
        }
    }

    /// Returns the line of a record whose append has lost another part.
    pub fn part(record: &Record, places: &Places, data: Data, most: usize) -> Self {
        let record = Line::record(record, true, places, data, most);
        Line {
            what: "part",
            proven: None,
            text: format!("of an append that is not whole: {}", record.text),
            ..record
        }
    }

    /// Returns the line of a damaged place.
    pub fn damage(d: &Damage) -> Self {
        Line {
            what: "damage",
            lsn: d.lsn.0,
            file: d.file.clone(),
            offset: Some(d.offset),
            case: Some(d.case.label()),
            found: Some(d.found.clone()),
            durable_to: (d.durable_to > Lsn::ORIGIN).then_some(d.durable_to.0),
            text: d.to_string(),
            ..Line::default()
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            "damage" => "DAMAGE",
            other => other,
        };
        write!(f, "{:>14}  {what:<6}  {}", self.lsn, self.text)
    }
}
