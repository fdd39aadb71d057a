//! Second level of an archive: segments in place of chunks.

use super::{archive, options, records, restore, temp};
use logforce::{Lsn, Policy};
use logforce_archive::{AttachOptions, RestoreTo};
use std::time::Duration;

#[test]
fn an_archive_goes_on_over_restarts_and_small_chunks_become_segments() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("log");
    let mut n = 0;
    for round in 0..4 {
        let log = logforce::open_or_create(&path, options()).unwrap();
        let options = AttachOptions::new().synchronous().segment_size(1 << 20);
        let attached = archive.attach(&log, options).unwrap();
        assert_eq!(attached.epoch().0, round + 1);
        while n < (round + 1) as u32 * 70 {
            log.commit_with(vec![n as u8; 15_000], Policy::Replicated)
                .unwrap();
            n += 1;
        }
        log.clone().close().unwrap();
        attached.close().unwrap();
    }
    let log = logforce::open_existing(&path, options()).unwrap();
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    assert_eq!(records(&copy), records(&log));
    let count = |folder: &str| {
        let path = home.path().join("bucket").join(folder);
        let mut stack = vec![path];
        let mut files = 0;
        while let Some(path) = stack.pop() {
            for entry in std::fs::read_dir(&path).into_iter().flatten() {
                let entry = entry.unwrap();
                match entry.file_type().unwrap().is_dir() {
                    true => stack.push(entry.path()),
                    false => files += 1,
                }
            }
        }
        files
    };
    assert!(count("s") >= 3, "{} segments", count("s"));
    assert!(count("e") < 150, "{} chunks and seals", count("e"));
}

/// The segments are smaller than what waits for them.
#[test]
fn a_backlog_becomes_segments_of_their_size() {
    // Less than the store copies.
    const CHUNK: u64 = 64 << 10;
    const SEGMENT: u64 = 1 << 20;
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    for n in 0..160 {
        log.commit(vec![n; 60_000]).unwrap();
    }
    let options = AttachOptions::new().chunk_size(CHUNK).segment_size(SEGMENT);
    let attached = archive.attach(&log, options).unwrap();
    attached.close().unwrap();
    let mut segments = 0;
    for entry in std::fs::read_dir(home.path().join("bucket/s")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (from, to) = name.split_once('-').unwrap();
        let len = to.parse::<u64>().unwrap() - from.parse::<u64>().unwrap();
        assert!(len <= SEGMENT + 2 * CHUNK, "{name}");
        segments += 1;
    }
    assert!(segments >= 7, "{segments}");
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    assert_eq!(records(&copy), records(&log));
}

/// Chunks of an eighth of a segment or more are not put again: the store copies them.
#[test]
fn large_chunks_are_copied_and_a_restore_ends_between_them() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attach = || {
        let options = AttachOptions::new().chunk_size(256 << 10);
        archive.attach(&log, options.segment_size(1 << 20)).unwrap()
    };
    let mut middle = (Lsn(0), 0);
    for half in 0..2 {
        let mut at = Lsn(0);
        for n in 0..40 {
            at = log.commit(vec![n + half; 60_000]).unwrap().end;
        }
        attach().close().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        if half == 0 {
            middle = (at, now.unwrap().as_nanos() as u64);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let mut copies = 0;
    for entry in std::fs::read_dir(home.path().join("bucket/s")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        // The kind in the header is that of a chunk.
        copies += usize::from(bytes[12] == 2);
    }
    assert!(copies >= 14, "{copies}");
    let all = records(&log);
    let to = |name: &str| home.path().join(name);
    let whole = restore(&archive, &to("whole"), RestoreTo::End).unwrap();
    assert_eq!(records(&whole), all);
    for end in [RestoreTo::Lsn(middle.0), RestoreTo::Time(middle.1)] {
        let copy = to(&format!("{end:?}"));
        assert_eq!(records(&restore(&archive, &copy, end).unwrap()), all[..40]);
    }
    // A restore to a moment within the second half ends at a chunk.
    let one = restore(&archive, &to("one"), RestoreTo::Lsn(all[60].0)).unwrap();
    let count = records(&one).len();
    assert!((60..=66).contains(&count), "{count}");
    assert_eq!(records(&one), all[..count]);
    assert_eq!(archive.verify(None, &mut |_| {}).unwrap().damage, [""; 0]);
}
