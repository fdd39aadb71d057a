//! `logforce bench journal --sweep`.

use super::journal::{Args as Journal, LARGEST_CHUNK};
use crate::exit::{End, Usage};
use anyhow::bail;
use logforce_device::Method;
use logforce_measure::sweep::{CHUNKS, DEPTHS, LEAST_SLICE, Options};
use logforce_terminal::arguments::chosen;
use std::time::Duration;

/// Default size of the file, bytes.
const SIZE: u64 = 256 << 20;
/// Default duration of the run.
const TIME: Duration = Duration::from_secs(60);

fn options(args: &Journal) -> anyhow::Result<Options> {
    use logforce_terminal::numbers::bytes;
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

/// Returns the given values in ascending order, each once; or `all` if none is given.
fn ascending<T: Copy + Ord>(asked: &[T], all: &[T]) -> Vec<T> {
    let mut values = if asked.is_empty() { all } else { asked }.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}

/// Measures and reports.
pub fn run(args: &Journal) -> anyhow::Result<End> {
    let options = options(args)?;
    super::run::run(&options, args.place.only("--sweep")?, &args.files)
}
