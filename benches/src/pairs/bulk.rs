//! Many small records and one force at the end, compared with large direct writes.

use super::Bench;
use super::report::{Bound, Line, Triple};
use logforce_device::{AlignedBuf, Barrier, FileState};
use logforce_measure::MeasureError;
use logforce_measure::prepare::{PreparedFile, scramble, write};
use logforce_measure::workplace::remove;
use logforce_terminal::numbers::bytes;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Size of a record, bytes.
const RECORD: usize = 1 << 10;
/// Size of a raw write, bytes.
const PIECE: usize = 1 << 20;
/// Minimum share of the raw loop's rate that the log must reach.
const TARGET: f64 = 0.8;
/// Number of records between two checks of the interrupt.
const LOOK: u64 = 1024;

/// Returns the size of a segment that holds one run of `bulk` bytes, including headers.
pub(super) fn segment_size(bulk: u64) -> u64 {
    (bulk + bulk / 16 + (4 << 20)).next_multiple_of(1 << 20)
}

/// Runs the comparison.
pub(super) fn run(bench: &Bench<'_>, lines: &mut Vec<Line>) -> Result<(), MeasureError> {
    let (setup, options) = (bench.setup, bench.options);
    let mut file = PreparedFile::new(
        Arc::clone(&setup.directory),
        FileState::Zeroed,
        options.bulk,
        bench.unit,
        setup.interrupt.clone(),
        Rc::clone(&setup.progress),
    );
    let mut triples = Vec::new();
    for pair in 0..options.bulk_pairs {
        setup
            .progress
            .fraction(f64::from(pair) / f64::from(options.bulk_pairs));
        let triple = Triple {
            before: raw(bench, &mut file)?,
            log: logged(bench)?,
            after: raw(bench, &mut file)?,
        };
        if setup.interrupt.is_raised() {
            break;
        }
        triples.push(triple);
    }
    let what = format!(
        "{} appended in records of {} to one prepared segment, one force at the end: rate, beside direct writes of {} and one fdatasync",
        bytes(options.bulk),
        bytes(RECORD as u64),
        bytes(PIECE as u64)
    );
    lines.push(Line::of_pairs("bulk", what, "MiB/s", &triples).aim(Bound::AtLeast, TARGET));
    Ok(())
}

fn rate(bytes: u64, start: Instant) -> f64 {
    bytes as f64 / (1 << 20) as f64 / start.elapsed().as_secs_f64()
}

fn raw(bench: &Bench<'_>, file: &mut PreparedFile) -> Result<f64, MeasureError> {
    file.renew()?;
    bench.setup.progress.doing("bulk: the raw loop");
    let handle = match file.open(true) {
        Err(MeasureError::NotOffered(_)) => file.open(false)?,
        other => other?,
    };
    let mut buf = AlignedBuf::zeroed(PIECE, bench.unit.max(4096));
    scramble(&mut buf, 0xb01d);
    let total = bench.options.bulk;
    let (start, mut offset) = (Instant::now(), 0);
    while offset < total {
        bench.setup.interrupt.check()?;
        buf[..8].copy_from_slice(&offset.to_le_bytes());
        let len = (total - offset).min(PIECE as u64) as usize;
        buf = write(&*handle, buf, offset, len, false).map_err(MeasureError::io("writing"))?;
        offset += len as u64;
    }
    handle
        .barrier(Barrier::Data)
        .map_err(MeasureError::io("syncing"))?;
    Ok(rate(total, start))
}

fn logged(bench: &Bench<'_>) -> Result<f64, MeasureError> {
    let mut shared = bench.log("log-bulk", segment_size(bench.options.bulk));
    let log = shared.ready()?;
    bench.setup.progress.doing("bulk: the log");
    let mut record = vec![0; RECORD];
    scramble(&mut record, 0xb01e);
    let count = bench.options.bulk / RECORD as u64;
    let start = Instant::now();
    let mut end = log.tail_lsn();
    for number in 0..count {
        if number.is_multiple_of(LOOK) {
            bench.setup.interrupt.check()?;
        }
        record[..8].copy_from_slice(&number.to_le_bytes());
        end = log.append(&record)?.end;
    }
    log.force(end)?;
    let rate = rate(count * RECORD as u64, start);
    log.close()?;
    let path = shared.path().to_owned();
    drop(shared);
    remove(&path)?;
    Ok(rate)
}
