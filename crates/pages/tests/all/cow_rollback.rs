//! Tests of commits of a copy-on-write file that a full disk refuses or rolls back.

use crate::cow_basics::{contents, create, options, reopen};
use crate::cow_trouble::{stamp_of, try_write, write_all};
use logforce_core::{Guarantee, Policy};
use logforce_pages::{Error, ErrorKind, WriteThroughLimit};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime};
use std::time::Duration;

/// Makes a disk with `room` bytes of space.
fn full_disk(room: u64, in_place: bool) -> SimDisk {
    let options = SimOptions {
        capacity: Some(room),
        in_place,
        ..SimOptions::default()
    };
    SimDisk::new(options, 1)
}

/// Without space a commit is refused as a whole. Earlier commits stay, and the file continues once there is
/// space.
#[test]
fn a_full_disk_refuses_and_goes_on() {
    for through in [0, 9] {
        for room in (0..12).map(|n| (400 << 10) + n * 1024) {
            let disk = full_disk(room, true);
            SimRuntime::run(1, |rt| {
                let upto = WriteThroughLimit {
                    runs: through,
                    bytes: 1 << 30,
                };
                let file = create(&disk, rt, options().write_through(upto));
                let mut last = 0;
                let told = loop {
                    match try_write(&file, last, last + 1) {
                        Ok(_) => last += 1,
                        Err(e) => break e,
                    }
                };
                assert!(matches!(told, Error::NoSpace { .. }), "{told}");
                assert!(last > 20, "{last} pages");
                assert_eq!(file.latest().unwrap().commit(), last);
                assert_eq!(file.latest().unwrap().page_count(), last);
                for page in 0..last {
                    assert_eq!(stamp_of(&file, page), page + 1);
                }
                // Repeated attempts use no space.
                for _ in 0..20 {
                    assert_eq!(
                        try_write(&file, last, 1).unwrap_err().kind(),
                        ErrorKind::NoSpace
                    );
                }
                disk.change(|o| o.capacity = Some(2 << 20));
                let commit = try_write(&file, last, 77).unwrap();
                assert!(commit > last);
                assert_eq!(stamp_of(&file, last), 77);
                file.close().unwrap();
                let file = reopen(&disk, rt);
                assert_eq!(file.snapshot().unwrap().commit(), commit);
                assert_eq!(stamp_of(&file, last), 77);
            });
        }
    }
}

/// If overwriting takes space as well, there may be none for the header. The commit is refused like any
/// other, no crash brings it back, and the file continues and can be opened.
#[test]
fn a_full_disk_that_relocates_refuses_and_goes_on() {
    for (seed, room) in (0..40).map(|n| (n, (400 << 10) + n * 1024)) {
        let disk = SimDisk::new(
            SimOptions {
                capacity: Some(room),
                in_place: false,
                // A refused header may have been written completely.
                sector: if seed % 2 == 0 { 4096 } else { 512 },
                ..SimOptions::default()
            },
            seed,
        );
        let last = SimRuntime::run(seed, |rt| {
            let mut file = create(&disk, rt, options());
            let mut last = 0;
            let refused = loop {
                match try_write(&file, last, last + 1) {
                    Ok(_) => last += 1,
                    Err(e) => break e,
                }
            };
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
            if seed % 4 < 2 {
                disk.cut();
                return last;
            }
            // Without a free sector, opening writes no header, and reading works.
            disk.change(|o| o.capacity = Some(0));
            file.checkpoint().unwrap();
            for _ in 0..2 {
                let refused = try_write(&file, 0, 98).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
                assert_eq!(file.snapshot().unwrap().page_count(), last);
                for page in 0..last {
                    assert_eq!(stamp_of(&file, page), page + 1);
                }
                file.close().unwrap();
                file = reopen(&disk, rt);
            }
            disk.change(|o| o.capacity = Some(2 << 20));
            write_all(&file, last..last + 1, last + 1);
            let last = last + 1;
            // Refuses a commit once more, then crashes.
            disk.change(|o| o.capacity = Some(room));
            for page in (0..last).cycle().take(3) {
                if try_write(&file, page, page + 1).is_err() {
                    break;
                }
            }
            let mut last = last;
            for _ in 0..30 {
                match try_write(&file, last, last + 1) {
                    Ok(_) => last += 1,
                    Err(e) => assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}"),
                }
            }
            disk.cut();
            last
        });
        disk.crash(Failure::Power, None, seed);
        disk.change(|o| o.capacity = Some(2 << 20));
        SimRuntime::run(seed, |rt| {
            let file = reopen(&disk, rt);
            assert_eq!(file.snapshot().unwrap().page_count(), last, "room {room}");
            for page in 0..last {
                assert_eq!(stamp_of(&file, page), page + 1);
            }
            write_all(&file, 0..20, 99);
        });
    }
}

/// Commits on top of a rolled-back commit are refused for the same reason, and the committers of accepted
/// commits learn that these were rolled back.
#[test]
fn what_was_accepted_and_taken_back_is_told() {
    let disk = full_disk(400 << 10, true);
    SimRuntime::run(1, |rt| {
        let file = create(&disk, rt, options());
        write_all(&file, 0..10, 1);
        let within = Duration::from_secs(3600);
        let mut tx = file.begin().unwrap();
        for page in 0..100 {
            tx.write(page, &contents(page, 2, 4096)).unwrap();
        }
        let accepted = tx.commit_with(Policy::Interval { within }).unwrap();
        assert_eq!(accepted.guarantee, Guarantee::Nothing);
        let mut built = file.begin().unwrap();
        built.write(500, &contents(500, 3, 4096)).unwrap();
        let view = file.latest().unwrap();
        assert_eq!(view.commit(), accepted.commit);
        // The caller that forces gets the error, only once.
        assert_eq!(file.checkpoint().unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(file.latest().unwrap().commit(), 1);
        assert_eq!(built.commit().unwrap_err().kind(), ErrorKind::NoSpace);
        // A snapshot taken before still shows the commit.
        let mut buf = vec![0; 4096];
        view.read(99, &mut buf).unwrap();
        assert!(buf == contents(99, 2, 4096));
        let nothing = file.begin().unwrap().commit().unwrap();
        assert_eq!(nothing.commit, 1);
        // A new transaction builds on the earlier state and does not conflict with the rolled-back commit.
        assert!(write_all(&file, [5], 4) > accepted.commit);
        // A rollback in the background is reported once, by the next checkpoint.
        let mut tx = file.begin().unwrap();
        for page in 0..100 {
            tx.write(page, &contents(page, 2, 4096)).unwrap();
        }
        let within = Duration::from_millis(5);
        tx.commit_with(Policy::Interval { within }).unwrap();
        while file.latest().unwrap().page_count() > 10 {
            rt.sleep(Duration::from_millis(1));
        }
        assert_eq!(file.checkpoint().unwrap_err().kind(), ErrorKind::NoSpace);
        file.checkpoint().unwrap();
        assert_eq!(stamp_of(&file, 5), 4);
    });
}

/// A transaction that began before the rollback, on a state that still exists, commits once there is space.
#[test]
fn a_transaction_outlives_a_full_disk() {
    let disk = full_disk(400 << 10, true);
    SimRuntime::run(1, |rt| {
        let file = create(&disk, rt, options());
        write_all(&file, 0..10, 1);
        let mut tx = file.begin().unwrap();
        tx.write(5, &contents(5, 9, 4096)).unwrap();
        let mut large = file.begin().unwrap();
        for page in 0..100 {
            large.write(page, &contents(page, 2, 4096)).unwrap();
        }
        assert_eq!(large.commit().unwrap_err().kind(), ErrorKind::NoSpace);
        tx.commit().unwrap();
        assert_eq!((stamp_of(&file, 5), stamp_of(&file, 6)), (9, 1));
    });
}
