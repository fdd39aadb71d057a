//! Several logs in one environment: each keeps its acknowledged records, whatever the others do.

use logforce_core::{
    Environment, EnvironmentOptions, Error, ErrorKind, Log, Lsn, OpenMode, Options, Policy,
};
use logforce_device::Runtime;
use logforce_sim::model::small;
use logforce_testkit::{
    Call, FailingCalls, Failure, Fault, Refusal, Rng, SimDisk, SimOptions, SimRuntime,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LOGS: usize = 5;

fn path(n: usize) -> String {
    format!("/{n}")
}

fn environment(rt: &SimRuntime, rng: &mut Rng) -> Environment {
    let limits = EnvironmentOptions::new()
        .threads(2 + rng.below(3) as usize)
        .memory_size(rng.pick(&[0, 32 << 10, 1 << 20]))
        .open_logs(1 + rng.below(3) as usize);
    Environment::start(Arc::new(rt.clone()), &limits).expect("simulated threads start")
}

fn open(disk: &SimDisk, rt: &SimRuntime, n: usize, options: Options) -> Result<Log, Error> {
    Log::open(&*disk.system(rt), path(n), OpenMode::OpenOrCreate, options)
}

/// Acknowledged records of one log, in order, with their LSNs.
type Acknowledged = Vec<(Lsn, Vec<u8>)>;

/// Commits and truncates. Ends at the first error, which a power cut causes.
fn work(log: &Log, mut rng: Rng, kept: &Mutex<Acknowledged>) -> Result<(), Error> {
    for n in 0..25u64 {
        let data = vec![n as u8; 1 + rng.below(6_000) as usize];
        let policy = match rng.below(3) {
            0 => Policy::Interval {
                within: Duration::from_millis(1),
            },
            _ => Policy::Force,
        };
        let at = log.commit_with(&data[..], policy)?;
        if policy == Policy::Force {
            kept.lock().unwrap().push((at.start, data));
        }
        if rng.one_in(8) {
            log.truncate_front(log.durable_lsn())?;
            let front = log.front_lsn();
            kept.lock().unwrap().retain(|(start, _)| *start >= front);
        }
    }
    Ok(())
}

#[test]
fn each_keeps_what_it_acknowledged_through_a_power_cut() {
    let cuts = AtomicUsize::new(0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(SimOptions::default(), seed);
        let kept: Vec<Arc<Mutex<Acknowledged>>> = (0..LOGS).map(|_| Arc::default()).collect();
        for boot in 0..3 {
            disk.cut_at(200 + rng.below(1_200));
            SimRuntime::run(seed ^ boot, |rt| {
                let shared = environment(rt, &mut rng);
                let mut joiners = Vec::new();
                for (n, kept) in kept.iter().enumerate() {
                    let options = small().first_segment_size(16 << 10).environment(&shared);
                    let (disk, kept, rng) = (disk.clone(), kept.clone(), Rng::new(rng.bits()));
                    let of = rt.clone();
                    let body = move || {
                        let ended = open(&disk, &of, n, options).and_then(|log| {
                            work(&log, rng, &kept)?;
                            log.close()
                        });
                        assert!(ended.is_ok() || disk.is_cut(), "{seed}: {ended:?}");
                    };
                    joiners.push(rt.spawn(&format!("user-{n}"), Box::new(body)).unwrap());
                }
                drop(shared);
                for joiner in joiners {
                    // A power cut ends threads in the middle of their calls.
                    assert!(joiner.join().is_ok() || disk.is_cut(), "{seed}");
                }
            });
            cuts.fetch_add(usize::from(disk.is_cut()), SeqCst);
            disk.crash(Failure::Power, None, rng.bits());
            SimRuntime::run(seed ^ boot, |rt| {
                let shared = environment(rt, &mut rng);
                for (n, kept) in kept.iter().enumerate() {
                    let log = open(&disk, rt, n, small().environment(&shared));
                    let log = log.unwrap_or_else(|e| panic!("{seed}, log {n}: {e}"));
                    for (start, data) in kept.lock().unwrap().iter() {
                        let read = match log.read_at(*start) {
                            // A truncation was in progress at the power cut.
                            Err(e) if e.kind() == ErrorKind::Truncated => continue,
                            read => read,
                        };
                        let read = read.unwrap_or_else(|e| panic!("{seed}, log {n}: {e}"));
                        assert_eq!(&read.data, data, "{seed}, log {n}");
                    }
                    log.close().unwrap();
                }
            });
        }
    }
    let cuts = cuts.into_inner();
    assert!(cuts > 60, "only {cuts} of 120 boots were cut");
}

/// After a failure of one log the others go on.
#[test]
fn a_log_that_fails_fails_alone() {
    for seed in 0..20 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let shared = environment(rt, &mut Rng::new(seed));
            let logs: Vec<Log> = (0..LOGS)
                .map(|n| open(&disk, rt, n, small().environment(&shared)).expect("opened"))
                .collect();
            disk.fail_at(0, Fault::Io);
            let results: Vec<_> = logs.iter().map(|log| log.commit(b"x").is_err()).collect();
            // The fault takes effect once, in whichever call comes first.
            assert!(
                results.iter().filter(|failed| **failed).count() <= 1,
                "{results:?}"
            );
            for log in &logs {
                if let Err(e) = log.commit(b"y") {
                    assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}");
                }
            }
            let failed = logs.into_iter().map(|log| log.close());
            assert!(failed.filter(Result::is_err).count() <= 1);
            assert_eq!(shared.stats().logs, 0);
        });
    }
}

/// After a panic of the device anywhere in a close, the lock is released and no thread waits. This also holds
/// if the closing thread does the last step of the writer's task, the page of statistics.
#[test]
fn a_device_that_panics_in_a_close() {
    let mut panics = 0;
    // A close makes ten calls. In some schedules this thread makes the last two.
    for (n, schedule) in (0..12).flat_map(|n| (0..5).map(move |s| (n, s))) {
        let disk = SimDisk::new(SimOptions::default(), n);
        SimRuntime::run(schedule, |rt| {
            let environment = environment(rt, &mut Rng::new(n));
            let options = small().environment(&environment).live_stats(true);
            let log = open(&disk, rt, 0, options.clone()).expect("nothing fails yet");
            log.commit(b"a record").expect("nothing fails yet");
            disk.fail_at(disk.ops() + n, Fault::Panic);
            let closed = catch_unwind(AssertUnwindSafe(|| log.close()));
            panics += u32::from(closed.is_err());
            if matches!(closed, Ok(Ok(()))) {
                // The close did not reach that call.
                return;
            }
            let log = open(&disk, rt, 0, options).expect("the lock was released");
            assert_eq!(log.read_from(log.front_lsn()).unwrap().count(), 1);
            log.close().expect("nothing fails any more");
            drop(environment);
        });
    }
    assert!(panics > 5, "{panics}");
}

/// All logs are closed at once, from a thread of the program or from a callback of one of them. Failed forces
/// are reported by the log's directory.
#[test]
fn all_are_closed_at_once() {
    const MANY: usize = 40;
    let mut failures = 0;
    for seed in 0..30 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        let fails = seed % 3 == 1;
        let in_callback = seed % 3 == 2;
        SimRuntime::run(seed, |rt| {
            let shared = environment(rt, &mut Rng::new(seed));
            let logs: Vec<Log> = (0..MANY)
                .map(|n| open(&disk, rt, n, small().environment(&shared)).expect("opened"))
                .collect();
            for log in &logs {
                log.append(b"not forced yet").expect("accepted");
            }
            let other = open(&disk, rt, MANY, small()).expect("opened");
            if fails {
                disk.fail_at(disk.ops() + 60, Fault::Io);
            }
            let failed: Vec<(std::path::PathBuf, Error)> = match in_callback {
                false => shared.close_all(),
                true => {
                    let result = Arc::new(Mutex::new(None));
                    let (noted, inside) = (result.clone(), shared.clone());
                    let submitted = logs[7].submit_then(b"x", Policy::Force, move |done| {
                        done.expect("nothing fails");
                        *noted.lock().unwrap() = Some(inside.close_all());
                    });
                    submitted.expect("accepted");
                    while result.lock().unwrap().is_none() {
                        rt.sleep(Duration::from_millis(1));
                    }
                    let failed = result.lock().unwrap().take();
                    failed.expect("just seen")
                }
            };
            failures += failed.len();
            assert!(failed.len() <= usize::from(fails), "{failed:?}");
            for (n, log) in logs.iter().enumerate() {
                let error = failed
                    .iter()
                    .find(|(at, _)| at == std::path::Path::new(&path(n)));
                let answer = log.commit(b"y").expect_err("it is closed").kind();
                match error {
                    None => assert_eq!(answer, ErrorKind::Closed),
                    Some((_, e)) => assert_eq!((e.kind(), answer), (ErrorKind::Poisoned, answer)),
                }
            }
            assert_eq!(shared.close_all().len(), failed.len(), "the same again");
            other.commit(b"z").expect("it is not of the environment");
            drop(logs);
            for n in 0..MANY {
                let log = open(&disk, rt, n, small().environment(&shared)).expect("opened again");
                let is_failed = failed
                    .iter()
                    .any(|(at, _)| at == std::path::Path::new(&path(n)));
                assert!(log.recovered().clean || is_failed, "{n}");
                let records = log.read_from(log.front_lsn()).expect("it is there").count();
                assert!(records >= 1 || is_failed, "{n}");
            }
            assert_eq!(shared.close_all().len(), 0);
        });
    }
    assert!(failures > 2, "{failures}");
}

/// Metadata that is refused because the control file cannot be opened is not set, also after an opening.
#[test]
fn metadata_is_refused_as_a_whole() {
    let mut refused = 0;
    for after in 0..6 {
        let disk = SimDisk::new(SimOptions::default(), after);
        SimRuntime::run(after, |rt| {
            let shared = environment(rt, &mut Rng::new(after));
            let log = open(&disk, rt, 0, small().environment(&shared)).expect("nothing fails yet");
            log.commit(b"a record").expect("nothing fails yet");
            disk.fail_calls(FailingCalls {
                calls: vec![Call::Open],
                how: Refusal::NoRights,
                after,
                failing: u64::MAX,
            });
            let set = log.set_meta(b"a vote").map_err(|e| e.kind());
            disk.stop_failing_calls();
            let expected = match set {
                Ok(()) => Some(b"a vote".to_vec()),
                Err(kind) => {
                    assert_eq!(kind, ErrorKind::Io, "after {after}");
                    refused += 1;
                    None
                }
            };
            assert_eq!(log.meta(), expected, "after {after}");
            log.close().expect("nothing fails now");
            let log = open(&disk, rt, 0, small().environment(&shared)).expect("nothing fails now");
            assert_eq!(log.meta(), expected, "after {after}, opened again");
            log.close().expect("nothing fails now");
        });
    }
    assert!(refused > 0);
}
