//! Device calls of a commit, on a simulated disk: counts do not depend on the machine.

use logforce::Method;
use logforce::file::{File, Options};
use logforce::internal::open_file;
use logforce_device::System;
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

/// Opens a file with the method, runs `body`, and returns the numbers of its device writes and barriers.
fn calls(method: Method, aligned: bool, body: fn(&File)) -> (u64, u64) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let mut counts = (0, 0);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let system: &dyn System = &*system;
        let options = Options::new().create(true).method(method).aligned(aligned);
        drop(system.make_directory("/d".as_ref()).unwrap());
        let file = open_file(system, "/d/f", options).unwrap();
        let now = || (disk.counters().writes, disk.counters().barriers);
        let before = now();
        body(&file);
        counts = (now().0 - before.0, now().1 - before.1);
        let stats = file.stats().counters;
        assert_eq!((stats.writes, stats.syncs), counts);
    });
    counts
}

#[test]
fn one_commit_is_one_force() {
    let block = |file: &File| file.write_commit(&[1; 4096], 0).map(drop).unwrap();
    for method in [Method::Dsync, Method::DirectDsync] {
        assert_eq!(
            calls(method, true, block),
            (1, 0),
            "{method}: one write-through"
        );
    }
    for method in [Method::Fdatasync, Method::DirectFdatasync] {
        assert_eq!(
            calls(method, true, block),
            (1, 1),
            "{method}: a write and a barrier"
        );
    }
    let two_writes = |file: &File| {
        file.write_at(&[1; 512], 0).unwrap();
        file.write_at(&[2; 512], 512).unwrap();
        file.commit().unwrap();
        // Nothing new to make durable.
        file.commit().unwrap();
        assert_eq!(file.stats().counters.idle_commits, 1);
    };
    for method in [Method::Dsync, Method::Fdatasync] {
        assert_eq!(calls(method, false, two_writes), (2, 1), "{method}");
    }
    // A durable write covers its own bytes only: the earlier write needs its barrier still.
    let mixed = |file: &File| {
        file.write_at(&[1; 512], 0).unwrap();
        file.write_commit(&[2; 512], 512).unwrap();
        file.commit().unwrap();
    };
    assert_eq!(calls(Method::Dsync, false, mixed), (2, 1));
    let long = |file: &File| {
        file.write_commit(&vec![1; (2 << 20) + 1], 0)
            .map(drop)
            .unwrap()
    };
    assert_eq!(
        calls(Method::Dsync, false, long),
        (3, 1),
        "split, with one barrier"
    );
}
