//! `logforce bench pairs`.

use super::common::{
    Files, Where, chosen, command_line, leaving_nothing, machine, named, parse_method,
};
use crate::exit::{End, Usage};
use crate::output::print;
use crate::progress::Bar;
use crate::size;
use anyhow::bail;
use logforce_device::Method;
use logforce_measure::MeasureError;
use logforce_measure::pairs::child::Child;
use logforce_measure::pairs::report::{Report, SCHEMA, VERSION, text};
use logforce_measure::pairs::{Options, Part, Setup, run as compare};
use logforce_measure::space::Space;
use std::rc::Rc;
use std::time::SystemTime;

/// Name of the hidden command that a child process runs.
pub const CHILD: &str = "pairs-child";
/// A segment must hold it, and none is longer than 4 GiB.
const LARGEST_BULK: u64 = 3 << 30;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "pairs_flags")]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// Parts, separated by commas: commits, bulk, recovery, memory [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_part)]
    only: Vec<Part>,
    /// The log's method [default: the library's]
    #[arg(long, value_name = "METHOD", value_parser = parse_method)]
    method: Option<Method>,
    /// Pairs of slices of commits
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::size::within::<u32>(1, u32::MAX))]
    pairs: u32,
    /// Commits in a slice
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = crate::size::within::<u64>(1, u64::MAX))]
    slice: u64,
    /// Bytes of a bulk run, at most 3GiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size::parse)]
    bulk: u64,
    /// Pairs of bulk runs
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = crate::size::within::<u32>(1, u32::MAX))]
    bulk_pairs: u32,
    /// Size of the log that is recovered
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size::parse)]
    log: u64,
    /// Bytes written in records of 1MiB to see how much memory that takes
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size::parse)]
    memory: u64,
    #[command(flatten)]
    files: Files,
}

fn parse_part(text: &str) -> Result<Part, String> {
    named(text, "part", &Part::ALL, Part::name)
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        if self.bulk > LARGEST_BULK {
            bail!(Usage("--bulk is too large: at most 3GiB".to_owned()));
        }
        self.files.check()?;
        self.place.check()?;
        Ok(Options {
            parts: chosen(&self.only, &Part::ALL),
            pairs: self.pairs,
            slice: self.slice,
            bulk: self.bulk.next_multiple_of(1 << 20),
            bulk_pairs: self.bulk_pairs,
            log: self.log,
            memory: self.memory,
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
    let child = Child {
        program: std::env::current_exe()?,
        arguments: vec!["bench".into(), CHILD.into()],
    };
    let measured = leaving_nothing(args.place.dir(), |place, interrupt| {
        let bar = Rc::new(Bar::new());
        let setup = Setup {
            directory: place.directory(),
            space: Space::of(&*place.directory())?,
            child,
            interrupt,
            progress: Rc::clone(&bar) as Rc<_>,
        };
        let outcome = compare(&options, &setup);
        bar.clear();
        Ok((outcome?, machine(&*setup.directory)?))
    })?;
    let (outcome, machine) = match measured {
        Err(MeasureError::Interrupted) => return Ok(End::Interrupted),
        other => other?,
    };
    let told = machine.under_caveat(text(&outcome, &machine));
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
        rows: outcome.lines,
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
