//! `logforce bench group`.

use super::common::{
    Files, Where, chosen, command_line, counters, leaving_nothing, machine, named, parse_method,
    parse_seconds, terminal_width,
};
use super::os;
use crate::exit::{End, Usage};
use crate::output::print;
use crate::progress::Bar;
use crate::size;
use anyhow::bail;
use logforce_device::Method;
use logforce_measure::MeasureError;
use logforce_measure::group::report::{Report, SCHEMA, VERSION, text};
use logforce_measure::group::{Options, Part, Setup, run as compare};
use logforce_measure::space::Space;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// No record may be longer: the baseline stages 4 MiB.
const LONGEST_RECORD: u64 = 1 << 20;
/// No more threads than this.
const MOST_THREADS: u32 = 1024;
/// Segments that are prepared meanwhile are of these sizes.
const SEGMENTS: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 20;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "group_flags")]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// Parts, separated by commas: commits, submit, preparing [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_part)]
    parts: Vec<Part>,
    /// Numbers of threads that commit, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,16,64,256",
        value_parser = crate::size::within::<u32>(1, MOST_THREADS))]
    threads: Vec<u32>,
    /// Sizes of their records, separated by commas
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',', default_value = "128,16KiB",
        value_parser = size::parse)]
    records: Vec<u64>,
    /// Threads that submit
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = crate::size::within::<u32>(1, MOST_THREADS))]
    submitters: u32,
    /// Records that they have under way, all together
    #[arg(long, value_name = "N", default_value_t = 1024,
        value_parser = crate::size::within::<u32>(1, 1 << 20))]
    outstanding: u32,
    /// Size of the segments that are prepared while one thread commits
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size::parse)]
    segment: u64,
    /// Pairs of slices in each case
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::size::within::<u32>(1, u32::MAX))]
    pairs: u32,
    /// How long a slice takes
    #[arg(long, value_name = "S", default_value = "0.25", value_parser = parse_seconds)]
    seconds: Duration,
    /// The method of all [default: the library's]
    #[arg(long, value_name = "METHOD", value_parser = parse_method)]
    method: Option<Method>,
    #[command(flatten)]
    files: Files,
}

fn parse_part(text: &str) -> Result<Part, String> {
    named(text, "part", &Part::ALL, Part::name)
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
        if !SEGMENTS.contains(&self.segment) || !self.segment.is_multiple_of(64 << 10) {
            bail!(Usage(format!(
                "--segment {} is not a multiple of 64 KiB from {} to {}",
                bytes(self.segment),
                bytes(*SEGMENTS.start()),
                bytes(*SEGMENTS.end())
            )));
        }
        if self.outstanding < self.submitters {
            bail!(Usage(
                "--outstanding is less than one for each of --submitters".to_owned()
            ));
        }
        self.files.check()?;
        self.place.check()?;
        Ok(Options {
            parts: chosen(&self.parts, &Part::ALL),
            threads: self.threads.clone(),
            records: self.records.clone(),
            pairs: self.pairs,
            slice: self.seconds,
            submitters: self.submitters,
            outstanding: self.outstanding,
            segment: self.segment,
            method: self.method,
        })
    }
}

/// Compares and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    let options = args.options()?;
    let sinks = args.files.open()?;
    let stdout_has_data = sinks.have_stdout();
    let started = SystemTime::now();
    let measured = leaving_nothing(args.place.dir(), |place, interrupt| {
        let bar = Rc::new(Bar::new());
        let setup = Setup {
            system: Arc::new(os::system()),
            path: place.path().to_owned(),
            space: Space::of(&*place.directory())?,
            counters: counters(place.path()).0,
            interrupt,
            progress: Rc::clone(&bar) as Rc<_>,
        };
        let outcome = compare(&options, &setup);
        bar.clear();
        Ok((outcome?, machine(&*place.directory())?))
    })?;
    let (outcome, machine) = match measured {
        Err(MeasureError::Interrupted) => return Ok(End::Interrupted),
        other => other?,
    };
    let width = terminal_width(stdout_has_data);
    let told = machine.under_caveat(text(&outcome, &machine, width));
    print(&told, stdout_has_data)?;
    let report = Report {
        schema: SCHEMA,
        version: VERSION,
        command: command_line(),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        interrupted: outcome.interrupted,
        machine,
        method: outcome.method.to_string(),
        guarantee: outcome.assessment.guarantee.to_string(),
        verdict: outcome.assessment.verdict.to_string(),
        targets: outcome.targets,
        rows: outcome.rows,
    };
    sinks.fill(&report, &report.rows)?;
    if report.interrupted {
        return Ok(End::Interrupted);
    }
    if report.rows.iter().all(|r| r.error.is_some()) {
        bail!("nothing could be compared");
    }
    Ok(End::Done)
}
