//! `logforce bench --for SYSTEM`: is a directory fit for another system?

mod load;
mod report;
mod text;

use super::common::{check_directory, command_line, counters, leaving_nothing, machine};
use super::os;
use crate::exit::{End, Usage};
use crate::output::{Sink, Target, print, terminal_width};
use crate::progress::Countdown;
use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use load::{Load, Wanted};
use logforce::disk::calibration;
use logforce_measure::preflight::{COMMITS, Fitness, Options, Preflight, TIME};
use logforce_measure::space::Space;
use logforce_measure::{Setup, output};
use logforce_systems::System;
use logforce_terminal::arguments;
use logforce_terminal::progress::Silent;
use report::PreflightReport;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Largest number of commits of a repetition.
const MOST_COMMITS: u64 = 100_000_000;

/// Flags of the preflight.
#[derive(Debug, clap::Args)]
#[group(id = "preflight_flags")]
pub struct Args {
    /// Make the commits of another system instead, and compare them with the threshold that it publishes:
    /// is this directory fit for it? The answer is the exit status: 0 fit, 1 not fit, 3 cannot tell
    #[arg(long = "for", value_name = "SYSTEM", id = "for", value_parser = system(), conflicts_with_all = [
        "size", "chunk", "method", "file_state", "seconds", "full", "sweep", "csv", "report", "svg"])]
    system: Option<System>,
    /// With --for: run COMMAND by the shell meanwhile, as load; it is started again when it ends
    #[arg(long, value_name = "COMMAND", requires = "for")]
    beside: Option<String>,
    /// With --for: write that much a second meanwhile, synced every second, such as 50MB/s
    #[arg(long, value_name = "SIZE/s", requires = "for", value_parser = rate)]
    beside_write: Option<u64>,
    /// With --for: number of commits; three times as many if the first ones are too slow [default: 10000]
    #[arg(long, value_name = "N", requires = "for",
        value_parser = arguments::within::<u64>(1, MOST_COMMITS))]
    commits: Option<u64>,
    /// Limit in place of the published one, for tests.
    #[arg(long, value_name = "S", requires = "for", hide = true, value_parser = arguments::seconds)]
    limit: Option<Duration>,
}

/// Returns the parser of the systems whose commits are known.
fn system() -> impl TypedValueParser<Value = System> {
    let known = || System::ALL.into_iter().filter(|s| s.commit().is_some());
    PossibleValuesParser::new(known().map(System::name)).try_map(move |name| {
        let named = known().find(|s| s.name() == name);
        named.ok_or_else(|| format!("unknown system '{name}'"))
    })
}

/// Parses a size per second, with or without `/s`.
fn rate(text: &str) -> Result<u64, String> {
    arguments::size(text.strip_suffix("/s").unwrap_or(text))
}

impl Args {
    /// Returns true if `--for` was given.
    pub fn is_asked_for(&self) -> bool {
        self.system.is_some()
    }
}

/// Measures, prints the answer, and returns it as the exit status.
pub fn run(args: &Args, dir: &Path, json: Option<&Target>) -> anyhow::Result<End> {
    let Some(system) = args.system else {
        bail!(Usage("--for needs the name of a system".to_owned()));
    };
    check_directory(dir)?;
    let sink = json.map(Sink::open).transpose()?;
    let stdout_has_data = matches!(sink, Some(Sink::Stdout));
    let known = calibration::known(dir, calibration::default_cache().as_deref())?;
    let options = Options {
        system,
        commits: args.commits.unwrap_or(COMMITS),
        limit: args.limit,
        is_loaded: args.beside.is_some() || args.beside_write.is_some(),
    };
    let wanted = Wanted {
        command: args.beside.clone(),
        rate: args.beside_write,
    };
    let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let measured = leaving_nothing(dir, |place, interrupt| {
        let machine = machine(&*place.directory(), dir)?;
        let setup = Setup {
            system: Arc::new(os::system()),
            path: place.path().to_owned(),
            space: Space::of(&*place.directory())?,
            counters: counters(place.path()),
            interrupt: interrupt.clone(),
            progress: Rc::new(Silent),
        };
        let mut preflight = Preflight::prepare(&options, &setup, &known.facts)?;
        let load = Load::start(&wanted, &*place.directory(), &interrupt)?;
        loop {
            let n = preflight.repetitions().len() + 1;
            let doing = format!("the commits of {}, repetition {n}", system.title());
            let _bar = Countdown::begin(&doing, TIME);
            preflight.repeat()?;
            load.check()?;
            if !preflight.needs_more() {
                break;
            }
        }
        let done = load.stop()?;
        Ok(PreflightReport::new(
            (command_line(), started),
            dir,
            machine,
            (&options, &preflight, &done),
        ))
    })?;
    let Some(report) = measured else {
        return Ok(End::Interrupted);
    };
    let text = text::render(&report, terminal_width(stdout_has_data));
    let printed = print(&report.machine.under_caveat(text), stdout_has_data);
    // The file is written even if the reader of standard output is gone, as with `| head`.
    if let Some(sink) = sink {
        sink.fill(|out| output::json(&report, out))?;
    }
    printed?;
    Ok(match report.answer {
        _ if report.interrupted => End::Interrupted,
        Fitness::Fit => End::Done,
        Fitness::Unfit => End::Unfit,
        Fitness::Unclear => End::Inconclusive,
    })
}
