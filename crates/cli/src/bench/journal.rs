//! `logforce bench journal`.

use super::common::{Files, Where, counters, leaving_nothing, machine};
use super::run::Run;
use crate::exit::{End, Usage};
use crate::progress::Bar;
use anyhow::bail;
use logforce_device::{FileState, Method, Platform};
use logforce_measure::arguments::{self, chosen, named};
use logforce_measure::journal::{Options, Outcome, Setup, run as measure};
use logforce_measure::machine::Machine;
use logforce_measure::report::{Report, Row, SCHEMA, VERSION};
use logforce_measure::space::Space;
use logforce_measure::workplace::Workplace;
use logforce_measure::{Interrupt, MeasureError, conclusion, notes, text};
use std::rc::Rc;
use std::time::Duration;

/// No chunk may be larger: it is held in memory.
pub(super) const LARGEST_CHUNK: u64 = 1 << 30;
/// No more writes in flight: each has a thread.
const MOST_IN_FLIGHT: u32 = 256;
/// Size of each file, where no other is asked for.
const SIZE: u64 = 1 << 30;
/// How long it may take, where nothing else is asked for.
const TIME: Duration = Duration::from_secs(30);

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "journal_flags")]
pub struct Args {
    #[command(flatten)]
    pub(super) place: Where,
    /// Size of each file; shrunk to the time and space there is, but not below 64MiB
    /// [default: 1GiB; with --sweep 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    pub(super) size: Option<u64>,
    /// Bytes per commit
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = arguments::size)]
    chunk: u64,
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = arguments::method,
        help = methods_help(Platform::HERE))]
    pub(super) method: Vec<Method>,
    /// File states, separated by commas: fallocated, zeroed, recycled, growing [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_state)]
    file_state: Vec<FileState>,
    /// How long it may take, preparation included [default: 30; with --sweep 60]
    #[arg(long, value_name = "S", value_parser = arguments::seconds, conflicts_with = "full")]
    pub(super) seconds: Option<Duration>,
    /// All commits that the size holds (65,536 of 16KiB in 1GiB), however long it takes
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    pub(super) sweep: SweepFlags,
    #[command(flatten)]
    pub(super) files: Files,
}

/// Flags of the sweep.
#[derive(Debug, clap::Args)]
#[group(id = "sweep_flags")]
pub struct SweepFlags {
    /// Every method with 1 to 32 writes in flight, by threads and by io_uring where there is one, in
    /// chunks of 512B to 256KiB: up to how many in flight pay, and in which chunks?
    #[arg(long, conflicts_with_all = ["full", "chunk", "file_state"])]
    sweep: bool,
    /// With --sweep: writes in flight, separated by commas [default: 1,2,4,8,16,32]
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "sweep",
        value_parser = arguments::within::<u32>(1, MOST_IN_FLIGHT))]
    pub(super) depths: Vec<u32>,
    /// With --sweep: bytes of a write, separated by commas [default: 512,1k,2k, … 256k]
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',', requires = "sweep",
        value_parser = arguments::size)]
    pub(super) chunks: Vec<u64>,
}

impl SweepFlags {
    /// Whether it is to be a sweep.
    pub fn is_asked_for(&self) -> bool {
        self.sweep
    }
}

/// Names the methods of `platform`.
fn methods_help(platform: Platform) -> String {
    let names: Vec<&str> = platform.methods().iter().map(|m| m.name()).collect();
    format!(
        "Methods, separated by commas: {} [default: all]",
        names.join(", ")
    )
}

fn parse_state(text: &str) -> Result<FileState, String> {
    named(text, "file state", &FileState::ALL, FileState::name)
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_measure::numbers::bytes;
        let size = self.size.unwrap_or(SIZE);
        if self.chunk > LARGEST_CHUNK {
            bail!(Usage(format!(
                "--chunk {} is too large: at most {}",
                bytes(self.chunk),
                bytes(LARGEST_CHUNK)
            )));
        }
        if self.chunk > size {
            bail!(Usage(format!(
                "--chunk {} does not fit into --size {}",
                bytes(self.chunk),
                bytes(size)
            )));
        }
        self.files.check()?;
        self.place.check()?;
        Ok(Options {
            size,
            chunk: usize::try_from(self.chunk)?,
            methods: chosen(&self.method, Method::here()),
            states: chosen(&self.file_state, &FileState::ALL),
            log_methods: match self.method.as_slice() {
                [] => Vec::new(),
                asked => chosen(asked, Method::here()),
            },
            time: (!self.full).then_some(self.seconds.unwrap_or(TIME)),
        })
    }
}

/// Measures and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    let options = args.options()?;
    let run = Run::begin(&args.files)?;
    let measured = leaving_nothing(args.place.dir(), |place, interrupt| {
        measure_in(place, &options, interrupt)
    })?;
    let Some((outcome, machine)) = measured else {
        return Ok(End::Interrupted);
    };
    let report = report(outcome, machine, &run);
    let text = text::render(&report, run.width());
    let has_failed = |row: &Row| row.error.is_some();
    run.end(text, &report, &report.head, &report.rows, has_failed)
}

fn measure_in(
    place: &Workplace,
    options: &Options,
    interrupt: Interrupt,
) -> Result<(Outcome, Machine), MeasureError> {
    let directory = place.directory();
    let machine = machine(&*directory)?;
    let bar = Rc::new(Bar::new());
    let (counters, no_counters) = counters(place.path());
    let setup = Setup {
        directory,
        logs: Some(place.path().to_owned()),
        space: Space::of(&*place.directory())?,
        counters,
        interrupt,
        progress: Rc::clone(&bar) as Rc<_>,
    };
    let outcome = measure(options, &setup);
    bar.clear();
    let mut outcome = outcome?;
    outcome.notes.extend(no_counters);
    Ok((outcome, machine))
}

fn report(outcome: Outcome, machine: Machine, run: &Run) -> Report {
    let Outcome {
        rows,
        mut notes,
        neighbours,
        interrupted,
    } = outcome;
    let flushes_counted = rows.iter().any(|r| r.device_flushes_per_commit.is_some());
    notes.extend(notes::guarantees(&rows));
    notes.extend(notes::marks(&rows));
    notes.extend(notes::counters(neighbours, flushes_counted));
    notes.extend(notes::missing(&rows));
    let mut conclusion = conclusion::conclude(&rows, machine.platform);
    if interrupted {
        conclusion.interrupted();
    }
    if machine.caveat.is_some() {
        conclusion.means_nothing();
    }
    Report {
        head: run.head(SCHEMA, VERSION, interrupted, machine),
        conclusion: conclusion.text,
        recommended: conclusion.recommended,
        notes,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_the_methods_of_the_system_and_no_others() {
        for platform in Platform::ALL {
            let help = methods_help(platform);
            let (_, list) = help.split_once(": ").unwrap();
            let list = list.strip_suffix(" [default: all]").unwrap();
            let named: Vec<&str> = list.split(", ").collect();
            let known: Vec<&str> = platform.methods().iter().map(|m| m.name()).collect();
            assert_eq!(named, known);
        }
    }
}
