//! `logforce bench group`.

use super::common::{Files, Where};
use super::run::Run;
use crate::exit::{End, Usage};
use anyhow::bail;
use logforce_device::Method;
use logforce_measure::arguments;
use logforce_measure::group::report::{Report, Row, SCHEMA, VERSION, text};
use logforce_measure::group::{Options, run as measure};
use std::time::Duration;

/// No record may be longer: many threads hold one each.
const LONGEST_RECORD: u64 = 1 << 20;
/// No more threads than this.
const MOST_THREADS: u32 = 1024;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "group_flags")]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// Numbers of threads that commit, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,16,64,256",
        value_parser = arguments::within::<u32>(1, MOST_THREADS))]
    threads: Vec<u32>,
    /// Sizes of their records, separated by commas
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',', default_value = "128,16KiB",
        value_parser = arguments::size)]
    records: Vec<u64>,
    /// Slices of each number of threads and size
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = arguments::within::<u32>(1, u32::MAX))]
    rounds: u32,
    /// How long each slice takes, seconds
    #[arg(long, value_name = "S", default_value = "0.25", value_parser = arguments::seconds)]
    slice: Duration,
    /// The log's method [default: the library's]
    #[arg(long, value_name = "METHOD", value_parser = arguments::method)]
    method: Option<Method>,
    #[command(flatten)]
    files: Files,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_measure::numbers::bytes;
        if let Some(long) = self.records.iter().find(|&&r| r > LONGEST_RECORD) {
            bail!(Usage(format!(
                "--records {} is too large: at most {}",
                bytes(*long),
                bytes(LONGEST_RECORD)
            )));
        }
        self.files.check()?;
        self.place.check()?;
        Ok(Options {
            threads: self.threads.clone(),
            records: self.records.clone(),
            rounds: self.rounds,
            slice: self.slice,
            method: self.method,
        })
    }
}

/// Measures and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    let options = args.options()?;
    let run = Run::begin(&args.files)?;
    let measured = run.measure(args.place.dir(), |setup| measure(&options, setup))?;
    let Some((outcome, machine)) = measured else {
        return Ok(End::Interrupted);
    };
    let text = text(&outcome, &machine, run.width());
    let report = Report {
        head: run.head(SCHEMA, VERSION, outcome.interrupted, machine),
        method: outcome.method.to_string(),
        guarantee: outcome.assessment.guarantee.to_string(),
        verdict: outcome.assessment.verdict.to_string(),
        rows: outcome.rows,
    };
    let has_failed = |row: &Row| row.error.is_some();
    run.end(text, &report, &report.head, &report.rows, has_failed)
}
