//! The amount of written but unforced data stays small, even if no caller ever forces.

use crate::common::opened;
use logforce_core::Method;
use logforce_sim::model::{PATH, small};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::time::Duration;

/// Returns the number of segments with bytes that a loss of power would take.
fn unforced(disk: &SimDisk) -> usize {
    let names = disk.names(PATH);
    let segments = names.keys().filter(|n| n.ends_with(".seg"));
    segments
        .filter(|n| disk.visible_bytes(PATH, n) != disk.file_bytes(PATH, n))
        .count()
}

/// Largest number of segments that may lack a barrier.
const MOST: usize = 4;

#[test]
fn few_segments_are_written_and_not_forced() {
    for method in [Method::DirectDsync, Method::Fdatasync] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let options = small().idle_stamp(Duration::MAX).method(method);
            let log = opened(&disk, rt, options);
            let mut most = 0;
            for n in 0..60u8 {
                log.append(&[n; 7_000]).expect("nothing fails");
                rt.sleep(Duration::from_secs(1));
                most = most.max(unforced(&disk));
            }
            assert!((2..=MOST).contains(&most), "{method}: {most} segments");
            log.close().expect("nothing fails");
        });
    }
}
