//! The limit in the control file ends both writes and searches for stamps. Each batch of a crashed log is
//! lost in turn, and the loss is reported if a later batch proves that it was durable.

use super::workers::thorough;
use logforce_core::{
    BatchInfo, Error, ErrorKind, Inspector, Log, Lsn, OpenMode, Options, RecoveryCase, Visit,
};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
use std::time::Duration;

const LOG: &str = "/log";

/// Returns options with segments much larger than a write, so that the limit lies within a segment.
fn options(step: u64) -> Options {
    Options::new()
        .segment_size(4 << 20)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .write_limit_step(step)
        .max_spare_segments(1)
        .calibrate(false)
        .live_stats(false)
        .idle_stamp(Duration::MAX)
}

/// Makes two openings with this number of commits each, and cuts the power in the second one.
fn crashed(step: u64, commits: [usize; 2]) -> SimDisk {
    let disk = SimDisk::new(SimOptions::default(), 5);
    for (n, count) in commits.into_iter().enumerate() {
        SimRuntime::run(1, |rt| {
            let log = Log::open(
                &*disk.system(rt),
                LOG,
                OpenMode::OpenOrCreate,
                options(step),
            );
            let log = log.expect("it opens");
            for k in 0..count {
                log.commit(vec![k as u8; 7_000]).expect("nothing fails");
            }
            // The last opening leaves no later stamp.
            if n == 0 {
                log.close().expect("nothing fails");
            }
            disk.cut();
        });
        disk.crash(Failure::Power, Some(Survival::Lost), 1);
    }
    disk
}

fn batches(disk: &SimDisk) -> Vec<BatchInfo> {
    SimRuntime::run(2, |rt| {
        let inspector = Inspector::open(&*disk.system(rt), LOG).expect("it can be inspected");
        let mut found = Vec::new();
        let walked = inspector.walk(&mut |visit| {
            if let Visit::Batch(batch) = visit {
                found.push(batch.clone());
            }
            true
        });
        walked.expect("it is walked");
        found
    })
}

fn open(disk: &SimDisk, step: u64) -> Result<(RecoveryCase, Lsn), Error> {
    SimRuntime::run(3, |rt| {
        let log = Log::open(
            &*disk.system(rt),
            LOG,
            OpenMode::OpenExisting,
            options(step),
        )?;
        let end = log.recovered().end;
        let case = log.recovered().case;
        disk.cut();
        Ok((case, end))
    })
}

#[test]
fn every_batch_of_a_crashed_log_is_lost() {
    let (mut reported, mut torn) = (0, 0);
    let steps: &[u64] = if thorough() {
        &[1, 200 << 10, 300 << 10, 400 << 10, 1 << 30]
    } else {
        &[200 << 10, 400 << 10]
    };
    // The control file gets the anchor together with each limit, so the crashes differ in their distance
    // from it.
    let cases = steps
        .iter()
        .flat_map(|step| [(*step, 40), (*step, 55), (*step, 72)]);
    for (step, commits) in cases {
        let disk = crashed(step, [10, commits]);
        let image = disk.snapshot();
        let all = batches(&disk);
        let anchor = SimRuntime::run(2, |rt| {
            let inspector = Inspector::open(&*disk.system(rt), LOG);
            inspector.expect("it can be inspected").summary().anchor
        });
        let beyond = all.iter().enumerate().filter(|(_, b)| b.lsn >= anchor);
        // One batch is lost, or all but the last few.
        for ((n, batch), left) in beyond.flat_map(|b| [(b, usize::MAX), (b, 1), (b, 3)]) {
            disk.restore(&image);
            disk.crash(Failure::Power, Some(Survival::Lost), 1);
            let to = match left {
                usize::MAX => n + 1,
                left => all.len().saturating_sub(left).max(n + 1),
            };
            for lost in &all[n..to] {
                disk.flip_bit(LOG, &lost.file, lost.offset + 20, 3);
            }
            let proven = all[to..].iter().any(|later| later.stamp > batch.lsn);
            let what = format!("step {step}, batches {n} to {to} at {}", batch.lsn);
            match open(&disk, step) {
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Damaged, "{what}: {e}");
                    assert!(proven, "{what}: no batch proves it: {e}");
                    reported += 1;
                }
                Ok((case, end)) => {
                    assert!(!proven, "{what}: dropped silently: {case:?}, ends at {end}");
                    assert!(to == all.len(), "{what}");
                    torn += 1;
                }
            }
        }
    }
    println!("exhaustive limit: {reported} losses were reported, {torn} passed for torn");
    assert!(reported > 100 && torn > 0);
}

/// After a crash of a log with long segments, the opening reads only up to the write limit, and not all of
/// the prepared space.
#[test]
fn an_opening_reads_no_further_than_the_limit() {
    let step = 128 << 10;
    let disk = crashed(step, [2, 10]);
    let prepared = SimRuntime::run(2, |rt| {
        let inspector = Inspector::open(&*disk.system(rt), LOG).expect("it can be inspected");
        inspector.summary().prepared_end.0
    });
    assert!(prepared >= 4 << 20, "{prepared}");
    let before = disk.counters().bytes_read;
    open(&disk, step).expect("it is whole");
    let read = disk.counters().bytes_read - before;
    // 10 commits of 8 KiB, the control file, and chunks of 512 KiB that reach further.
    assert!(read < 2 << 20, "{read} bytes were read");
}
