//! `logforce bench journal --sweep`.

use super::journal::{Args as Journal, LARGEST_CHUNK};
use super::run::Run;
use crate::exit::{End, Usage};
use crate::output::complain;
use anyhow::bail;
use logforce_device::Method;
use logforce_measure::arguments::{self, chosen};
use logforce_measure::layout::wrap;
use logforce_measure::sweep::report::{Report, Row, SCHEMA, VERSION};
use logforce_measure::sweep::{CHUNKS, DEPTHS, LEAST_SLICE, Options, run as measure, text};
use std::time::Duration;

/// No more writes in flight: each has a thread.
const MOST_IN_FLIGHT: u32 = 256;
/// Size of the file, where no other is asked for.
const SIZE: u64 = 256 << 20;
/// How long it may take, where nothing else is asked for.
const TIME: Duration = Duration::from_secs(60);

/// Flags of the sweep.
#[derive(Debug, clap::Args)]
#[group(id = "sweep_flags")]
pub struct Flags {
    /// Every method with 1 to 32 writes in flight, by threads and by io_uring where there is one, in
    /// chunks of 512B to 256KiB: up to how many in flight pay, and in which chunks?
    #[arg(long, conflicts_with_all = ["full", "chunk", "file_state"])]
    sweep: bool,
    /// With --sweep: writes in flight, separated by commas [default: 1,2,4,8,16,32]
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "sweep",
        value_parser = arguments::within::<u32>(1, MOST_IN_FLIGHT))]
    depths: Vec<u32>,
    /// With --sweep: bytes of a write, separated by commas [default: 512,1k,2k, … 256k]
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',', requires = "sweep",
        value_parser = arguments::size)]
    chunks: Vec<u64>,
}

impl Flags {
    /// Whether it is to be a sweep.
    pub fn is_asked_for(&self) -> bool {
        self.sweep
    }
}

fn options(args: &Journal) -> anyhow::Result<Options> {
    use logforce_measure::numbers::bytes;
    let (chunks, depths) = (&args.sweep.chunks, &args.sweep.depths);
    let size = args.size.unwrap_or(SIZE);
    if let Some(long) = chunks.iter().find(|&&c| c > LARGEST_CHUNK.min(size)) {
        bail!(Usage(match *long > size {
            true => format!(
                "--chunks {} does not fit into --size {}",
                bytes(*long),
                bytes(size)
            ),
            false => format!(
                "--chunks {} is too large: at most {}",
                bytes(*long),
                bytes(LARGEST_CHUNK)
            ),
        }));
    }
    args.files.check()?;
    args.place.check()?;
    Ok(Options {
        methods: chosen(&args.method, Method::here()),
        depths: ascending(depths, &DEPTHS),
        chunks: ascending(chunks, &CHUNKS),
        size,
        time: args.seconds.unwrap_or(TIME),
        least_slice: LEAST_SLICE,
        writes: None,
    })
}

/// What was asked for, each once; `all` if nothing was.
fn ascending<T: Copy + Ord>(asked: &[T], all: &[T]) -> Vec<T> {
    let mut values = if asked.is_empty() { all } else { asked }.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}

/// Measures and reports.
pub fn run(args: &Journal) -> anyhow::Result<End> {
    let options = options(args)?;
    let run = Run::begin(&args.files)?;
    let say = |words: &str| complain(wrap(words, run.width(), 2).trim_end());
    let measured = run.measure(args.place.dir(), |setup| measure(&options, setup, say))?;
    let Some((outcome, machine)) = measured else {
        return Ok(End::Interrupted);
    };
    let head = run.head(SCHEMA, VERSION, outcome.interrupted, machine);
    let report = Report::new(head, outcome);
    let text = text(&report, run.width());
    let has_failed = |row: &Row| row.error.is_some();
    run.end(text, &report, &report.head, &report.rows, has_failed)
}
