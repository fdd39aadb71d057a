//! Permits at the cap of a log's size: each has its space, whatever happens in between.

use crate::common::{block_on, opened};
use logforce_core::{Error, ErrorKind, Options, Permit, Policy};
use logforce_sim::seeds;
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};
use std::time::Duration;

fn random_options(rng: &mut Rng) -> Options {
    let segment = 4096 * rng.pick(&[8, 16, 32]);
    let max_batch = rng.pick(&[8 << 10, 16 << 10]);
    Options::new()
        .segment_size(segment)
        .first_segment_size(segment)
        .max_batch_size(max_batch)
        .buffer_size(1 << 20)
        .max_spare_segments(1)
        .idle_stamp(Duration::from_micros(rng.pick(&[100, 2_000, 1_000_000])))
        .max_log_size((3 * segment).max(2 * segment + 32 * 4096) + segment * rng.below(3))
        .live_stats(false)
}

/// Appends or forces for others, or waits for a stamp. Any error other than missing space fails the test.
fn disturb(log: &logforce_core::Log, rt: &SimRuntime, rng: &mut Rng) {
    let len = rng.pick(&[1, 100, 5_000]);
    let done = match rng.below(5) {
        0 => log.append(vec![1; len]).map(drop),
        1 => log.commit(vec![1; len]).map(drop),
        2 => log.force(log.tail_lsn()).map(drop),
        3 => log.truncate_back(log.durable_lsn()),
        _ => {
            rt.sleep(Duration::from_millis(3));
            Ok(())
        }
    };
    if let Err(e) = done {
        assert_eq!(e.kind(), ErrorKind::Full, "{e}");
    }
}

#[test]
fn a_permit_has_its_space_at_the_cap() {
    let (mut held, mut used) = (0, 0);
    for seed in seeds(150, 5_000) {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let log = opened(&disk, rt, random_options(&mut rng));
            let mut permits: Vec<(Permit, usize)> = Vec::new();
            loop {
                if rng.one_in(3) {
                    disturb(&log, rt, &mut rng);
                }
                let len = rng.pick(&[1, 40, 1_000, 4_000, 20_000]);
                match block_on(rt, log.reserve(len)) {
                    Ok(permit) => permits.push((permit, len)),
                    Err(e) => {
                        assert!(matches!(e, Error::Full { .. }), "{e}");
                        break;
                    }
                }
                if permits.iter().map(|(_, len)| len).sum::<usize>() > 900_000 {
                    break;
                }
            }
            held += permits.len();
            while !permits.is_empty() {
                let (permit, len) = permits.swap_remove(rng.below(permits.len() as u64) as usize);
                if rng.one_in(8) {
                    continue;
                }
                let within = Duration::from_micros(rng.pick(&[50, 1_000_000]));
                let policy = rng.pick(&[Policy::Force, Policy::Interval { within }]);
                let handle = permit.submit(vec![2; len], policy);
                let handle = handle.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                used += 1;
                if rng.one_in(2) {
                    block_on(rt, handle).expect("nothing fails");
                }
                if rng.one_in(3) {
                    disturb(&log, rt, &mut rng);
                }
            }
            // The last stamp and the next opening have space.
            log.close().expect("nothing fails");
            let log = opened(&disk, rt, random_options(&mut Rng::new(seed)));
            log.truncate_front(log.durable_lsn())
                .expect("it is free again");
            log.close().expect("nothing fails");
        });
    }
    assert!(held > 500 && used > 400, "{used} of {held}");
}
