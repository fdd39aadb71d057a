//! The log in groups of committers: what it makes of so many threads and records of such a size.
//!
//! In each round every case has a slice, so that noise hits all of them alike. [`Slices`] and
//! [`Series`] are for comparisons too.

pub mod report;
mod series;
mod slices;

pub use series::{Point, Series, Taken};
pub use slices::{Setup, Slices};

use crate::MeasureError;
use crate::library::{LONGEST_SEGMENT, SEGMENTS};
use crate::numbers::bytes;
use logforce::Method;
use logforce_device::Assessment;
use report::Row;
use std::time::Duration;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many threads commit, one case for each.
    pub threads: Vec<u32>,
    /// Bytes of a record, one case for each with each number of threads.
    pub records: Vec<u64>,
    /// Slices of each case.
    pub rounds: u32,
    /// How long a slice takes.
    pub slice: Duration,
    /// How a force is done; `None` for the library's default.
    pub method: Option<Method>,
}

/// What came out.
pub struct Outcome {
    /// One row for each case.
    pub rows: Vec<Row>,
    /// How a force was done.
    pub method: Method,
    /// What a force was worth.
    pub assessment: Assessment,
    /// Whether the user interrupted: rows hold the rounds that were whole until then.
    pub interrupted: bool,
}

/// One case, and what its slices came to.
struct Case {
    threads: u32,
    bytes: u64,
    series: Series,
    error: Option<MeasureError>,
}

/// Measures.
pub fn run(options: &Options, setup: Setup) -> Result<Outcome, MeasureError> {
    let space = setup.space;
    let slices = Slices::new(setup, options.method, options.slice)?;
    space.check((SEGMENTS + 1) * LONGEST_SEGMENT, "another --dir")?;
    let mut cases = Vec::new();
    for &bytes in &options.records {
        for &threads in &options.threads {
            cases.push(Case {
                threads,
                bytes,
                series: Series::default(),
                error: None,
            });
        }
    }
    let ended = rounds(options, &slices, &mut cases);
    let interrupted = slices.interrupt().is_raised();
    let has_rounds = cases.iter().any(|c| !c.series.points.is_empty());
    if interrupted && !has_rounds {
        return Err(MeasureError::Interrupted);
    }
    if !interrupted {
        ended?;
    }
    let row = |case: &Case| {
        let row = match &case.error {
            Some(e) => Row::failed(e),
            None => Row::measured(&case.series),
        };
        row.of(case.threads, case.bytes)
    };
    let rows = cases.iter().map(row).collect();
    Ok(Outcome {
        rows,
        method: slices.method(),
        assessment: slices.assessment().clone(),
        interrupted,
    })
}

fn rounds(options: &Options, slices: &Slices, cases: &mut [Case]) -> Result<(), MeasureError> {
    let mut log = slices.log("log", LONGEST_SEGMENT);
    let all = f64::from(options.rounds) * cases.len() as f64;
    let mut done = 0.0;
    for _ in 0..options.rounds {
        let mut taken = Vec::new();
        for case in cases.iter_mut() {
            slices
                .progress()
                .doing(&format!("{} × {}", case.threads, bytes(case.bytes)));
            slices.progress().fraction(done / all);
            done += 1.0;
            let slice = match case.error {
                Some(_) => None,
                None => {
                    let record = record(case.bytes);
                    match slices.of_log(&mut log, &record, case.threads, LONGEST_SEGMENT) {
                        Ok(slice) => Some(slice),
                        Err(MeasureError::Interrupted) => return Err(MeasureError::Interrupted),
                        Err(e) => {
                            case.error = Some(e);
                            None
                        }
                    }
                }
            };
            taken.push(slice);
        }
        for (case, slice) in cases.iter_mut().zip(&taken) {
            slice.iter().for_each(|s| case.series.push(s));
        }
    }
    let path = log.path().to_owned();
    drop(log);
    crate::workplace::remove(&path)
}

/// Bytes that no device can compress or share.
pub fn record(bytes: u64) -> Vec<u8> {
    let mut record = vec![0; usize::try_from(bytes).unwrap_or(0)];
    crate::prepare::scramble(&mut record, 0x6e09);
    record
}
