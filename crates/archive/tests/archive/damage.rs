//! Objects that are damaged or missing, and their names.

use super::*;

/// The hint decides nothing: without it, epochs are counted from the first one.
#[test]
fn a_damaged_hint_is_a_missing_one() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attach = || archive.attach(&log, AttachOptions::new().synchronous());
    for n in 0..3 {
        let attached = attach().unwrap();
        log.commit_with(record(n), Policy::Replicated).unwrap();
        attached.close().unwrap();
    }
    let hint = home.path().join("bucket/hint");
    let bytes = std::fs::read(&hint).unwrap();
    for damaged in [&bytes[..bytes.len() - 1], &[0; 200], &[]] {
        std::fs::write(&hint, damaged).unwrap();
        let named = archive.verify(None, &mut |_| {}).unwrap().damage;
        assert!(named.len() == 1 && named[0].contains("hint"), "{named:?}");
        assert_eq!(archive.list().unwrap().epoch.0, 3);
        let to = tempfile::tempdir_in(home.path()).unwrap();
        let copy = restore(&archive, &to.path().join("copy"), RestoreTo::End).unwrap();
        assert_eq!(records(&copy), records(&log));
    }
    let attached = attach().unwrap();
    assert_eq!(attached.epoch().0, 4);
    attached.close().unwrap();
    assert_eq!(archive.verify(None, &mut |_| {}).unwrap().damage, [""; 0]);
}

/// Each gap and each damaged object is named, also behind the first one, and those beside the log.
#[test]
fn a_verification_goes_on_behind_the_first_damage() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    for n in 0..160 {
        log.commit(vec![n; 60_000]).unwrap();
    }
    let options = AttachOptions::new()
        .chunk_size(128 << 10)
        .segment_size(1 << 20);
    archive.attach(&log, options).unwrap().close().unwrap();
    archive.mark("before", None).unwrap();
    let bucket = home.path().join("bucket");
    let damage = || archive.verify(None, &mut |_| {}).unwrap().damage;
    assert_eq!(damage(), [""; 0]);
    assert_eq!(archive.verify(Some(1e-9), &mut |_| {}).unwrap().objects, 1);

    let mark = std::fs::read(bucket.join("m/before")).unwrap();
    std::fs::write(bucket.join("m/before"), &mark[..100]).unwrap();
    let named = damage();
    assert!(
        named.len() == 1 && named[0].contains("m/before"),
        "{named:?}"
    );
    std::fs::write(bucket.join("m/before"), &mark).unwrap();

    let segments = std::fs::read_dir(bucket.join("s")).unwrap();
    let mut segments: Vec<_> = segments.map(|e| e.unwrap().path()).collect();
    segments.sort();
    let mut gaps = Vec::new();
    for path in [&segments[1], &segments[4]] {
        std::fs::remove_file(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let (from, to) = name.split_once('-').unwrap();
        let lsn = |text: &str| text.parse::<u64>().unwrap();
        gaps.push(format!("gap from LSN {} to {}", lsn(from), lsn(to)));
    }
    let named = damage();
    assert_eq!(named.len(), 2, "{named:?}");
    for gap in &gaps {
        assert!(named.iter().any(|n| n.contains(gap)), "{gap}: {named:?}");
    }
    // Listed, and not there.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", &segments[1]).unwrap();
        let named = damage();
        assert!(
            named.len() == 2 && named[0].contains("is listed and cannot be read"),
            "{named:?}"
        );
        let failed = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap_err();
        assert!(failed.to_string().contains("gap"), "{failed}");
    }
}

/// The last object of an epoch that is not the newest is its seal.
#[test]
fn a_missing_seal_is_named() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    for epoch in 0..4 {
        log.commit(record(epoch)).unwrap();
        let attached = archive.attach(&log, AttachOptions::new()).unwrap();
        attached.close().unwrap();
    }
    let damage = || archive.verify(None, &mut |_| {}).unwrap().damage;
    assert_eq!(damage(), [""; 0]);
    let bucket = home.path().join("bucket");
    for has_hint in [true, false] {
        if !has_hint {
            std::fs::remove_file(bucket.join("hint")).unwrap();
            assert_eq!(damage(), [""; 0]);
        }
        for epoch in 0..3 {
            let places = std::fs::read_dir(bucket.join(format!("e/{epoch:020}"))).unwrap();
            let seal = places.map(|e| e.unwrap().path()).max().unwrap();
            let bytes = std::fs::read(&seal).unwrap();
            std::fs::remove_file(&seal).unwrap();
            let named = damage();
            let name = format!("e/{epoch:020}/");
            assert!(named.len() == 1 && named[0].contains(&name), "{named:?}");
            std::fs::write(&seal, bytes).unwrap();
        }
    }
}

/// The damaged chunk is read ahead, and its damage is found before the larger one below it is read.
#[test]
fn a_restore_ends_below_a_damaged_chunk() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attached = archive
        .attach(&log, AttachOptions::new().synchronous())
        .unwrap();
    let commit = |len: usize| log.commit_with(vec![7; len], Policy::Replicated).unwrap();
    commit(10);
    let whole = commit(100_000).end;
    let places = || {
        let places = std::fs::read_dir(home.path().join("bucket/e/00000000000000000001"));
        let mut places: Vec<_> = places.unwrap().map(|e| e.unwrap().path()).collect();
        places.sort();
        places
    };
    let below = places().len();
    commit(10);
    attached.close().unwrap();
    let damaged = &places()[below];
    let mut bytes = std::fs::read(damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(damaged, bytes).unwrap();
    for n in 0..20 {
        let to = home.path().join(format!("copy {n}"));
        let copy = restore(&archive, &to, RestoreTo::Lsn(whole)).unwrap();
        assert_eq!(records(&copy).len(), 2);
    }
    let named = restore(&archive, &home.path().join("end"), RestoreTo::End).unwrap_err();
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(
        matches!(&named, logforce_archive::Error::Object(_)) && named.to_string().contains(name),
        "{named}"
    );
}
