//! `logforce bench map`.

use super::common::{
    Files, Place, command_line, counters, leaving_nothing, machine, terminal_width,
};
use super::os;
use crate::exit::{End, Usage};
use crate::output::print;
use crate::progress::Bar;
use anyhow::bail;
use logforce_measure::map::report::{Report, SCHEMA, VERSION, notes, text};
use logforce_measure::map::{LEAST, Options, PAGE, SIZES, Setup, conclude, run as measure};
use logforce_measure::space::Space;
use logforce_measure::{MeasureError, arguments};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// No commit may change more pages: they are held in memory, and scattered over the smallest file.
const MOST_PAGES: u64 = 1024;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "map_flags")]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Size of the largest file; a quarter and a sixteenth of it are measured too. Of each size
    /// there are three files, filled beforehand
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = arguments::size)]
    size: u64,
    /// Pages that a commit changes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = arguments::within::<u64>(1, MOST_PAGES))]
    pages: u64,
    /// Slices of each method and size
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = arguments::within::<u32>(1, u32::MAX))]
    rounds: u32,
    /// How long a slice takes
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = arguments::seconds)]
    seconds: Duration,
    /// Files of 256MiB and less, 3 slices of 0.1 s
    #[arg(long, conflicts_with_all = ["size", "rounds", "seconds"])]
    quick: bool,
    #[command(flatten)]
    files: Files,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_measure::numbers::bytes;
        if self.size < LEAST {
            bail!(Usage(format!(
                "--size {} is too small: at least {}",
                bytes(self.size),
                bytes(LEAST)
            )));
        }
        self.files.check()?;
        self.place.check()?;
        let (size, rounds, slice) = match self.quick {
            true => (256 << 20, 3, Duration::from_millis(100)),
            false => (self.size, self.rounds, self.seconds),
        };
        Ok(Options {
            sizes: SIZES.map(|part| size / part / PAGE * PAGE).to_vec(),
            pages: self.pages,
            rounds,
            slice,
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
            page_files: true,
            space: Space::of(&*place.directory())?,
            os: os::mapping(),
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
