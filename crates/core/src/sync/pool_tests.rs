use super::*;
use logforce_device::sync::AtomicU32;
use logforce_testkit::SimRuntime;
use std::sync::atomic::Ordering::SeqCst;

/// While all threads that were started run long steps, another one is started for the timers.
#[test]
fn a_timer_does_not_wait_for_long_steps() {
    for seed in 0..20 {
        SimRuntime::run(seed, |rt| {
            let pool = Pool::start(Arc::new(rt.clone()), 3).expect("simulated threads start");
            let ticks = Arc::new(AtomicU32::new(0));
            let (clock, counted) = (rt.clone(), ticks.clone());
            let ticking = Box::new(move || {
                counted.fetch_add(1, SeqCst);
                Next::Wait(Some(clock.now() + Duration::from_millis(10)))
            });
            let ticking = pool.task(Kind::Writer, ticking);
            ticking.schedule();
            let seen = Arc::new(AtomicU32::new(0));
            let long: Vec<_> = [Kind::Preallocator, Kind::Writer]
                .into_iter()
                .map(|kind| {
                    let (clock, ticks, seen) = (rt.clone(), ticks.clone(), seen.clone());
                    let step = Box::new(move || {
                        clock.sleep(Duration::from_secs(1));
                        seen.fetch_max(ticks.load(SeqCst), SeqCst);
                        Next::Wait(None)
                    });
                    pool.task(kind, step)
                })
                .collect();
            for task in &long {
                rt.sleep(Duration::from_millis(1));
                task.schedule();
            }
            rt.sleep(Duration::from_secs(3));
            let seen = seen.load(SeqCst);
            assert!(seen > 90, "seed {seed}: {seen} ticks during the long steps");
            for task in long.iter().chain([&ticking]) {
                task.finish();
            }
            pool.stop();
            pool.join();
        });
    }
}
