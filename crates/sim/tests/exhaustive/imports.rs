//! Restoring from chunks that are changed, cut short, swapped, doubled or left out, and restores that end at
//! each of their operations: the result is a refusal or the same log.

use super::workers::{share, thorough};
use logforce_core::ReplicaOptions;
use logforce_core::{
    Batch, Error, ErrorKind, Import, ImportOptions, Log, LogChunk, Lsn, OpenMode, Options, Record,
    Replication,
};
use logforce_device::System;
use logforce_sim::memory::FileImage;
use logforce_sim::mending::{batches, repaired};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{Failure, Fault, SimDisk, SimOptions, SimRuntime, Survival};
use std::path::Path;

const COPY: &str = "/copy";

/// Options without timed stamps, so that each run has the same batches.
fn options() -> Options {
    small().idle_stamp(std::time::Duration::MAX)
}

fn read_all(replica: &mut Replication, max: u64) -> Vec<LogChunk> {
    let next = || replica.read(max).expect("nothing fails");
    std::iter::from_fn(next).collect()
}

/// Returns the chunks of a log of two openings, with a void range, an append of several batches, metadata
/// and several segments. The second opening has larger blocks, so it begins a segment and leaves a gap.
fn chunks() -> Vec<LogChunk> {
    let disk = SimDisk::new(SimOptions::default(), 3);
    SimRuntime::run(1, |rt| {
        let log = Log::open(&*disk.system(rt), PATH, OpenMode::CreateNew, options())?;
        log.set_meta(b"vote")?;
        for n in 0..3u8 {
            log.commit(vec![n; 3_900])?;
        }
        log.truncate_back(log.last()?.expect("three").start)?;
        log.close()
    })
    .expect("nothing fails");
    disk.change(|o| o.physical_sector = 8192);
    SimRuntime::run(1, |rt| {
        let options = options().segment_size(32 << 10);
        let options = options.max_batch_size(16 << 10).buffer_size(32 << 10);
        let log = Log::open(&*disk.system(rt), PATH, OpenMode::OpenExisting, options)?;
        log.commit(Batch::of(&[&[7; 9_000], &[8; 3_000]]))?;
        log.commit(b"last")?;
        let mut replica = log.replicate(ReplicaOptions::new())?;
        Ok::<_, Error>(read_all(&mut replica, 8 << 10))
    })
    .expect("nothing fails")
}

fn import(system: &dyn System, chunks: &[&LogChunk]) -> Result<(), Error> {
    let mut import = Import::new(system, Path::new(COPY), ImportOptions::new())?;
    for chunk in chunks {
        let meta = chunk.meta.as_deref();
        import.chunk(chunk.from, &chunk.bytes, &chunk.control, meta)?;
    }
    import.finish().map(drop)
}

fn contents(system: &dyn System) -> Result<(Vec<Record>, Option<Vec<u8>>), Error> {
    let log = Log::open(system, COPY, OpenMode::OpenExisting, options())?;
    let contents = (read(&log, log.front_lsn()), log.meta());
    // The drop waits for threads that do not run in memory.
    std::mem::forget(log);
    Ok(contents)
}

/// Imports in memory. Returns the log's contents, or `None` if the chunks were refused. Then nothing opens.
fn restored(chunks: &[&LogChunk]) -> Option<(Vec<Record>, Option<Vec<u8>>)> {
    let system = FileImage::default().system(COPY);
    match import(&system, chunks) {
        Ok(()) => {
            let found = contents(&system).expect("it was restored");
            system.cut();
            Some(found)
        }
        Err(e) => {
            let is_refused = matches!(e, Error::Chunk { .. } | Error::Truncated { .. });
            assert!(is_refused, "{e}");
            let left = system.image().files;
            assert!(left.keys().all(|name| name == "lock"), "left: {left:?}");
            None
        }
    }
}

#[test]
fn every_byte_of_every_chunk() {
    let chunks = chunks();
    let all: Vec<&LogChunk> = chunks.iter().collect();
    let expected = restored(&all).expect("nothing is changed");
    assert_eq!(expected.0.len(), 5);
    let step = if thorough() { 1 } else { 61 };
    let (mut same, mut refused) = (0, 0);
    for (n, chunk) in chunks.iter().enumerate() {
        let count = (chunk.bytes.len() + chunk.control.len()).div_ceil(step);
        let found = share(
            count,
            || (0, 0),
            |(same, refused), at| {
                let mut changed = chunk.clone();
                let at = at * step;
                match changed.bytes.get_mut(at) {
                    Some(byte) => *byte ^= 1 << (at % 8),
                    None => changed.control[at - chunk.bytes.len()] ^= 1 << (at % 8),
                }
                let mut all = all.clone();
                all[n] = &changed;
                match restored(&all) {
                    Some(found) => {
                        assert!(found == expected, "chunk {n}, byte {at}: another log");
                        *same += 1;
                    }
                    None => *refused += 1,
                }
            },
        );
        for (s, r) in found {
            same += s;
            refused += r;
        }
    }
    println!("changed bytes: {same} changed nothing, {refused} refused");
    assert!(same > 100 && refused > 300, "{same}, {refused}");
}

#[test]
fn every_length_of_every_chunk() {
    let chunks = chunks();
    let step = if thorough() { 1 } else { 64 };
    let mut cuts = 0;
    for (n, chunk) in chunks.iter().enumerate() {
        for len in (0..chunk.bytes.len()).step_by(step) {
            let mut cut = chunk.clone();
            cut.bytes.truncate(len);
            let before = chunks[..n].iter();
            let all: Vec<&LogChunk> = before.chain([&cut]).collect();
            let found = restored(&all);
            assert!(found.is_none(), "chunk {n} cut to {len} bytes is a log");
            cuts += 1;
        }
    }
    println!("lengths: {cuts} refused");
    assert!(cuts > 500, "{cuts}");
}

/// All sequences of chunks up to some length: swapped, doubled, left out.
#[test]
fn every_sequence_of_chunks() {
    let chunks = chunks();
    let count = chunks.len().min(5);
    assert!(count >= 4);
    let ends: Vec<_> = (1..=count)
        .map(|n| restored(&chunks[..n].iter().collect::<Vec<_>>()))
        .collect();
    let longest = if thorough() { count as u32 } else { 3 };
    let (mut accepted, mut refused) = (0, 0);
    for len in 1..=longest {
        for code in 0..count.pow(len) {
            let at = |k| code / count.pow(k) % count;
            let sequence: Vec<usize> = (0..len).map(at).collect();
            let all: Vec<&LogChunk> = sequence.iter().map(|n| &chunks[*n]).collect();
            let found = restored(&all);
            let is_prefix = sequence.iter().enumerate().all(|(k, n)| k == *n);
            let expected = is_prefix
                .then(|| ends[sequence.len() - 1].clone())
                .flatten();
            assert!(found == expected, "{sequence:?}");
            match found {
                Some(_) => accepted += 1,
                None => refused += 1,
            }
        }
    }
    println!("sequences: {accepted} accepted, {refused} refused");
    assert!(accepted >= 3 && refused > 50, "{accepted}, {refused}");
}

/// Checks that the copy opens and is complete, or is refused as unfinished. `failed`: an operation failed, and
/// the process went on. Returns true if it opened.
fn check(disk: &SimDisk, all: &[&LogChunk], expected: &[Record], failed: bool, what: &str) -> bool {
    SimRuntime::run(2, |rt| {
        let system = disk.system(rt);
        if system.directory(COPY.as_ref()).is_err() {
            return false;
        }
        let opened = Log::open(&*system, COPY, OpenMode::OpenExisting, options());
        let is_open = opened.is_ok();
        let log = opened.or_else(|e| {
            assert_eq!(e.kind(), ErrorKind::NoLog, "{what}: {e}");
            // It is restored again, except where the last sync failed: the segments were removed, and the
            // crash has brought back their names alone.
            import(&*system, all)?;
            Log::open(&*system, COPY, OpenMode::OpenExisting, options())
        });
        let log = match log {
            Err(e) if failed && e.to_string().contains("not empty") => return false,
            log => log.unwrap_or_else(|e| panic!("{what}: {e}")),
        };
        assert_eq!(read(&log, log.front_lsn()), expected, "{what}");
        log.commit(b"goes on").expect("it is a log");
        log.close().expect("nothing fails");
        is_open
    })
}

/// A restore that is cut off, or fails, at each operation: the copy is complete or does not open.
#[test]
fn every_operation_of_a_restore() {
    let chunks = chunks();
    let all: Vec<&LogChunk> = chunks.iter().collect();
    let (expected, _) = restored(&all).expect("nothing is changed");
    let new = || SimDisk::new(SimOptions::default(), 3);
    let whole = new();
    SimRuntime::run(1, |rt| import(&*whole.system(rt), &all)).expect("nothing fails");
    let (mut opened, mut refused) = (0, 0);
    for op in 0..=whole.ops() {
        for fault in [None, Some(Fault::Io), Some(Fault::NoSpace)] {
            let disk = new();
            match fault {
                None => disk.cut_at(op),
                Some(fault) => disk.fail_at(op, fault),
            }
            let made = SimRuntime::run(1, |rt| import(&*disk.system(rt), &all));
            let image = disk.snapshot();
            let survivals = match (fault, thorough()) {
                (None, true) => &Survival::ALL[..],
                (None, false) => &[Survival::Lost, Survival::Writes],
                (Some(_), _) => &[Survival::Lost],
            };
            for (n, survival) in survivals.iter().enumerate() {
                disk.restore(&image);
                disk.crash(Failure::Power, Some(*survival), 100 * op + n as u64);
                let what = format!("operation {op}, {fault:?}, {survival:?}: {made:?}");
                match check(&disk, &all, &expected, fault.is_some(), &what) {
                    true => opened += 1,
                    false => {
                        assert!(made.is_err(), "{what}: reported as restored");
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("restores: {opened} opened, {refused} refused");
    assert!(opened > 2 && refused > 50, "{opened}, {refused}");
}

/// A repair ends the log at damage, within an atomic append or between two, and leaves batches behind it
/// readable. A replica that has them is refused. One that ends before goes on over the gap, and so does a new
/// one, even if a truncation has voided more.
#[test]
fn a_repaired_log_and_the_chunks_from_before() {
    let mut counts = [0; 2];
    for (damaged, voids) in [(3, false), (5, false), (5, true), (6, true)] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let chunks = SimRuntime::run(1, |rt| {
            // One segment, so that the anchor stays below the damage.
            let options = options().segment_size(96 << 10);
            let log = Log::open(&*disk.system(rt), PATH, OpenMode::CreateNew, options)?;
            for n in 0..4u8 {
                log.commit(vec![n; 3_000])?;
            }
            log.commit(vec![4; 20_000])?;
            for n in 5..9u8 {
                log.commit(vec![n; 3_000])?;
            }
            let chunks = read_all(&mut log.replicate(ReplicaOptions::new())?, 1);
            disk.cut();
            Ok::<_, Error>(chunks)
        });
        let chunks = chunks.expect("nothing fails");
        disk.crash(Failure::Power, Some(Survival::Kept), 1);
        let (_, written, _) = batches(&disk, 1);
        let data: Vec<_> = written.iter().filter(|b| b.frames > 0).collect();
        let bad = data[damaged];
        assert!(disk.make_unreadable(PATH, &bad.file, bad.offset));
        SimRuntime::run(1, |rt| {
            let (log, report) = repaired(&*disk.system(rt), &options());
            let from = report.cut.expect("it was damaged").from;
            assert!(from <= bad.lsn);
            log.close().expect("nothing fails");
        });
        disk.lift_faults();
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let log = Log::open(&*system, PATH, OpenMode::OpenExisting, options());
            let log = log.expect("it is repaired");
            log.commit(b"after the repair").expect("nothing fails");
            if voids {
                let first = read(&log, log.front_lsn())[1].start;
                log.truncate_back(first).expect("a record begins there");
                log.commit(b"after the truncation").expect("nothing fails");
            }
            let expected = read(&log, log.front_lsn());
            let kept = std::iter::once(None).chain(chunks.iter().map(Some));
            for (n, last) in kept.enumerate() {
                let options = ReplicaOptions::new();
                let attached = log.replicate(match last {
                    Some(chunk) => options.after(&chunk.control),
                    None => options,
                });
                let to = last.map_or(Lsn::ORIGIN, |chunk| chunk.to);
                if to > bad.lsn {
                    let refused = attached.map(drop).map_err(|e| e.kind());
                    assert_eq!(refused, Err(ErrorKind::Diverged), "{damaged}: {to}");
                    counts[1] += 1;
                    continue;
                }
                let more = read_all(&mut attached.expect("it has the log"), 1);
                let all: Vec<&LogChunk> = chunks[..n].iter().chain(&more).collect();
                let (found, _) = restored(&all).expect("the chunks continue");
                assert_eq!(found, expected, "{damaged}: from {to}");
                counts[0] += 1;
            }
            log.close().expect("nothing fails");
        });
    }
    println!("repaired: {} go on, {} diverged", counts[0], counts[1]);
    assert!(counts[0] > 4 && counts[1] > 4, "{counts:?}");
}

/// A repair voids the rest of a large segment. A chunk contains the void range, or the replica is refused until
/// the log no longer has it.
#[test]
fn a_void_range_that_is_larger_than_a_chunk() {
    for (size, is_refused) in [(16, false), (100, false), (300, true)] {
        let disk = SimDisk::new(
            SimOptions {
                in_place: false,
                ..SimOptions::default()
            },
            1,
        );
        let options = options().segment_size(size << 20);
        SimRuntime::run(1, |rt| {
            let log = Log::open(
                &*disk.system(rt),
                PATH,
                OpenMode::CreateNew,
                options.clone(),
            )?;
            for n in 0..4u8 {
                log.commit(vec![n; 3_000])?;
            }
            disk.cut();
            Ok::<_, Error>(())
        })
        .expect("nothing fails");
        disk.crash(Failure::Power, Some(Survival::Kept), 1);
        let (_, written, _) = batches(&disk, 1);
        let data: Vec<_> = written.iter().filter(|b| b.frames > 0).collect();
        assert!(disk.make_unreadable(PATH, &data[2].file, data[2].offset));
        SimRuntime::run(1, |rt| {
            let (log, _) = repaired(&*disk.system(rt), &options);
            log.commit(b"after the repair").expect("nothing fails");
            let after = log.last().expect("readable").expect("just now").start;
            let mut replica = log.replicate(ReplicaOptions::new()).expect("it has none");
            let first = replica.read(u64::MAX).expect("no error").expect("a chunk");
            let is_beside = first.bytes.len() as u64 > size << 20;
            assert_eq!(is_beside, size == 16, "{} bytes", first.bytes.len());
            let next = replica.read(1).map(|chunk| chunk.map(|c| c.to));
            match next {
                Err(error) => {
                    assert!(is_refused, "{error}");
                    assert!(error.to_string().contains("begin a new replica"), "{error}");
                }
                Ok(to) => {
                    assert!(!is_refused, "{to:?}");
                    assert!(is_beside || to.expect("a chunk") >= Lsn(size << 20));
                }
            }
            drop(replica);
            log.truncate_front(after).expect("a record begins there");
            log.close().expect("nothing fails");
            let log = Log::open(
                &*disk.system(rt),
                PATH,
                OpenMode::OpenExisting,
                options.clone(),
            );
            let log = log.expect("nothing fails");
            let mut replica = log.replicate(ReplicaOptions::new()).expect("it has none");
            let chunk = replica.read(u64::MAX).expect("no error").expect("a chunk");
            assert!(chunk.bytes.len() < 1 << 20, "{} bytes", chunk.bytes.len());
            disk.cut();
        });
    }
}
