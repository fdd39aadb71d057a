//! `logforce bench pages`.

use super::common::{
    Files, Place, command_line, counters, leaving_nothing, machine, terminal_width,
};
use super::os;
use crate::exit::{End, Usage};
use crate::output::print;
use crate::progress::Bar;
use anyhow::bail;
use logforce_measure::group::Setup;
use logforce_measure::pages::report::{Report, SCHEMA, VERSION, notes, text};
use logforce_measure::pages::{MOST_PAGES, Options, conclude, least_size, run as measure};
use logforce_measure::space::Space;
use logforce_measure::{MeasureError, arguments};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "pages_flags")]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Numbers of pages of a commit, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,5,10,20,40,80,160",
        value_parser = arguments::within::<u64>(1, MOST_PAGES))]
    pages: Vec<u64>,
    /// Size of the file, which is filled beforehand
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = arguments::size)]
    size: u64,
    /// Slices of each case; with the 42 cases of the defaults they take half a minute
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = arguments::within::<u32>(1, u32::MAX))]
    rounds: u32,
    /// How long a slice takes
    #[arg(long, value_name = "S", default_value = "0.07", value_parser = arguments::seconds)]
    seconds: Duration,
    /// Through the system's cache, as was published [default: past it, as page files write]
    #[arg(long)]
    cached: bool,
    #[command(flatten)]
    files: Files,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_measure::numbers::{bytes, count};
        let most = self.pages.iter().copied().max().unwrap_or(1);
        if self.size < least_size(most) {
            bail!(Usage(format!(
                "--size {} is too small for commits of {}: at least {}",
                bytes(self.size),
                count(most, "page"),
                bytes(least_size(most))
            )));
        }
        self.files.check()?;
        self.place.check()?;
        let mut pages = self.pages.clone();
        pages.sort_unstable();
        pages.dedup();
        Ok(Options {
            pages,
            size: self.size,
            rounds: self.rounds,
            slice: self.seconds,
            cached: self.cached,
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
    let report = Report {
        schema: SCHEMA,
        version: VERSION,
        command: command_line(),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        interrupted: outcome.interrupted,
        conclusion: machine.concluded(conclude(&outcome.rows), outcome.interrupted),
        notes: notes(&outcome),
        machine,
        rows: outcome.rows,
    };
    let told = text(&report, terminal_width(stdout_has_data));
    print(&report.machine.under_caveat(told), stdout_has_data)?;
    sinks.fill(&report, &report.rows)?;
    if report.interrupted {
        return Ok(End::Interrupted);
    }
    if report.rows.iter().all(|r| r.error.is_some()) {
        bail!("nothing could be measured");
    }
    Ok(End::Done)
}
