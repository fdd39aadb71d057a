//! Calibrations in the file [`NAME`] of a directory. The file is not trusted: an entry is accepted only if
//! this module could have written it.

use crate::evidence::{self, Evidence};
use crate::{Calibration, Decision, Figure, Interval, Live, ValidFor};
use logforce_device::{Directory, Method, Runtime};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Name of the file.
pub const NAME: &str = "calibration";

/// Maximum length of a reason, in bytes.
const LONGEST_WHY: usize = 1000;

/// Reads the calibration for `key` from the directory's file.
pub fn read(dir: &Arc<dyn Directory>, key: &ValidFor) -> Option<Calibration> {
    evidence::read(dir, key)
}

/// Writes the calibration into the directory's file, and replaces the one for the same key.
///
/// # Errors
/// Errors of the device, also if the existing file cannot be read. The file then stays unchanged.
pub fn write(
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
    calibration: &Calibration,
) -> io::Result<()> {
    evidence::write(dir, runtime, calibration)
}

/// A calibration in the document.
#[derive(Serialize, Deserialize)]
pub(crate) struct Entry {
    valid_for: StoredValidFor,
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

/// A [`ValidFor`] in the document.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredValidFor {
    volume: String,
    filesystem: String,
    mount_options: String,
    device: String,
    model: String,
    kernel: String,
    write_unit: u32,
    /// Missing in entries of versions before durable files, which compared all methods of the filesystem.
    #[serde(default = "all_methods")]
    direct: bool,
    procedure: u32,
}

fn all_methods() -> bool {
    true
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

/// Rounds a ratio to four decimals, which JSON keeps exactly, and to at least 0.0001.
pub(crate) fn rounded(ratio: f64) -> f64 {
    ((ratio * 1e4).round() / 1e4).max(1e-4)
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Cuts a reason to the maximum length.
pub(crate) fn shortened(why: &str) -> String {
    // `floor_char_boundary` needs a newer Rust than the published crates.
    let mut end = why.len().min(LONGEST_WHY);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    why[..end].to_owned()
}

/// Returns true if the reason is as short as [`shortened`] makes it, and has no control characters that could
/// affect a terminal.
pub(crate) fn is_plain(why: &str) -> bool {
    why.len() <= LONGEST_WHY && !why.contains(|c: char| c.is_control())
}

impl Evidence for Calibration {
    const NAME: &'static str = NAME;
    const SCHEMA: &'static str = "logforce-calibration";
    const VERSION: u32 = 1;
    type Entry = Entry;

    fn valid_for(&self) -> &ValidFor {
        &self.valid_for
    }

    fn measured_at(&self) -> u64 {
        self.measured_at
    }

    fn entry(&self) -> Entry {
        let d = &self.decision;
        Entry {
            valid_for: StoredValidFor::of(&self.valid_for),
            method: d.method.name().to_owned(),
            decided: d.decided,
            why: shortened(&d.why),
            pairs: self.pairs,
            spent_ms: u64::try_from(self.spent.as_millis()).unwrap_or(u64::MAX),
            measured_at_unix_ms: self.measured_at,
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
            live: self.live.map(|l| Use {
                method: l.method.name().to_owned(),
                forces: l.forces,
                p50_ns: nanos(l.p50),
            }),
            confirmed: self.confirmed,
        }
    }

    fn of_entry(entry: Entry) -> Option<Calibration> {
        let valid_for = entry.valid_for.valid_for();
        let possible = valid_for.is_bounded()
            && is_plain(&entry.why)
            && entry.figures.len() <= Method::ALL.len();
        if !possible {
            return None;
        }
        let figures = entry.figures.into_iter().map(Measured::figure);
        let live = match entry.live {
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
                method: entry.method.parse().ok()?,
                decided: entry.decided,
                why: entry.why,
                figures: figures.collect::<Option<_>>()?,
            },
            pairs: entry.pairs,
            spent: Duration::from_millis(entry.spent_ms),
            measured_at: entry.measured_at_unix_ms,
            live,
            confirmed: entry.confirmed,
        })
    }
}

impl StoredValidFor {
    pub(crate) fn of(v: &ValidFor) -> StoredValidFor {
        StoredValidFor {
            volume: v.volume.clone(),
            filesystem: v.filesystem.clone(),
            mount_options: v.mount_options.clone(),
            device: v.device.clone(),
            model: v.model.clone(),
            kernel: v.kernel.clone(),
            write_unit: v.write_unit,
            direct: v.direct,
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
            direct: self.direct,
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

    /// Returns the interval, or `None` if no measurement could have produced it.
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
