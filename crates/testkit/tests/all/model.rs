//! Comparison of the simulated disk with a plain array.

use crate::common::{DIRECT, UNIT, read, write};
use logforce_device::{Barrier, OpenFile, ReadSource};
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};
use std::path::Path;

/// Runs random operations on a disk and on a plain array, then a crash. Each unit has its forced value or one
/// that was written since.
#[test]
fn nothing_forced_is_lost_and_nothing_is_made_up() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(
            SimOptions {
                physical_sector: 4096,
                ..SimOptions::random(seed)
            },
            seed,
        );
        disk.put_file("/d", "a", &[0; 8 * UNIT]);
        let direct = disk.options().direct;
        // Possible values of each unit, the forced or newest one first.
        let mut may: Vec<Vec<u8>> = vec![vec![0]; 8];
        let mut now = [0; 8];
        SimRuntime::run(seed, |rt| {
            let d = disk.system(rt).directory(Path::new("/d")).unwrap();
            let files = [
                d.open("a", OpenFile::WRITE).unwrap(),
                d.open("a", if direct { DIRECT } else { OpenFile::WRITE })
                    .unwrap(),
            ];
            for fill in 1..40 {
                let file = &files[rng.below(2) as usize];
                let at = rng.below(8) as usize;
                match rng.below(8) {
                    0 => {
                        file.barrier(Barrier::Data).unwrap();
                        (0..8).for_each(|i| may[i] = vec![now[i]]);
                    }
                    1 => {
                        let source = if direct {
                            ReadSource::Medium
                        } else {
                            ReadSource::Cache
                        };
                        assert_eq!(read(&**file, at, source).unwrap(), now[at]);
                    }
                    n => {
                        write(&**file, at, 1, fill, n == 2).unwrap();
                        now[at] = fill;
                        if n == 2 {
                            may[at].clear();
                        }
                        may[at].push(fill);
                    }
                }
                assert_eq!(read(&*files[0], at, ReadSource::Cache).unwrap(), now[at]);
            }
        });
        disk.reboot(seed);
        let bytes = disk.file_bytes("/d", "a").unwrap();
        for (byte, i) in bytes.iter().zip(0..) {
            let may = &may[i / UNIT];
            assert!(
                may.contains(byte),
                "seed {seed}: {byte} at {i}, not of {may:?}"
            );
        }
    }
}
