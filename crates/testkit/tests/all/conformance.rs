//! The simulated disk has the behaviours that every backend must have, whatever its options.

use logforce_testkit::{SimDisk, SimOptions, SimRuntime, conformance};
use std::path::Path;

#[test]
fn the_simulated_disk_conforms() {
    for seed in 0..100 {
        let disk = SimDisk::new(SimOptions::random(seed), seed);
        SimRuntime::run(seed, |rt| {
            conformance::check(&*disk.system(rt), Path::new("/log"))
        });
    }
}

#[test]
fn it_conforms_after_a_reboot_and_with_limited_room() {
    for seed in 0..20 {
        let options = SimOptions {
            capacity: Some(1 << 20),
            ..SimOptions::random(seed)
        };
        let disk = SimDisk::new(options, seed);
        SimRuntime::run(seed, |rt| {
            conformance::check(&*disk.system(rt), Path::new("/one"))
        });
        disk.reboot(seed);
        SimRuntime::run(seed, |rt| {
            conformance::check(&*disk.system(rt), Path::new("/two"))
        });
    }
}
