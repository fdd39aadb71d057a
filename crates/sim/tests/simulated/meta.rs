//! The metadata: the last acknowledged value or the one in flight, after any crash, failure or damage.

use crate::common::{open, repaired};
use logforce_core::{
    Error, ErrorKind, Inspector, Log, MAX_META_LEN, Method, Options, ReadOnly, Visit,
};
use logforce_device::{Runtime, System};
use logforce_sim::model::{PATH, small};
use logforce_sim::{is_deep, seeds, stride};
use logforce_testkit::{Failure, Fault, Rng, SimDisk, SimOptions, SimRuntime, Survival};
use std::sync::{Arc, Mutex};

const SLOTS: [u64; 2] = [128 << 10, 192 << 10];
const OLD_LEN: usize = 128 << 10;

type Value = Option<Vec<u8>>;

/// Possible values, by the results of the calls.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Value that was acknowledged, or shown by an opening.
    durable: Value,
    /// Values whose call did not return, or returned an error.
    open: Vec<Value>,
}

impl Known {
    fn check(&mut self, found: Value, when: &str) {
        assert!(
            found == self.durable || self.open.contains(&found),
            "{when}: {found:?} is there, {self:?}"
        );
        self.durable = found;
        self.open.clear();
    }
}

fn value(n: u64) -> Vec<u8> {
    let len = [0, 1, 700, MAX_META_LEN, 3_333][n as usize % 5];
    let mut rng = Rng::new(n);
    let mut bytes: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
    // Short values are distinct too; one of them is empty.
    if len > 8 {
        bytes[..8].copy_from_slice(&n.to_le_bytes());
    }
    bytes
}

fn set(log: &Log, known: &mut Known, n: u64) -> Result<(), Error> {
    known.open.push(Some(value(n)));
    log.set_meta(&value(n))?;
    known.durable = Some(value(n));
    known.open.clear();
    assert_eq!(log.meta(), known.durable);
    Ok(())
}

/// Sets the metadata among other work that writes the control file.
fn work(
    disk: &SimDisk,
    rt: &SimRuntime,
    options: &Options,
    known: &mut Known,
) -> Result<(), Error> {
    let log = open(disk, rt, options)?;
    known.check(log.meta(), "at first");
    for n in 1..4 {
        set(&log, known, n)?;
        let at = log.commit(&vec![n as u8; 9_000])?;
        log.truncate_front(at.start)?;
    }
    log.close()?;
    let log = open(disk, rt, options)?;
    known.check(log.meta(), "after a close");
    set(&log, known, 5)?;
    set(&log, known, 6)?;
    log.close()
}

/// Opens the log three times after a crash, with a power cut before the second and the third opening. Both
/// must show the value that the first one shows.
fn recover(disk: &SimDisk, options: &Options, known: &mut Known, seed: u64, what: &str) {
    SimRuntime::run(seed, |rt| {
        if let Ok(seen) = ReadOnly::open(&*disk.system(rt), PATH) {
            let seen = seen.meta().unwrap_or_else(|e| panic!("{what}: {e}"));
            known.clone().check(seen, what);
        }
        let log = open(disk, rt, options).unwrap_or_else(|e| panic!("{what}: {e}"));
        known.check(log.meta(), what);
        rt.tolerate_panics();
        disk.cut();
    });
    for (n, survival) in [Survival::Lost, Survival::Sectors].into_iter().enumerate() {
        disk.crash(Failure::Power, Some(survival), seed);
        SimRuntime::run(seed, |rt| {
            let log = open(disk, rt, options).unwrap_or_else(|e| panic!("{what}: {e}"));
            known.check(log.meta(), what);
            if n == 1 {
                set(&log, known, 20 + seed % 5).expect("nothing fails now");
                log.close().expect("nothing fails now");
            } else {
                disk.cut();
            }
        });
    }
}

fn disks() -> Vec<(SimOptions, Options)> {
    let kind = |direct, in_place, blocking, method| {
        let disk = SimOptions {
            direct,
            in_place,
            blocking,
            ..SimOptions::default()
        };
        (disk, small().method(method))
    };
    vec![
        kind(true, true, false, Method::DirectDsync),
        kind(false, true, false, Method::Fdatasync),
        kind(false, false, true, Method::Dsync),
    ]
}

/// Turns the log into one of an earlier version: its control file has no space for metadata.
fn make_old(disk: &SimDisk, options: &Options) {
    SimRuntime::run(1, |rt| {
        let log = open(disk, rt, options).expect("a fresh log");
        log.commit(b"old").expect("nothing fails");
        log.close().expect("nothing fails");
    });
    let bytes = disk.file_bytes(PATH, "control").expect("it is there");
    disk.put_file(PATH, "control", &bytes[..OLD_LEN]);
    disk.crash(Failure::Process, None, 1);
}

fn prepared(disk: SimOptions, options: &Options, old: bool) -> SimDisk {
    let disk = SimDisk::new(disk, 1);
    if old {
        make_old(&disk, options);
    }
    disk
}

#[test]
fn a_crash_at_every_operation() {
    for (kind, options) in disks() {
        for old in [false, true] {
            let whole = prepared(kind.clone(), &options, old);
            let mut known = Known::default();
            let done = SimRuntime::run(1, |rt| work(&whole, rt, &options, &mut known));
            done.expect("nothing fails");
            for op in (0..whole.ops()).step_by(stride(1)) {
                let disk = prepared(kind.clone(), &options, old);
                disk.cut_at(op);
                let mut known = Known::default();
                let _ = SimRuntime::run(1, |rt| work(&disk, rt, &options, &mut known));
                let image = disk.snapshot();
                for (n, survival) in Survival::ALL.into_iter().enumerate() {
                    // The cases left out after this cut are tried after its neighbours.
                    if !is_deep() && (n + op as usize) % 2 == 1 {
                        continue;
                    }
                    let what = format!("{kind:?}, old {old}, cut at {op}, {survival:?}");
                    disk.restore(&image);
                    let failure = if n == 0 {
                        Failure::Process
                    } else {
                        Failure::Power
                    };
                    disk.crash(failure, Some(survival), op);
                    recover(&disk, &options, &mut known.clone(), op, &what);
                }
            }
        }
    }
}

/// The opening after a crash is also cut, at each of its operations. The value that a returned opening has
/// shown is durable.
#[test]
fn a_crash_in_recovery() {
    for (kind, options) in disks() {
        let whole = prepared(kind.clone(), &options, true);
        SimRuntime::run(1, |rt| {
            work(&whole, rt, &options, &mut Known::default()).expect("nothing fails");
        });
        for op in (0..whole.ops()).step_by(stride(3)) {
            let disk = prepared(kind.clone(), &options, true);
            disk.cut_at(op);
            let mut known = Known::default();
            let _ = SimRuntime::run(1, |rt| work(&disk, rt, &options, &mut known));
            let survival = [Survival::Kept, Survival::Sectors][op as usize % 2];
            let failure = [Failure::Process, Failure::Power][op as usize / 3 % 2];
            disk.crash(failure, Some(survival), op);
            let image = disk.snapshot();
            // The cases left out after this cut are tried after its neighbours.
            let every = if is_deep() { 1 } else { 2 };
            for cut in (op % every..40).step_by(every as usize) {
                let what = format!("{kind:?}, cut at {op}, and at {cut} of the opening");
                disk.restore(&image);
                disk.cut_at(cut);
                let mut known = known.clone();
                SimRuntime::run(cut, |rt| {
                    if let Ok(log) = open(&disk, rt, &options) {
                        known.check(log.meta(), &what);
                        disk.cut();
                    }
                });
                disk.crash(Failure::Power, Some(Survival::ALL[cut as usize % 5]), op);
                recover(&disk, &options, &mut known, op, &what);
            }
        }
    }
}

/// After a failed barrier the system's cache shows bytes that the medium never got, and an opening that
/// cannot read past it builds on them. That opening is cut at every operation.
fn cut_the_reopening(disk: &SimDisk, options: &Options, known: &Known, seed: u64, what: &str) {
    let image = disk.snapshot();
    for cut in 0..10 {
        for survival in [Survival::Lost, Survival::Sectors] {
            let what = format!("{what}, reopening cut at {cut}, {survival:?}");
            let mut known = known.clone();
            disk.restore(&image);
            disk.crash(Failure::Process, None, seed);
            disk.cut_at(cut);
            SimRuntime::run(cut, |rt| {
                if let Ok(log) = open(disk, rt, options) {
                    known.check(log.meta(), &what);
                    disk.cut();
                }
            });
            disk.crash(Failure::Power, Some(survival), seed ^ cut << 8);
            recover(disk, options, &mut known, seed, &what);
        }
    }
}

/// After an error at every operation the log is poisoned or refuses; reopening shows the acknowledged value.
#[test]
fn an_error_at_every_operation() {
    for (kind, options) in disks() {
        for (old, fault) in [
            (true, Fault::Io),
            (false, Fault::Io),
            (true, Fault::NoSpace),
        ] {
            let whole = prepared(kind.clone(), &options, old);
            SimRuntime::run(1, |rt| {
                work(&whole, rt, &options, &mut Known::default()).expect("nothing fails");
            });
            let mut poisoned = 0_usize;
            for op in (0..whole.ops()).step_by(stride(1)) {
                let disk = prepared(kind.clone(), &options, old);
                disk.fail_at(op, fault);
                let what = format!("{kind:?}, old {old}, {fault:?} at {op}");
                let mut known = Known::default();
                let done = SimRuntime::run(1, |rt| work(&disk, rt, &options, &mut known));
                let is_poisoned = done
                    .as_ref()
                    .is_err_and(|e| e.kind() == ErrorKind::Poisoned);
                poisoned += usize::from(is_poisoned);
                let image = disk.snapshot();
                let log = disk.log();
                let mut lines = log.lines().rev();
                let barrier = lines.any(|l| l.contains("FAILS") && l.contains("barrier control "));
                if !kind.direct && barrier && !old {
                    cut_the_reopening(&disk, &options, &known, op, &what);
                }
                // A killed process, and a reopening without a crash.
                for survival in [None, Some(Survival::Lost)] {
                    disk.restore(&image);
                    disk.crash(Failure::Process, None, op);
                    if survival.is_some() {
                        disk.crash(Failure::Power, survival, op);
                    }
                    recover(&disk, &options, &mut known.clone(), op, &what);
                }
            }
            assert!(poisoned > 5 / stride(1), "{poisoned}");
        }
    }
}

/// A value, and the times at which the call that set it began and returned.
type Call = (Vec<u8>, u64, Option<u64>);

/// Threads set it at the same time. Each value found was current at some time since the last return.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let (kind, options) = disks().swap_remove(rng.below(3) as usize);
    let disk = prepared(kind, &options, rng.one_in(2));
    let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
    let (cut, fault) = (rng.below(160), rng.one_in(2));
    SimRuntime::run(seed, |rt| {
        rt.tolerate_panics();
        let log = open(&disk, rt, &options).expect("nothing fails yet");
        match fault {
            // A failed barrier for the control slots must not lose the metadata.
            true => disk.fail_at(disk.ops() + cut, Fault::Io),
            false => disk.cut_at(disk.ops() + cut),
        }
        let other = log.clone();
        let body = move || {
            while let Ok(c) = other.commit(&[5; 6_000]) {
                if c.start.0 > 300_000 || other.truncate_front(c.start).is_err() {
                    return;
                }
            }
        };
        let mut joiners = vec![rt.spawn("truncates", Box::new(body)).expect("starts")];
        for n in 0..2 + rng.below(3) {
            let (log, calls, rt2) = (log.clone(), calls.clone(), rt.clone());
            let body = move || {
                for i in 0..6 {
                    let value = format!("{n}.{i}").into_bytes();
                    let at = {
                        let mut calls = calls.lock().unwrap();
                        calls.push((value.clone(), rt2.steps(), None));
                        calls.len() - 1
                    };
                    if log.set_meta(&value).is_err() {
                        return;
                    }
                    calls.lock().unwrap()[at].2 = Some(rt2.steps());
                    let _ = log.append(&[7; 3_000]);
                }
            };
            let name = format!("setter-{n}");
            joiners.push(rt.spawn(&name, Box::new(body)).expect("starts"));
        }
        joiners
            .into_iter()
            .for_each(|j| j.join().expect("no panic"));
        let _ = log.close();
    });
    disk.crash(Failure::Power, None, seed);
    SimRuntime::run(seed, |rt| {
        let log = open(&disk, rt, &options).unwrap_or_else(|e| panic!("{seed}: {e}"));
        let found = log.meta();
        let calls = calls.lock().unwrap();
        match &found {
            None => assert!(calls.iter().all(|c| c.2.is_none()), "{seed}: lost"),
            Some(bytes) => {
                let (_, _, end) = calls.iter().find(|c| c.0 == *bytes).expect("one of them");
                let end = end.unwrap_or(u64::MAX);
                let later = calls.iter().find(|c| c.1 > end && c.2.is_some());
                assert!(later.is_none(), "{seed}: {bytes:?} and {later:?}");
            }
        }
    });
}

#[test]
fn several_threads_set_it() {
    seeds(100, 600).for_each(run);
}

/// Creates a closed log with metadata.
fn closed() -> (SimDisk, Options) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &small()).expect("a fresh log");
        log.commit(b"a record").expect("nothing fails");
        log.set_meta(b"first").expect("nothing fails");
        log.set_meta(b"term 7").expect("nothing fails");
        log.close().expect("nothing fails");
    });
    disk.crash(Failure::Process, None, 1);
    (disk, small())
}

#[test]
fn rot_of_one_slot_is_mended() {
    for slot in SLOTS {
        for how in 0..4 {
            let (disk, options) = closed();
            match how {
                0 => assert!(disk.flip_bit(PATH, "control", slot + 3, 1)),
                1 => assert!(disk.flip_bit(PATH, "control", slot + 4_095, 7)),
                2 => assert!(disk.make_unreadable(PATH, "control", slot)),
                _ => zero(&disk, &[slot]),
            }
            SimRuntime::run(1, |rt| {
                let inspector = Inspector::open(&*disk.system(rt), PATH).expect("healthy");
                let summary = inspector.summary();
                assert_eq!((summary.meta_len, summary.meta_whole), (Some(6), false));
                assert_eq!(inspector.walk(&mut |_| true).expect("walk").damages, 0);
                let log = open(&disk, rt, &options).expect("the other slot has it");
                assert_eq!(log.meta().as_deref(), Some(&b"term 7"[..]));
                disk.cut();
            });
            disk.crash(Failure::Power, Some(Survival::Lost), 1);
            // The other slot may be damaged next, because the opening has mended the first.
            let other = SLOTS[0] + SLOTS[1] - slot;
            assert!(disk.flip_bit(PATH, "control", other + 100, 1));
            SimRuntime::run(1, |rt| {
                let log = open(&disk, rt, &options).expect("it was mended");
                assert_eq!(log.meta().as_deref(), Some(&b"term 7"[..]));
                log.close().expect("nothing fails");
                let inspector = Inspector::open(&*disk.system(rt), PATH).expect("healthy");
                assert!(inspector.summary().meta_whole);
            });
        }
    }
}

fn zero(disk: &SimDisk, slots: &[u64]) {
    let mut bytes = disk.file_bytes(PATH, "control").expect("it is there");
    for slot in slots {
        bytes[*slot as usize..][..4096].fill(0);
    }
    disk.put_file(PATH, "control", &bytes);
}

/// An unreadable slot does not count as a loss if no metadata was ever written.
#[test]
fn an_error_where_nothing_was_set_is_no_loss() {
    for slot in SLOTS {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let options = small();
        SimRuntime::run(1, |rt| {
            let log = open(&disk, rt, &options).expect("nothing fails");
            log.commit(b"a record").expect("nothing fails");
            log.close().expect("nothing fails");
        });
        disk.crash(Failure::Process, None, 1);
        assert!(disk.make_unreadable(PATH, "control", slot));
        SimRuntime::run(1, |rt| {
            let read_only = ReadOnly::open(&*disk.system(rt), PATH).expect("it is whole");
            assert_eq!(read_only.meta().expect("never set"), None);
            let inspector = Inspector::open(&*disk.system(rt), PATH).expect("it is whole");
            assert_eq!(inspector.walk(&mut |_| true).expect("walk").damages, 0);
            let log = open(&disk, rt, &options).expect("nothing is lost");
            assert_eq!(log.meta(), None);
            log.set_meta(b"vote").expect("what is written is readable");
            log.close().expect("nothing fails");
            let log = open(&disk, rt, &options).expect("nothing fails");
            assert_eq!(log.meta().as_deref(), Some(&b"vote"[..]));
        });
    }
}

#[test]
fn rot_of_both_slots_is_damage() {
    for how in 0..5 {
        let (disk, options) = closed();
        match how {
            0 => SLOTS
                .iter()
                .for_each(|s| assert!(disk.flip_bit(PATH, "control", s + 40, 1))),
            1 => zero(&disk, &SLOTS),
            2 => {
                zero(&disk, &SLOTS[1..]);
                assert!(disk.flip_bit(PATH, "control", SLOTS[0] + 12, 1));
            }
            3 => {
                zero(&disk, &SLOTS[..1]);
                assert!(disk.make_unreadable(PATH, "control", SLOTS[1]));
            }
            _ => {
                let bytes = disk.file_bytes(PATH, "control").expect("it is there");
                disk.put_file(PATH, "control", &bytes[..OLD_LEN]);
            }
        }
        let what = format!("case {how}");
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let before = disk.file_bytes(PATH, "control");
            let refused = open(&disk, rt, &options).expect_err(&what);
            assert_eq!(refused.kind(), ErrorKind::Damaged, "{what}: {refused}");
            assert!(refused.to_string().contains("metadata"), "{refused}");
            assert_eq!(
                disk.file_bytes(PATH, "control"),
                before,
                "nothing was changed"
            );
            let read_only = ReadOnly::open(&*system, PATH).expect("the records are there");
            assert_eq!(
                read_only.read_from(read_only.front_lsn()).unwrap().count(),
                1
            );
            let refused = read_only.meta().expect_err(&what);
            assert_eq!(refused.kind(), ErrorKind::Damaged, "{what}: {refused}");
            let inspector = Inspector::open(&*system, PATH).expect("it can be inspected");
            let mut reported = Vec::new();
            let finding = inspector.walk(&mut |v| {
                if let Visit::Damage(d) = v {
                    reported.push(d.clone());
                }
                true
            });
            assert_eq!(finding.expect("walk").damages, 1, "{what}");
            assert!(reported[0].found.contains("metadata"), "{}", reported[0]);
            // The metadata was given up by a repair. Then there is none, and nothing more to repair.
            for n in 0..2 {
                let (log, report) = repaired(&disk, rt, &options);
                assert_eq!(log.meta(), None);
                assert_eq!(
                    (report.cut, report.lost_meta.is_some()),
                    (None, n == 0),
                    "{what}"
                );
                log.close().expect("nothing fails");
            }
            let log = open(&disk, rt, &options).expect(&what);
            log.set_meta(b"anew").expect("nothing fails");
            log.close().expect("nothing fails");
            let log = open(&disk, rt, &options).expect("whole again");
            assert_eq!(log.meta().as_deref(), Some(&b"anew"[..]));
            log.close().expect("nothing fails");
        });
    }
}

#[test]
fn limits_and_states() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system: Arc<dyn System> = disk.system(rt);
        let log = open(&disk, rt, &small()).expect("a fresh log");
        assert_eq!(log.meta(), None);
        let e = log.set_meta(&[0; MAX_META_LEN + 1]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
        assert!(e.to_string().contains("4000"), "{e}");
        assert_eq!(log.meta(), None);
        log.set_meta(b"").expect("no bytes are metadata too");
        assert_eq!(log.meta(), Some(Vec::new()));
        log.set_meta(&[9; MAX_META_LEN]).expect("the longest");
        rt.set_process(2);
        assert_eq!(log.set_meta(b"x").unwrap_err().kind(), ErrorKind::Forked);
        rt.set_process(1);
        let clone = log.clone();
        log.close().expect("nothing fails");
        assert_eq!(clone.set_meta(b"x").unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(clone.meta(), Some(vec![9; MAX_META_LEN]));
        let seen = ReadOnly::open(&*system, PATH).expect("healthy").meta();
        assert_eq!(seen.expect("healthy"), Some(vec![9; MAX_META_LEN]));
    });
}
