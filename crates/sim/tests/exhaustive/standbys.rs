//! Crashes of a standby, which imports chunks one after the other with a checkpoint after each, and becomes a
//! log at the end. Each chunk comes once, so it must have its metadata wherever the import goes on behind it.

use super::workers::{share, thorough};
use logforce_core::{
    Error, ErrorKind, Import, ImportOptions, Log, LogChunk, OpenMode, ReplicaOptions,
};
use logforce_device::System;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{FailingCalls, Failure, Refusal, SimDisk, SimOptions, SimRuntime, Survival};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const COPY: &str = "/copy";

/// Returns chunks of which each but the first has other metadata.
fn chunks() -> Vec<LogChunk> {
    let disk = SimDisk::new(SimOptions::default(), 3);
    SimRuntime::run(1, |rt| {
        let options = small().idle_stamp(std::time::Duration::MAX);
        let log = Log::open(&*disk.system(rt), PATH, OpenMode::CreateNew, options)?;
        let mut replica = log.replicate(ReplicaOptions::new())?;
        let mut chunks = Vec::new();
        for n in 0..4u8 {
            if n > 0 {
                log.set_meta(&[n; 2_000])?;
            }
            log.commit(vec![n; 5_000])?;
            chunks.push(replica.read(u64::MAX)?.expect("a record is durable"));
        }
        log.close()?;
        Ok::<_, Error>(chunks)
    })
    .expect("nothing fails")
}

/// Begins or goes on. Returns the import and the number of chunks that it has.
fn begin<'a>(system: &'a dyn System, all: &[LogChunk]) -> Result<(Import<'a>, usize), Error> {
    let import = Import::new(system, Path::new(COPY), ImportOptions::new().resume(true))?;
    let is_end = |at| all.iter().position(|chunk| chunk.to == at);
    let last = import.position().map(is_end);
    let count = last.map_or(0, |last| last.expect("it ends with a chunk") + 1);
    Ok((import, count))
}

/// Imports what is missing, and makes it a log.
fn follow(system: &dyn System, all: &[LogChunk], saved: &AtomicUsize) -> Result<(), Error> {
    let (mut import, count) = begin(system, all)?;
    saved.store(count, Relaxed);
    add(&mut import, &all[count..], saved)?;
    import.finish().map(drop)
}

/// Imports chunks with a checkpoint after each, whose count it adds to `saved`.
fn add(import: &mut Import<'_>, chunks: &[LogChunk], saved: &AtomicUsize) -> Result<(), Error> {
    for chunk in chunks {
        let meta = chunk.meta.as_deref();
        import.chunk(chunk.from, &chunk.bytes, &chunk.control, meta)?;
        import.checkpoint()?;
        saved.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Takes over what is there, and checks it: at least the first `saved` chunks, and metadata that is at least as
/// new. Returns the number of chunks.
fn check(disk: &SimDisk, all: &[LogChunk], saved: usize, what: &str) -> usize {
    SimRuntime::run(2, |rt| {
        let system = disk.system(rt);
        let open = || {
            let options = small().idle_stamp(std::time::Duration::MAX);
            Log::open(&*system, COPY, OpenMode::OpenExisting, options)
        };
        let (log, count) = match open() {
            Ok(log) => (log, all.len()),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NoLog, "{what}: {e}");
                let (import, count) =
                    begin(&*system, all).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(count >= saved, "{what}: {count} of {saved} chunks");
                if count == 0 {
                    return 0;
                }
                import.finish().unwrap_or_else(|e| panic!("{what}: {e}"));
                (open().unwrap_or_else(|e| panic!("{what}: {e}")), count)
            }
        };
        let mut expected = all[count - 1..].iter().map(|chunk| &chunk.meta);
        let meta = log.meta();
        assert!(
            expected.any(|m| *m == meta),
            "{what}: old metadata at {count} chunks"
        );
        assert_eq!(read(&log, log.front_lsn()).len(), count, "{what}");
        log.close().expect("nothing fails");
        count
    })
}

/// Kind of the first crash, and what survives it and the second one, a power cut.
const KINDS: [(Failure, Survival, Survival); 5] = [
    (Failure::Power, Survival::Lost, Survival::Lost),
    (Failure::Power, Survival::Sectors, Survival::Sectors),
    (Failure::Process, Survival::Kept, Survival::Lost),
    (Failure::Process, Survival::Kept, Survival::Sectors),
    (Failure::Power, Survival::Writes, Survival::Writes),
];

/// A standby that is cut off at each operation, goes on, and is cut off again.
#[test]
fn every_pair_of_crashes_of_a_standby() {
    let all = chunks();
    let new = || SimDisk::new(SimOptions::default(), 3);
    let run = |disk: &SimDisk, saved: &AtomicUsize| {
        SimRuntime::run(1, |rt| follow(&*disk.system(rt), &all, saved))
    };
    let whole = new();
    run(&whole, &AtomicUsize::new(0)).expect("nothing fails");
    let count = KINDS.len() * whole.ops() as usize;
    let stride = if thorough() { 1 } else { 3 };
    let found = share(
        count,
        || [0; 5],
        |found, n| {
            let (first, (failure, left, left_later)) = ((n / KINDS.len()) as u64, KINDS[n % 5]);
            let what = format!("{failure:?} at operation {first}, {left:?}");
            let (disk, saved) = (new(), AtomicUsize::new(0));
            disk.cut_at(first);
            let _ = run(&disk, &saved);
            assert!(disk.is_cut(), "{what}");
            disk.crash(failure, Some(left), first);
            let crashed = disk.snapshot();
            found[check(&disk, &all, saved.load(Relaxed), &what)] += 1;
            disk.restore(&crashed);
            let began = disk.ops();
            // A standby that has become a log is not followed.
            let _ = run(&disk, &saved);
            let ops = disk.ops();
            for second in (began..ops).skip(n % stride).step_by(stride) {
                let what = format!("{what}, then power at {second}, {left_later:?}");
                disk.restore(&crashed);
                disk.cut_at(second);
                let saved = AtomicUsize::new(0);
                let _ = run(&disk, &saved);
                disk.crash(Failure::Power, Some(left_later), second);
                found[check(&disk, &all, saved.load(Relaxed), &what)] += 1;
            }
        },
    );
    let sum = |n| found.iter().map(|found: &[u64; 5]| found[n]).sum::<u64>();
    let counts: Vec<u64> = (0..=all.len()).map(sum).collect();
    println!("standbys with 0 to 4 chunks: {counts:?}");
    assert!(counts.iter().all(|n| *n > 20), "{counts:?}");
}

/// A call that fails for another reason than the medium costs a standby nothing.
#[test]
fn every_failing_call_of_going_on() {
    let all = chunks();
    let disk = SimDisk::new(SimOptions::default(), 3);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let (mut import, _) = begin(&*system, &all)?;
        add(&mut import, &all, &AtomicUsize::new(0))
    })
    .expect("nothing fails");
    let left = disk.snapshot();
    let mut failed = 0;
    for (after, how) in (0..60).flat_map(|n| Refusal::OF_THE_PROCESS.map(|how| (n, how))) {
        disk.restore(&left);
        disk.fail_calls(FailingCalls {
            calls: Vec::new(),
            how,
            after,
            failing: 1,
        });
        SimRuntime::run(2, |rt| {
            let system = disk.system(rt);
            failed += u32::from(begin(&*system, &all).is_err());
            disk.stop_failing_calls();
            let what = format!("{how:?} after {after} calls");
            let (import, count) = begin(&*system, &all).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(count, all.len(), "{what}: began anew");
            drop(import);
        });
    }
    println!("standbys: {failed} calls failed");
    assert!(failed > 80, "{failed}");
}
