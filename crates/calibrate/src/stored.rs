//! Calibrations as JSON. What is read may have been written by anybody: it is taken only if it
//! could have been written here.

use crate::{Calibration, Decision, Figure, Interval, Live, ValidFor};
use logforce_device::Method;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const SCHEMA: &str = "logforce-calibration";
const VERSION: u32 = 1;

/// Longest reason that is believed, in bytes.
const LONGEST_WHY: usize = 1000;

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    version: u32,
    /// The latest last. Each is read by itself: one that cannot be understood is left out.
    entries: Vec<serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    valid_for: Place,
    method: String,
    decided: bool,
    why: String,
    pairs: u32,
    spent_ms: u64,
    measured_at_unix_ms: u64,
    figures: Vec<Measured>,
    live: Option<Use>,
    confirmed: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Place {
    volume: String,
    filesystem: String,
    mount_options: String,
    device: String,
    model: String,
    kernel: String,
    write_unit: u32,
    procedure: u32,
}

#[derive(Serialize, Deserialize)]
struct Measured {
    method: String,
    median_ns: u64,
    median_large_ns: u64,
    to_default: Option<Ratio>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Ratio {
    mid: f64,
    low: f64,
    high: f64,
}

#[derive(Serialize, Deserialize)]
struct Use {
    method: String,
    forces: u64,
    p50_ns: u64,
}

/// The document of these calibrations.
pub(crate) fn encode(calibrations: &[Calibration]) -> Vec<u8> {
    let entries = calibrations
        .iter()
        .filter_map(|c| serde_json::to_value(Entry::of(c)).ok());
    let document = Document {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        entries: entries.collect(),
    };
    let mut bytes = serde_json::to_vec_pretty(&document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The calibrations of a document; none if it is none of ours.
pub(crate) fn decode(bytes: &[u8]) -> Vec<Calibration> {
    let Ok(document) = serde_json::from_slice::<Document>(bytes) else {
        return Vec::new();
    };
    if document.schema != SCHEMA || document.version != VERSION {
        return Vec::new();
    }
    let entries = document.entries.into_iter();
    entries
        .filter_map(|e| serde_json::from_value::<Entry>(e).ok()?.calibration())
        .collect()
}

/// To four decimals, which come back from JSON as they were; above 0.
pub(crate) fn rounded(ratio: f64) -> f64 {
    ((ratio * 1e4).round() / 1e4).max(1e-4)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Entry {
    fn of(c: &Calibration) -> Entry {
        let d = &c.decision;
        let mut why = d.why.clone();
        why.truncate(why.floor_char_boundary(LONGEST_WHY));
        Entry {
            valid_for: Place::of(&c.valid_for),
            method: d.method.name().to_owned(),
            decided: d.decided,
            why,
            pairs: c.pairs,
            spent_ms: u64::try_from(c.spent.as_millis()).unwrap_or(u64::MAX),
            measured_at_unix_ms: c.measured_at,
            figures: d
                .figures
                .iter()
                .map(|f| Measured {
                    method: f.method.name().to_owned(),
                    median_ns: nanos(f.median),
                    median_large_ns: nanos(f.median_large),
                    to_default: f.to_default.map(Ratio::of),
                })
                .collect(),
            live: c.live.map(|l| Use {
                method: l.method.name().to_owned(),
                forces: l.forces,
                p50_ns: nanos(l.p50),
            }),
            confirmed: c.confirmed,
        }
    }

    fn calibration(self) -> Option<Calibration> {
        let valid_for = self.valid_for.valid_for();
        let possible = valid_for.is_bounded()
            && self.why.len() <= LONGEST_WHY
            && !self.why.contains(|c: char| c.is_control())
            && self.figures.len() <= Method::ALL.len();
        if !possible {
            return None;
        }
        let figures = self.figures.into_iter().map(Measured::figure);
        let live = match self.live {
            None => None,
            Some(l) => Some(Live {
                method: l.method.parse().ok()?,
                forces: l.forces,
                p50: Duration::from_nanos(l.p50_ns),
            }),
        };
        Some(Calibration {
            valid_for,
            decision: Decision {
                method: self.method.parse().ok()?,
                decided: self.decided,
                why: self.why,
                figures: figures.collect::<Option<_>>()?,
            },
            pairs: self.pairs,
            spent: Duration::from_millis(self.spent_ms),
            measured_at: self.measured_at_unix_ms,
            live,
            confirmed: self.confirmed,
        })
    }
}

impl Place {
    pub(crate) fn of(v: &ValidFor) -> Place {
        Place {
            volume: v.volume.clone(),
            filesystem: v.filesystem.clone(),
            mount_options: v.mount_options.clone(),
            device: v.device.clone(),
            model: v.model.clone(),
            kernel: v.kernel.clone(),
            write_unit: v.write_unit,
            procedure: v.procedure,
        }
    }

    pub(crate) fn valid_for(self) -> ValidFor {
        ValidFor {
            volume: self.volume,
            filesystem: self.filesystem,
            mount_options: self.mount_options,
            device: self.device,
            model: self.model,
            kernel: self.kernel,
            write_unit: self.write_unit,
            procedure: self.procedure,
        }
    }
}

impl Ratio {
    pub(crate) fn of(r: Interval) -> Ratio {
        Ratio {
            mid: rounded(r.mid),
            low: rounded(r.low),
            high: rounded(r.high),
        }
    }

    /// `None` for what no measurement gives.
    pub(crate) fn interval(self) -> Option<Interval> {
        if !(0.0 < self.low && self.low <= self.mid && self.mid <= self.high) {
            return None;
        }
        let [low, mid, high] = [self.low, self.mid, self.high].map(rounded);
        Some(Interval { mid, low, high })
    }
}

impl Measured {
    fn figure(self) -> Option<Figure> {
        let to_default = match self.to_default {
            None => None,
            Some(r) => Some(r.interval()?),
        };
        Some(Figure {
            method: self.method.parse().ok()?,
            median: Duration::from_nanos(self.median_ns),
            median_large: Duration::from_nanos(self.median_large_ns),
            to_default,
        })
    }
}

#[cfg(test)]
mod tests;
