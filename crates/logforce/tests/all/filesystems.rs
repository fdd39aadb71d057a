//! Logs on private filesystems on loop devices: a workload, kills, remounts.

use crate::common::*;
use logforce::{BackupOptions, Guarantee, Method};

const EACH: [(&str, u64); 4] = [
    ("ext4", 96),
    ("ext4-nojournal", 96),
    ("xfs", 320),
    ("btrfs", 256),
];

#[test]
fn a_workload_on_each() {
    for (kind, mib) in EACH {
        let home = temp();
        let Some(fs) = loop_fs(kind, mib, &home) else {
            continue;
        };
        let facts = logforce::disk::facts(fs.path()).unwrap();
        for method in methods(fs.path()) {
            let dir = fs.path().join(method.name());
            let options = options().method(method);
            let log = logforce::create_new(&dir, options.clone()).unwrap();
            println!("{kind}: {method} guarantees {}", log.guarantee());
            let durable = !matches!(method, Method::Buffered | Method::Direct);
            assert_eq!(
                log.guarantee() == Guarantee::PowerLoss,
                durable,
                "{facts:?}"
            );
            if method == Method::Direct {
                // Direct I/O on this filesystem still goes into the cache of the loop device's file.
                assert_eq!(log.guarantee(), Guarantee::ProcessCrash, "{kind}");
            }
            let mut front = 0;
            for n in 0..150 {
                let at = log.commit(&record(n, 9000)).unwrap();
                if n % 40 == 39 {
                    log.truncate_front(at.start).unwrap();
                    front = n;
                }
            }
            assert_holds(&log, front, 150, 9000);
            let large = log.commit(&record(150, 1 << 20)).unwrap();
            log.truncate_back(large.start).unwrap();
            assert_holds(&log, front, 150, 9000);
            log.close().unwrap();
            let log = logforce::open_existing(&dir, options).unwrap();
            assert!(log.recovered().clean);
            assert_holds(&log, front, 150, 9000);
            log.commit(b"on").unwrap();
            log.close().unwrap();
            let found = logforce::inspect::open(&dir)
                .unwrap()
                .walk(&mut |_| true)
                .unwrap();
            assert_eq!(found.damages, 0, "{kind} {method}: {found:?}");
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}

#[test]
fn the_default_on_each_survives_loss_of_power_by_its_own_word() {
    for (kind, mib) in EACH {
        let home = temp();
        let Some(fs) = loop_fs(kind, mib, &home) else {
            continue;
        };
        let log = logforce::create_new(fs.path().join("log"), sized(SEGMENT)).unwrap();
        assert_eq!(log.guarantee(), Guarantee::PowerLoss);
        assert_eq!(log.recovered().method, Method::DirectDsync);
    }
}

/// The root of a filesystem contains `lost+found` on ext4, and has no parent entry to make durable.
#[test]
fn a_log_in_the_root_of_a_filesystem() {
    for (kind, mib) in EACH {
        let home = temp();
        let Some(fs) = loop_fs(kind, mib, &home) else {
            continue;
        };
        let log = logforce::open_or_create(fs.path(), sized(SEGMENT)).unwrap();
        log.commit(&record(0, 100)).unwrap();
        log.close().unwrap();
        let log = logforce::open_existing(fs.path(), sized(SEGMENT)).unwrap();
        assert_holds(&log, 0, 1, 100);
    }
}

#[test]
fn a_process_is_killed_on_each() {
    commit_until_killed();
    for (kind, mib) in EACH {
        let home = temp();
        let Some(fs) = loop_fs(kind, mib, &home) else {
            continue;
        };
        for method in [Method::DirectDsync, Method::Fdatasync] {
            println!("{kind}");
            let dir = fs.path().join(method.name());
            survives_kills("a_process_is_killed_on_each", &dir, method);
        }
    }
}

#[test]
fn unmounted_and_mounted_again_everything_is_there() {
    for (kind, mib) in EACH {
        let home = temp();
        let Some(mut fs) = loop_fs(kind, mib, &home) else {
            continue;
        };
        let dir = fs.path().join("log");
        let log = logforce::create_new(&dir, sized(SEGMENT)).unwrap();
        for n in 0..40 {
            log.commit(&record(n, 9000)).unwrap();
        }
        log.close().unwrap();
        fs.mount_again().unwrap();
        let log = logforce::open_existing(&dir, sized(SEGMENT)).unwrap();
        assert_holds(&log, 0, 40, 9000);
    }
}

/// Rescue systems and snapshots use such mounts.
#[test]
fn page_files_on_a_read_only_mount() {
    use logforce::pages::{CommitMode, Options};
    let home = temp();
    let Some(fs) = loop_fs("ext4", 96, &home) else {
        return;
    };
    let modes = [CommitMode::Logged, CommitMode::CopyOnWrite];
    let with = |mode| {
        let options = Options::new().mode(mode).log(options());
        options.require(Guarantee::ProcessCrash)
    };
    let dir = |mode| fs.path().join(format!("{mode:?}"));
    for mode in modes {
        let file = logforce::pages::create_new(dir(mode), with(mode)).unwrap();
        for n in 0..50 {
            let written = file.transact(|t| t.write(n, &record(n, 4096)));
            written.unwrap();
            if n == 20 {
                file.checkpoint().unwrap();
            }
        }
        // The later commits stay in the log.
        file.close().unwrap();
    }
    fs.remount("ro").unwrap();
    for mode in modes {
        let e = logforce::pages::open_existing(dir(mode), with(mode)).unwrap_err();
        assert!(e.to_string().contains("pages::read_only"), "{e}");
        let read = logforce::pages::read_only(dir(mode)).unwrap();
        assert_eq!((read.commit(), read.page_count()), (50, 50));
        let to = home.path().join(format!("{mode:?}"));
        read.backup(&to, BackupOptions::new().require(Guarantee::ProcessCrash))
            .unwrap();
        let copy = logforce::pages::open_existing(&to, with(mode)).unwrap();
        let copy = copy.snapshot().unwrap();
        for n in 0..50 {
            let expected = record(n, 4096);
            assert!(read.page(n).unwrap()[..] == expected[..], "{mode:?}: {n}");
            assert!(copy.page(n).unwrap()[..] == expected[..], "{mode:?}: {n}");
        }
    }
}
