//! `logforce bench journal --sweep`.

use super::journal::{Args as Journal, LARGEST_CHUNK};
use super::run::Run;
use crate::exit::{End, Usage};
use crate::output::complain;
use anyhow::bail;
use logforce_device::Method;
use logforce_measure::arguments::chosen;
use logforce_measure::layout::wrap;
use logforce_measure::sweep::report::{Report, Row, SCHEMA, VERSION};
use logforce_measure::sweep::{
    CHUNKS, DEPTHS, LEAST_SLICE, Options, conclude, run as measure, text,
};
use std::time::Duration;

/// Size of the file, where no other is asked for.
const SIZE: u64 = 256 << 20;
/// How long it may take, where nothing else is asked for.
const TIME: Duration = Duration::from_secs(60);

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
    let conclusion = conclude(&outcome);
    let report = Report::new(head, outcome, conclusion);
    let text = text(&report, run.width());
    let has_failed = |row: &Row| row.error.is_some();
    run.end(text, &report, &report.head, &report.rows, has_failed)
}
