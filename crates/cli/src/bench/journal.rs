//! `logforce bench journal`.

use super::common::{
    check_directory, command_line, leaving_nothing, machine, parse_method, parse_seconds,
};
use super::os;
use crate::exit::{End, Usage};
use crate::output::{Sink, Target, print};
use crate::progress::Bar;
use crate::size;
use anyhow::bail;
use logforce_device::{FileState, Method};
use logforce_measure::counters::{CounterSource, NoCounters};
use logforce_measure::journal::{Options, Outcome, Setup, run as measure};
use logforce_measure::machine::Machine;
use logforce_measure::report::{Report, SCHEMA, VERSION};
use logforce_measure::space::Space;
use logforce_measure::workplace::Workplace;
use logforce_measure::{Interrupt, MeasureError, conclusion, notes, output, table, text};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// No chunk may be larger: it is held in memory.
const LARGEST_CHUNK: u64 = 1 << 30;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "journal_flags")]
pub struct Args {
    /// Directory on the disk to measure; a temporary directory is made in it and removed
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Size of each file; shrunk to the time and space there is, but not below 64MiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size::parse)]
    size: u64,
    /// Bytes per commit
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = size::parse)]
    chunk: u64,
    /// Methods, separated by commas [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_method)]
    method: Vec<Method>,
    /// File states, separated by commas: fallocated, zeroed, recycled, growing [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_state)]
    file_state: Vec<FileState>,
    /// How long it may take, preparing included
    #[arg(long, value_name = "S", default_value = "30", value_parser = parse_seconds, conflicts_with = "full")]
    seconds: Duration,
    /// All commits that the size holds (65,536 of 16KiB in 1GiB), however long it takes
    #[arg(long)]
    full: bool,
    /// Write a report as JSON to FILE; - is standard output, and all else goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Write the rows as CSV to FILE; - is standard output, and all else goes to standard error
    #[arg(long, value_name = "FILE")]
    csv: Option<Target>,
}

fn parse_state(text: &str) -> Result<FileState, String> {
    FileState::ALL
        .into_iter()
        .find(|s| s.name() == text)
        .ok_or_else(|| {
            let names: Vec<&str> = FileState::ALL.iter().map(|s| s.name()).collect();
            format!("unknown file state '{text}'; known: {}", names.join(" "))
        })
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_measure::numbers::bytes;
        if self.chunk > LARGEST_CHUNK {
            bail!(Usage(format!(
                "--chunk {} is too large: at most {}",
                bytes(self.chunk),
                bytes(LARGEST_CHUNK)
            )));
        }
        if self.chunk > self.size {
            bail!(Usage(format!(
                "--chunk {} does not fit into --size {}",
                bytes(self.chunk),
                bytes(self.size)
            )));
        }
        let is_stdout = |t: &Option<Target>| *t == Some(Target::Stdout);
        if is_stdout(&self.json) && is_stdout(&self.csv) {
            bail!(Usage(
                "--json - and --csv - cannot both have standard output".to_owned()
            ));
        }
        check_directory(&self.dir)?;
        Ok(Options {
            size: self.size,
            chunk: usize::try_from(self.chunk)?,
            methods: chosen(&self.method, &Method::LINUX),
            states: chosen(&self.file_state, &FileState::ALL),
            log_methods: match self.method.as_slice() {
                [] => Vec::new(),
                asked => chosen(asked, &Method::LINUX),
            },
            time: (!self.full).then_some(self.seconds),
        })
    }
}

/// What was asked for, each once and in our order; all if nothing was.
fn chosen<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    all.iter()
        .copied()
        .filter(|x| asked.is_empty() || asked.contains(x))
        .collect()
}

/// Measures and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    let options = args.options()?;
    let json = args.json.as_ref().map(Sink::open).transpose()?;
    let csv = args.csv.as_ref().map(Sink::open).transpose()?;
    let stdout_has_data = matches!(json, Some(Sink::Stdout)) || matches!(csv, Some(Sink::Stdout));
    let started = SystemTime::now();

    let measured = leaving_nothing(&args.dir, |place, interrupt| {
        measure_in(place, &options, interrupt)
    })?;
    let (outcome, machine) = match measured {
        Err(MeasureError::Interrupted) => return Ok(End::Interrupted),
        other => other?,
    };
    let report = report(outcome, machine, started);
    print(
        &text::render(&report, terminal_width(stdout_has_data)),
        stdout_has_data,
    )?;
    if let Some(sink) = json {
        sink.fill(|out| output::json(&report, out))?;
    }
    if let Some(sink) = csv {
        sink.fill(|out| output::csv(&report.rows, out))?;
    }
    if report.interrupted {
        return Ok(End::Interrupted);
    }
    if report.rows.iter().all(|r| r.error.is_some()) {
        bail!("no row could be measured");
    }
    Ok(End::Done)
}

fn measure_in(
    place: &Workplace,
    options: &Options,
    interrupt: Interrupt,
) -> Result<(Outcome, Machine), MeasureError> {
    let directory = place.directory();
    let machine = machine(&*directory)?;
    let bar = Rc::new(Bar::new());
    let (counters, no_counters): (Rc<dyn CounterSource>, _) = match os::counters(place.path()) {
        Ok(counters) => (Rc::new(counters), None),
        Err(e) => (
            Rc::new(NoCounters),
            Some(format!("Device writes and flushes are not known: {e}.")),
        ),
    };
    let setup = Setup {
        directory,
        logs: Some(place.path().to_owned()),
        space: Space::at(place.path())?,
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

fn report(outcome: Outcome, machine: Machine, started: SystemTime) -> Report {
    let Outcome {
        rows,
        notes: mut told,
        neighbours,
        interrupted,
    } = outcome;
    let flushes_counted = rows.iter().any(|r| r.device_flushes_per_commit.is_some());
    told.extend(notes::guarantees(&rows));
    told.extend(notes::marks(&rows));
    told.extend(notes::counters(neighbours, flushes_counted));
    told.extend(notes::missing(&rows));
    let conclusion = conclusion::conclude(&rows);
    Report {
        schema: SCHEMA,
        version: VERSION,
        command: command_line(),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        interrupted,
        machine,
        conclusion: conclusion.text,
        recommended: conclusion.recommended,
        notes: told,
        rows,
    }
}

/// Of the terminal that the table goes to; the usual where it goes elsewhere.
fn terminal_width(to_stderr: bool) -> usize {
    let terminal = if to_stderr {
        console::Term::stderr()
    } else {
        console::Term::stdout()
    };
    match terminal
        .is_term()
        .then(|| terminal.size_checked())
        .flatten()
    {
        // A terminal that does not know its size says 0.
        Some((_, columns)) if columns > 0 => usize::from(columns),
        _ => table::WIDTH,
    }
}
