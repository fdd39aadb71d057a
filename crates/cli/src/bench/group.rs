//! `logforce bench group`.

use super::common::{
    Files, Where, command_line, counters, leaving_nothing, machine, terminal_width,
};
use super::os;
use crate::exit::{End, Usage};
use crate::output::print;
use crate::progress::Bar;
use anyhow::bail;
use logforce_device::Method;
use logforce_measure::group::report::{Report, SCHEMA, VERSION, text};
use logforce_measure::group::{Options, Setup, run as measure};
use logforce_measure::space::Space;
use logforce_measure::{MeasureError, arguments};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

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
    /// How long a slice takes
    #[arg(long, value_name = "S", default_value = "0.25", value_parser = arguments::seconds)]
    seconds: Duration,
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
            slice: self.seconds,
            method: self.method,
        })
    }
}

/// Measures and reports.
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
        let outcome = measure(&options, setup);
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
        rows: outcome.rows,
    };
    sinks.fill(&report, &report.rows)?;
    if report.interrupted {
        return Ok(End::Interrupted);
    }
    if report.rows.iter().all(|r| r.error.is_some()) {
        bail!("nothing could be measured");
    }
    Ok(End::Done)
}
