//! Evidence in a file of a directory, beside that of the log's methods. What is read may have been
//! written by anybody: it is taken only if it could have been written here, and it can choose nothing
//! but how a commit is forced, never what it guarantees.

use super::decide::{Decided, ThroughFigure};
use super::{ThroughCalibration, Upto};
use crate::ValidFor;
use crate::scratch::temporary_name;
use crate::store::{contents, put};
use crate::stored::{Place, Ratio};
use logforce_device::{Directory, OpenFile, Runtime};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The file's name.
pub const NAME: &str = "calibration-pages";

const SCHEMA: &str = "logforce-page-calibration";
const VERSION: u32 = 1;

/// Places that a file holds; the one written longest ago gives way.
const MOST: usize = 32;

/// A longer file is none of ours, in bytes.
const LONGEST: u64 = 512 << 10;

/// What is believed at most.
const MOST_RUNS: u32 = 1024;
const MOST_BYTES: u64 = 1 << 30;
const LONGEST_WHY: usize = 1000;
const MOST_FIGURES: usize = 64;

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
    runs: u32,
    bytes: u64,
    why: String,
    turns: u32,
    spent_ms: u64,
    measured_at_unix_ms: u64,
    figures: Vec<Figure>,
}

#[derive(Serialize, Deserialize)]
struct Figure {
    runs: u32,
    bytes: u64,
    through_ns: u64,
    barrier_ns: u64,
    ratio: Option<Ratio>,
}

/// What the directory's file knows of the place.
pub(super) fn read(dir: &Arc<dyn Directory>, key: &ValidFor) -> Option<ThroughCalibration> {
    let known = all(dir).unwrap_or_default();
    known.into_iter().rev().find(|c| c.valid_for == *key)
}

/// Takes it into the directory's file, which is replaced as a whole.
pub(super) fn write(
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
    calibration: &ThroughCalibration,
) -> io::Result<()> {
    let mut entries = all(dir)?;
    entries.retain(|c| c.valid_for != calibration.valid_for);
    entries.drain(..(entries.len() + 1).saturating_sub(MOST));
    entries.push(calibration.clone());
    let name = temporary_name(runtime);
    let written = put(dir, &name, &encode(&entries)).and_then(|()| dir.rename(&name, NAME));
    if written.is_err() {
        let _ = dir.remove(&name);
    }
    written
}

fn all(dir: &Arc<dyn Directory>) -> io::Result<Vec<ThroughCalibration>> {
    match dir.open(NAME, OpenFile::READ) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        opened => Ok(decode(&contents(&*opened?, LONGEST)?)),
    }
}

pub(super) fn encode(calibrations: &[ThroughCalibration]) -> Vec<u8> {
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

pub(super) fn decode(bytes: &[u8]) -> Vec<ThroughCalibration> {
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

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Entry {
    fn of(c: &ThroughCalibration) -> Entry {
        let mut why = c.decided.why.clone();
        why.truncate(why.floor_char_boundary(LONGEST_WHY));
        let figure = |f: &ThroughFigure| Figure {
            runs: f.runs,
            bytes: f.bytes,
            through_ns: nanos(f.through),
            barrier_ns: nanos(f.barrier),
            ratio: f.ratio.map(Ratio::of),
        };
        Entry {
            valid_for: Place::of(&c.valid_for),
            runs: c.decided.upto.runs,
            bytes: c.decided.upto.bytes,
            why,
            turns: c.turns,
            spent_ms: u64::try_from(c.spent.as_millis()).unwrap_or(u64::MAX),
            measured_at_unix_ms: c.measured_at,
            figures: c.decided.figures.iter().map(figure).collect(),
        }
    }

    fn calibration(self) -> Option<ThroughCalibration> {
        let valid_for = self.valid_for.valid_for();
        let possible = valid_for.is_bounded()
            && self.runs <= MOST_RUNS
            && self.bytes <= MOST_BYTES
            && self.why.len() <= LONGEST_WHY
            && !self.why.contains(|c: char| c.is_control())
            && self.figures.len() <= MOST_FIGURES;
        if !possible {
            return None;
        }
        let figure = |f: Figure| {
            let ratio = match f.ratio {
                None => None,
                Some(ratio) => Some(ratio.interval()?),
            };
            Some(ThroughFigure {
                runs: f.runs,
                bytes: f.bytes,
                through: Duration::from_nanos(f.through_ns),
                barrier: Duration::from_nanos(f.barrier_ns),
                ratio,
            })
        };
        Some(ThroughCalibration {
            valid_for,
            decided: Decided {
                upto: Upto {
                    runs: self.runs,
                    bytes: self.bytes,
                },
                why: self.why,
                figures: self
                    .figures
                    .into_iter()
                    .map(figure)
                    .collect::<Option<_>>()?,
            },
            turns: self.turns,
            spent: Duration::from_millis(self.spent_ms),
            measured_at: self.measured_at_unix_ms,
        })
    }
}
