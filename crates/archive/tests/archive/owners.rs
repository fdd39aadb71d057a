//! Owners: whose archive it is, and who may go on with it.

use super::*;
use logforce_archive::key::MAX_OWNER_LEN;

#[test]
fn a_takeover_deposes_the_owner() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attach = || AttachOptions::new().synchronous().owner("machine a");
    let attached = archive.attach(&log, attach()).unwrap();
    let acknowledged = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut acknowledged = Vec::new();
            for n in 0.. {
                match log.commit_with(record(n), Policy::Replicated) {
                    Ok(at) => acknowledged.push((at.start, record(n))),
                    Err(_) => break,
                }
            }
            acknowledged
        });
        std::thread::sleep(Duration::from_millis(300));
        let to = home.path().join("standby");
        let (epoch, report) = archive
            .takeover(&to, "machine b", Guarantee::ProcessCrash, &mut |_| {})
            .unwrap();
        assert_eq!(epoch.0, 2);
        assert!(report.end > Lsn(0));
        writer.join().unwrap()
    });
    let error = attached.close().unwrap_err();
    assert!(error.is_deposed(), "{error}");
    assert!(error.to_string().contains("machine b"), "{error}");
    let refused = log.commit(b"split brain").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Poisoned);
    let text = format!("{refused:?} {refused}");
    assert!(
        text.contains("'machine b', epoch 2") && !text.contains("another opening"),
        "{text}"
    );
    let standby = logforce::open_existing(home.path().join("standby"), options()).unwrap();
    let there = records(&standby);
    for acknowledged in &acknowledged {
        assert!(there.contains(acknowledged));
    }
    assert!(!acknowledged.is_empty());
    let attached = archive
        .attach(
            &standby,
            AttachOptions::new().synchronous().owner("machine b"),
        )
        .unwrap();
    standby.commit_with(b"goes on", Policy::Replicated).unwrap();
    // The old machine comes back.
    drop(log);
    let log = logforce::open_existing(home.path().join("log"), options()).unwrap();
    let error = archive.attach(&log, attach()).unwrap_err();
    assert!(error.is_deposed(), "{error}");
    attached.close().unwrap();
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    assert_eq!(records(&copy), records(&standby));
}

#[test]
fn an_owner_with_a_name_that_is_too_long_deposes_no_other() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attached = archive.attach(&log, AttachOptions::new()).unwrap();
    log.commit(record(1)).unwrap();
    log.close().unwrap();
    attached.close().unwrap();
    let claim = |name: &str| {
        let to = home.path().join(format!("copy-{}", name.len()));
        archive.takeover(&to, name, Guarantee::ProcessCrash, &mut |_| {})
    };
    let refused = claim(&"b".repeat(MAX_OWNER_LEN + 1))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("stores at most 1024"), "{refused}");
    assert_eq!(archive.list().unwrap().epoch.0, 1);
    claim(&"b".repeat(MAX_OWNER_LEN)).unwrap();
}

#[test]
fn another_log_and_an_older_copy_are_refused() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("log");
    let log = logforce::create_new(&path, options()).unwrap();
    let attached = archive.attach(&log, AttachOptions::new()).unwrap();
    log.commit(b"one").unwrap();
    attached.close().unwrap();
    let early = restore(&archive, &home.path().join("early"), RestoreTo::End).unwrap();
    let attached = archive.attach(&log, AttachOptions::new()).unwrap();
    log.commit(record(299)).unwrap();
    attached.close().unwrap();
    let other = logforce::create_new(home.path().join("other"), options()).unwrap();
    let error = archive.attach(&other, AttachOptions::new()).unwrap_err();
    assert!(error.to_string().contains("belongs to log"), "{error}");
    let error = archive.attach(&early, AttachOptions::new()).unwrap_err();
    // Its own first batch may reach as far as the archive.
    let text = error.to_string();
    let is_refused = text.contains("below the archive's end") || text.contains("another history");
    assert!(is_refused, "{text}");
    // The refusals have left the archive to its owner.
    let attached = archive.attach(&log, AttachOptions::new()).unwrap();
    log.commit(b"still mine").unwrap();
    attached.close().unwrap();
}

/// A copy of the log that went another way must not depose the owner.
#[test]
fn a_copy_that_went_another_way_leaves_the_owner_alone() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attached = archive
        .attach(&log, AttachOptions::new().synchronous())
        .unwrap();
    log.commit_with(b"one", Policy::Replicated).unwrap();
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    log.commit_with(record(7), Policy::Replicated).unwrap();
    // As long as the log, and other bytes.
    while copy.durable_lsn() < log.durable_lsn() {
        copy.commit(record(8)).unwrap();
    }
    let refused = archive.attach(&copy, AttachOptions::new()).unwrap_err();
    assert!(!refused.is_deposed(), "{refused}");
    log.commit_with(b"still the owner", Policy::Replicated)
        .unwrap();
    attached.close().unwrap();
}

/// Until a log that is being created has its first opening, nothing may be claimed for it. One archiver of
/// several meets that moment.
#[test]
fn an_archive_of_a_log_that_is_being_created() {
    let home = temp();
    for n in 0..6 {
        let archive = archive(&home.path().join(n.to_string()));
        let path = home.path().join(format!("log-{n}"));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let log = logforce::create_new(&path, options().calibrate(true)).unwrap();
                log.commit(b"the first").unwrap();
                log.close().unwrap();
            });
            let attached = loop {
                match archive.attach_directory(&path, AttachOptions::new()) {
                    Err(logforce_archive::Error::Log(_)) => std::thread::yield_now(),
                    attached => break attached,
                }
            };
            attached.unwrap().close().unwrap();
            writer.join().unwrap();
        });
        let attached = archive.attach_directory(&path, AttachOptions::new());
        attached.unwrap().close().unwrap();
    }
}

/// A log knows its last openings only, and its archive may have been made in an earlier one.
#[test]
fn an_archive_is_continued_after_many_openings() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("log");
    for opening in 0..136 {
        let log = logforce::open_or_create(&path, options()).unwrap();
        log.commit(record(opening)).unwrap();
        log.close().unwrap();
        if opening == 0 || opening == 135 {
            let attached = archive.attach_directory(&path, AttachOptions::new());
            attached.unwrap().close().unwrap();
        }
    }
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    assert_eq!(records(&copy).len(), 136);
}

#[test]
fn a_second_archiver_of_the_same_log_is_named() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("log");
    let log = logforce::create_new(&path, options()).unwrap();
    let first = AttachOptions::new().synchronous();
    let first = archive.attach(&log, first).unwrap();
    let second = archive.attach_directory(&path, AttachOptions::new().owner("twin"));
    let lost = log.commit_with(b"one", Policy::Replicated).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::ReplicaLost, "{lost}");
    assert!(
        lost.to_string()
            .contains("another archiver of this log, `twin`"),
        "{lost}"
    );
    // The log is the same, and goes on.
    log.commit(b"two").unwrap();
    assert!(!first.close().unwrap_err().is_deposed());
    second.unwrap().close().unwrap();
}

/// The archive was created when the log had nothing, and has nothing of what was truncated since.
#[test]
fn a_log_that_was_truncated_meanwhile_is_refused() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attach = || archive.attach(&log, AttachOptions::new());
    attach().unwrap().close().unwrap();
    assert_eq!(archive.list().unwrap().chunks, 1, "the seal alone");
    for _ in 0..20 {
        log.commit(vec![3; 50_000]).unwrap();
    }
    log.truncate_front(log.durable_lsn()).unwrap();
    let refused = attach().unwrap_err().to_string();
    assert!(refused.contains("begin an archive at another"), "{refused}");
}
