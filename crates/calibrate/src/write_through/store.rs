//! Evidence of the write-through limit in a file of a directory, beside that of the log's methods. The file
//! is not trusted: an entry is accepted only if this module could have written it. It can affect only how a
//! commit is forced, never the guarantee of the commit.

use super::decide::{Decided, WriteThroughFigure};
use super::{WriteThroughCalibration, WriteThroughLimit};
use crate::ValidFor;
use crate::evidence::Evidence;
use crate::store::{Ratio, StoredValidFor, is_plain, nanos, shortened};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Name of the file.
pub const NAME: &str = "calibration-pages";

/// Maximum values that are accepted from a file.
const MOST_RUNS: u32 = 1024;
const MOST_BYTES: u64 = 1 << 30;
const MOST_FIGURES: usize = 64;

/// Evidence of a limit in the document.
#[derive(Serialize, Deserialize)]
pub(crate) struct Entry {
    valid_for: StoredValidFor,
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

impl Evidence for WriteThroughCalibration {
    const NAME: &'static str = NAME;
    const SCHEMA: &'static str = "logforce-page-calibration";
    const VERSION: u32 = 1;
    type Entry = Entry;

    fn valid_for(&self) -> &ValidFor {
        &self.valid_for
    }

    fn measured_at(&self) -> u64 {
        self.measured_at
    }

    fn entry(&self) -> Entry {
        let figure = |f: &WriteThroughFigure| Figure {
            runs: f.runs,
            bytes: f.bytes,
            through_ns: nanos(f.through),
            barrier_ns: nanos(f.barrier),
            ratio: f.ratio.map(Ratio::of),
        };
        Entry {
            valid_for: StoredValidFor::of(&self.valid_for),
            runs: self.decided.limit.runs,
            bytes: self.decided.limit.bytes,
            why: shortened(&self.decided.why),
            turns: self.turns,
            spent_ms: u64::try_from(self.spent.as_millis()).unwrap_or(u64::MAX),
            measured_at_unix_ms: self.measured_at,
            figures: self.decided.figures.iter().map(figure).collect(),
        }
    }

    fn of_entry(entry: Entry) -> Option<WriteThroughCalibration> {
        let valid_for = entry.valid_for.valid_for();
        let possible = valid_for.is_bounded()
            && entry.runs <= MOST_RUNS
            && entry.bytes <= MOST_BYTES
            && is_plain(&entry.why)
            && entry.figures.len() <= MOST_FIGURES;
        if !possible {
            return None;
        }
        let figure = |f: Figure| {
            let ratio = match f.ratio {
                None => None,
                Some(ratio) => Some(ratio.interval()?),
            };
            Some(WriteThroughFigure {
                runs: f.runs,
                bytes: f.bytes,
                through: Duration::from_nanos(f.through_ns),
                barrier: Duration::from_nanos(f.barrier_ns),
                ratio,
            })
        };
        Some(WriteThroughCalibration {
            valid_for,
            decided: Decided {
                limit: WriteThroughLimit {
                    runs: entry.runs,
                    bytes: entry.bytes,
                },
                why: entry.why,
                figures: entry
                    .figures
                    .into_iter()
                    .map(figure)
                    .collect::<Option<_>>()?,
            },
            turns: entry.turns,
            spent: Duration::from_millis(entry.spent_ms),
            measured_at: entry.measured_at_unix_ms,
        })
    }
}
