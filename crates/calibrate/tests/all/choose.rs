//! Choice of a method: remembered, read or measured; which process measures, and which evidence is kept.

use crate::common::{Costs, EQUAL, micros, millis, names, slow};
use logforce_calibrate::{
    Calibration, Choice, Limits, Memory, Origin, Site, Skip, choose, measure_anew, observe, store,
};
use logforce_device::{Directory, Facts, Guarantee, Method, Runtime};
use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const HALF: Costs = Costs {
    barrier: Duration::from_micros(45),
    ..EQUAL
};

fn disk() -> SimDisk {
    let options = SimOptions {
        log_lines: 0,
        blocking: true,
        ..SimOptions::default()
    };
    SimDisk::new(options, 1)
}

/// State of one process.
struct Place {
    rt: SimRuntime,
    dir: Arc<dyn Directory>,
    stores: Vec<Arc<dyn Directory>>,
    facts: Facts,
    memory: Memory,
}

impl Place {
    fn new(disk: &SimDisk, rt: &SimRuntime, costs: Costs) -> Self {
        let dir = slow(disk, rt, costs);
        Place {
            rt: rt.clone(),
            stores: vec![dir.clone()],
            facts: dir.facts().unwrap(),
            dir,
            memory: Memory::new(),
        }
    }

    fn site(&self) -> Site<'_> {
        Site {
            dir: &self.dir,
            runtime: &self.rt,
            facts: &self.facts,
            write_unit: 4096,
            require: Guarantee::PowerLoss,
            stores: &self.stores,
            memory: &self.memory,
        }
    }

    fn choose(&self) -> Choice {
        choose(&self.site(), Limits::AT_OPENING)
    }

    fn stored(&self) -> Calibration {
        self.site().known().expect("stored")
    }
}

fn run<T>(disk: &SimDisk, costs: Costs, body: impl FnOnce(&mut Place) -> T) -> T {
    SimRuntime::run(1, |rt| body(&mut Place::new(disk, rt, costs)))
}

#[test]
fn measured_once_and_then_known() {
    let disk = disk();
    run(&disk, HALF, |p| {
        let first = p.choose();
        assert_eq!(first.origin, Origin::Measured);
        assert_eq!(first.decision.method, Method::DirectFdatasync);
        let before = disk.counters();
        let second = p.choose();
        assert_eq!(second.origin, Origin::Known);
        assert_eq!(second.decision, first.decision);
        assert_eq!(disk.counters().writes, before.writes, "nothing is written");
        assert_eq!(names(&p.dir), [store::NAME]);
    });
    // Another process; then a disk under another kernel.
    run(&disk, EQUAL, |p| {
        assert_eq!(p.choose().origin, Origin::Known);
        p.facts.kernel = "newer".to_owned();
        assert_eq!(p.choose().origin, Origin::Measured, "the kernel is another");
        assert_eq!(p.choose().decision.method, Method::DirectDsync);
        p.facts.kernel = "simulated".to_owned();
        let known = p.choose();
        assert_eq!(known.origin, Origin::Known, "both are kept");
        assert_eq!(known.decision.method, Method::DirectFdatasync);
    });
}

#[test]
fn a_store_that_lacks_it_gets_it() {
    let disk = disk();
    run(&disk, HALF, |p| {
        p.choose();
        let system = disk.system(&p.rt);
        let shared = system.make_directory(Path::new("/shared")).unwrap();
        p.stores = vec![shared.clone()];
        assert_eq!(p.choose().origin, Origin::Known, "from memory");
        assert_eq!(names(&shared), [store::NAME]);
    });
}

#[test]
fn a_winner_that_the_facts_no_longer_allow_is_dropped() {
    let disk = disk();
    run(&disk, HALF, |p| {
        assert_eq!(p.choose().decision.method, Method::DirectFdatasync);
        p.facts.direct = None;
        assert_eq!(p.site().known(), None);
        let now = p.choose();
        assert_eq!(now.origin, Origin::Measured);
        assert_eq!(now.decision.method, Method::Fdatasync);
    });
}

/// Regression test: a failed probe was taken for "no direct I/O". The resulting calibration compared fewer
/// methods, and stayed stored for good.
#[test]
fn what_was_measured_when_less_was_offered_is_no_answer() {
    run(&disk(), HALF, |p| {
        let direct = p.facts.direct.take();
        let less = p.choose();
        assert_eq!(less.origin, Origin::Measured);
        assert_eq!(less.decision.method, Method::Fdatasync);
        assert_eq!(p.choose().origin, Origin::Known);
        p.facts.direct = direct;
        let all = p.choose();
        assert_eq!(all.origin, Origin::Measured);
        assert_eq!(all.decision.method, Method::DirectFdatasync);
    });
}

#[test]
fn nothing_is_concluded_while_direct_io_is_unknown() {
    let disk = disk();
    run(&disk, HALF, |p| {
        p.facts.direct = None;
        p.facts.direct_unknown = Some("no memory".to_owned());
        let ops = disk.ops();
        let chosen = p.choose();
        let Origin::Skipped(Skip::DirectUnknown { .. }) = chosen.origin else {
            panic!("{chosen:?}");
        };
        assert!(chosen.decision.why.contains("no memory"), "{chosen:?}");
        assert_eq!(disk.ops(), ops, "nothing was done");
        assert_eq!(names(&p.dir), [""; 0]);
        assert_eq!(p.site().known(), None);
    });
}

#[test]
fn nearly_full_disks_are_left_alone() {
    let disk = SimDisk::new(
        SimOptions {
            capacity: Some(63 << 20),
            ..SimOptions::default()
        },
        1,
    );
    run(&disk, HALF, |p| {
        let ops = disk.ops();
        let chosen = p.choose();
        let Origin::Skipped(Skip::Full { .. }) = chosen.origin else {
            panic!("{chosen:?}");
        };
        assert_eq!(chosen.decision.method, Method::DirectDsync);
        assert!(!chosen.decision.decided && chosen.decision.why.contains("full"));
        assert_eq!(disk.ops(), ops, "nothing was done");
        assert_eq!(names(&p.dir), [""; 0]);
        let again = measure_anew(&p.site(), Limits::AT_OPENING);
        assert!(matches!(again.origin, Origin::Skipped(_)), "nor when asked");
    });
}

#[test]
fn real_use_that_is_worse_calls_for_another_trial() {
    let disk = disk();
    run(&disk, HALF, |p| {
        p.choose();
        observe(&p.site(), Method::DirectFdatasync, 400, micros(200));
        assert_eq!(p.choose().origin, Origin::Known, "too few");
        observe(&p.site(), Method::Dsync, 5000, micros(200));
        assert_eq!(p.choose().origin, Origin::Known, "another method");
        observe(&p.site(), Method::DirectFdatasync, 600, micros(200));
        assert_eq!(p.stored().live.unwrap().forces, 1000);
    });
    // The next process measures and chooses the same method. So the one after that needs more forces to do
    // so.
    run(&disk, HALF, |p| {
        assert_eq!(p.choose().origin, Origin::Measured);
        assert_eq!((p.stored().live, p.stored().confirmed), (None, 1));
        observe(&p.site(), Method::DirectFdatasync, 1000, micros(200));
        assert_eq!(p.choose().origin, Origin::Known);
        observe(&p.site(), Method::DirectFdatasync, 1000, micros(200));
    });
    run(&disk, EQUAL, |p| {
        let chosen = p.choose();
        assert_eq!(chosen.origin, Origin::Measured);
        assert_eq!(chosen.decision.method, Method::DirectDsync);
        assert_eq!(p.stored().confirmed, 0);
    });
}

#[test]
fn one_measures_and_the_others_wait() {
    let disk = disk();
    SimRuntime::run(5, |rt| {
        let place = Arc::new(Place::new(&disk, rt, HALF));
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let place = place.clone();
                let body = move || {
                    let chosen = place.choose();
                    assert_eq!(chosen.decision.method, Method::DirectFdatasync);
                };
                rt.spawn(&format!("opener-{n}"), Box::new(body)).unwrap()
            })
            .collect();
        for t in threads {
            t.join().unwrap();
        }
        // One trial creates one file; some of the processes write the evidence.
        assert!(disk.counters().creates <= 5, "{:?}", disk.counters());
        assert!(rt.now() < millis(650), "{:?}", rt.now());
    });
}

#[test]
fn rubbish_in_the_store_is_replaced() {
    for rubbish in [&b"rubbish"[..], b"{}", b"", &[0xff; 5000]] {
        let disk = disk();
        disk.put_file("/log", store::NAME, rubbish);
        run(&disk, HALF, |p| {
            assert_eq!(p.choose().origin, Origin::Measured);
        });
        run(&disk, HALF, |p| {
            assert_eq!(p.choose().origin, Origin::Known)
        });
    }
}

#[test]
fn a_store_that_cannot_be_written_does_no_harm() {
    let disk = disk();
    let ops = run(&disk, HALF, |p| {
        p.choose();
        disk.ops()
    });
    // The last operations are those of the store: create, write, barrier, rename.
    for back in 1..=5 {
        let disk = SimDisk::new(disk.options(), 1);
        run(&disk, HALF, |p| {
            disk.fail_at(ops - back, Fault::NoSpace);
            let chosen = p.choose();
            assert_eq!(chosen.decision.method, Method::DirectFdatasync);
            assert_eq!(p.choose().origin, Origin::Known);
            let left = names(&p.dir);
            assert!(left.iter().all(|n| n == store::NAME), "{left:?}");
        });
    }
}

#[test]
fn a_crash_while_it_is_stored_leaves_the_old_or_the_new() {
    let first = disk();
    run(&first, HALF, |p| {
        p.choose();
        p.dir.sync().unwrap();
    });
    let old = first.snapshot();
    let ops = run(&first, HALF, |p| {
        let before = first.ops();
        observe(&p.site(), Method::DirectFdatasync, 77, micros(50));
        first.ops() - before
    });
    assert!(ops >= 4);
    for op in 0..=ops {
        for seed in 0..8 {
            let disk = disk();
            disk.restore(&old);
            run(&disk, HALF, |p| {
                disk.cut_at(disk.ops() + op);
                observe(&p.site(), Method::DirectFdatasync, 77, micros(50));
            });
            disk.reboot(seed);
            run(&disk, HALF, |p| {
                let seen = p.stored().live.map(|l| l.forces);
                assert!(seen.is_none_or(|n| n == 77), "{op}: {seen:?}");
            });
        }
    }
}

#[test]
fn the_store_is_bounded() {
    let disk = disk();
    run(&disk, HALF, |p| {
        let mut calibration = p.choose().calibration.unwrap();
        for n in 0..40 {
            calibration.valid_for.kernel = format!("k{n}");
            store::write(&p.dir, &p.rt, &calibration).unwrap();
        }
        let mut key = calibration.valid_for.clone();
        assert!(store::read(&p.dir, &key).is_some());
        key.kernel = "k8".to_owned();
        assert!(store::read(&p.dir, &key).is_some());
        key.kernel = "k7".to_owned();
        assert!(store::read(&p.dir, &key).is_none());
    });
}

#[test]
fn a_clock_that_was_set_back_does_no_harm() {
    for future in [1 << 60, u64::MAX] {
        let disk = disk();
        run(&disk, HALF, |p| {
            let mut calibration = p.choose().calibration.unwrap();
            calibration.measured_at = future;
            store::write(&p.dir, &p.rt, &calibration).unwrap();
        });
        run(&disk, EQUAL, |p| {
            assert_eq!(p.choose().origin, Origin::Known);
            observe(&p.site(), Method::DirectFdatasync, 1000, micros(200));
            assert_eq!(p.choose().origin, Origin::Measured);
        });
        run(&disk, EQUAL, |p| {
            let known = p.choose();
            assert_eq!(known.origin, Origin::Known);
            assert_eq!(known.decision.method, Method::DirectDsync, "the newer one");
        });
    }
}

#[test]
fn what_failed_is_not_kept() {
    let disk = disk();
    run(&disk, HALF, |p| {
        disk.fail_at(disk.ops() + 30, Fault::Io);
        let chosen = p.choose();
        assert!(matches!(chosen.origin, Origin::Failed(_)), "{chosen:?}");
        assert_eq!(chosen.decision.method, Method::DirectDsync);
        assert_eq!(names(&p.dir), [""; 0]);
        assert_eq!(p.choose().origin, Origin::Measured, "it is tried again");
    });
}
