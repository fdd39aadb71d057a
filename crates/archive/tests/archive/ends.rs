//! Ends of restored logs: what a restore reads for one, and ends that the archive cannot give.

use super::{options, temp};
use logforce::{Guarantee, Lsn, Policy};
use logforce_archive::{Archive, ArchiveOptions, AttachOptions, Error, RestoreOptions, RestoreTo};
use std::path::{Path, PathBuf};

const COMMITS: usize = 150;
/// Commits that the log keeps.
const KEPT: usize = 12;

/// Archives a log whose commits are one chunk each. Returns the ends of its records.
fn fill(home: &Path, segment_size: u64) -> (Archive, Vec<Lsn>) {
    let bucket = home.join("bucket");
    std::fs::create_dir(&bucket).unwrap();
    let archive = Archive::open(bucket.to_str().unwrap(), ArchiveOptions::default()).unwrap();
    let log = logforce::create_new(home.join("log"), options()).unwrap();
    let attach = AttachOptions::new().synchronous();
    let attached = archive
        .attach(&log, attach.segment_size(segment_size))
        .unwrap();
    let mut ends: Vec<Lsn> = Vec::new();
    for n in 0..COMMITS {
        let at = log.commit_with(vec![n as u8; 60_000], Policy::Replicated);
        ends.push(at.unwrap().end);
        if let Some(kept) = n.checked_sub(KEPT) {
            log.truncate_front(ends[kept]).unwrap();
        }
    }
    log.close().unwrap();
    attached.close().unwrap();
    (archive, ends)
}

/// Restores. Returns the first position that was read, and the last byte of the last record.
fn restore(archive: &Archive, to: RestoreTo) -> logforce_archive::Result<(Lsn, u8)> {
    let home = temp();
    let path = home.path().join("copy");
    let mut from = None;
    let to = RestoreOptions::new()
        .require(Guarantee::ProcessCrash)
        .to(to);
    archive.restore(&path, &to, &mut |at| {
        from.get_or_insert(at.from);
    })?;
    let log = logforce::open_existing(&path, options()).unwrap();
    let last = log.last().unwrap().unwrap();
    Ok((from.unwrap(), last.data[0]))
}

/// Returns the files of a directory of the archive, in order.
fn objects(home: &Path, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![home.join("bucket").join(folder)];
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

fn refusal(result: logforce_archive::Result<(Lsn, u8)>) -> String {
    match result {
        Err(Error::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_restore_reads_only_what_its_end_needs() {
    let home = temp();
    let (archive, ends) = fill(home.path(), 1 << 20);
    let segments = objects(home.path(), "s");
    assert!(segments.len() >= 7, "{segments:?}");
    // The log from there on is in the last segments and in chunks.
    for path in &segments[..segments.len() - 4] {
        std::fs::remove_file(path).unwrap();
    }
    for n in [COMMITS - 20, COMMITS - 1] {
        let (from, last) = restore(&archive, RestoreTo::Lsn(ends[n])).unwrap();
        assert_eq!(last, n as u8);
        assert!(from > ends[n - 65], "from {from} to {}", ends[n]);
    }
    let (from, last) = restore(&archive, RestoreTo::Time(u64::MAX)).unwrap();
    assert!(from > ends[COMMITS - 65] && last == (COMMITS - 1) as u8);
    restore(&archive, RestoreTo::Lsn(ends[10])).unwrap_err();
}

#[test]
fn a_gap_leaves_the_ends_below_it() {
    let home = temp();
    let (archive, ends) = fill(home.path(), 128 << 20);
    archive.mark("below", Some(ends[60])).unwrap();
    let chunks = objects(home.path(), "e");
    let gap = ends.partition_point(|end| *end <= ends[100]);
    let hidden = home.path().join("hidden");
    std::fs::rename(&chunks[gap], &hidden).unwrap();
    let above = restore(&archive, RestoreTo::Lsn(ends[120])).unwrap_err();
    let said = above.to_string();
    assert!(said.contains("restore to an LSN below"), "{said}");
    let position = said.split("gap at ").nth(1).unwrap();
    let position: u64 = position.split(':').next().unwrap().parse().unwrap();
    assert!(position > ends[90].0, "{said}");
    for (to, last) in [
        (RestoreTo::Mark("below".to_owned()), 60),
        (RestoreTo::Lsn(ends[90]), 90),
        (RestoreTo::Lsn(ends[5]), 5),
    ] {
        assert_eq!(restore(&archive, to).unwrap().1, last);
    }
    restore(&archive, RestoreTo::Lsn(Lsn(position))).unwrap();
    restore(&archive, RestoreTo::Lsn(Lsn(position + 1))).unwrap_err();
    std::fs::rename(&hidden, &chunks[gap]).unwrap();

    // The first chunk of a later opening: the error has its position, whatever reads it.
    let log = logforce::open_existing(home.path().join("log"), options()).unwrap();
    let attach = AttachOptions::new().synchronous();
    let attached = archive
        .attach(&log, attach.segment_size(128 << 20))
        .unwrap();
    let first = attached.status().archived;
    for _ in 0..10 {
        log.commit_with(vec![0; 60_000], Policy::Replicated)
            .unwrap();
    }
    attached.close().unwrap();
    let second = objects(home.path(), "e");
    let second: Vec<_> = second
        .iter()
        .filter(|path| !chunks.contains(path))
        .collect();
    let in_epoch = |path: &&PathBuf| path.parent() != chunks[0].parent();
    let place = second.into_iter().find(in_epoch).unwrap();
    std::fs::remove_file(place).unwrap();
    let words = format!("gap at {}", first.0);
    for error in [
        restore(&archive, RestoreTo::End).unwrap_err(),
        archive.list().unwrap_err(),
    ] {
        assert!(error.to_string().contains(&words), "{words}: {error}");
    }
    assert!(archive.verify(None, &mut |_| {}).unwrap().damage[0].contains(&words));
    assert_eq!(restore(&archive, RestoreTo::Lsn(ends[149])).unwrap().1, 149);
}

/// They are mistakes of the user, and not damage.
#[test]
fn ends_that_the_archive_cannot_give() {
    let home = temp();
    let (archive, ends) = fill(home.path(), 1 << 20);
    let before = archive.list().unwrap();
    assert!(before.lowest_end < Some(ends[0]), "{before:?}");
    let end = before.end.unwrap();
    let beyond = refusal(restore(&archive, RestoreTo::Lsn(end.plus(1))));
    assert!(beyond.contains(&format!("ends at LSN {end}")), "{beyond}");
    let origin = refusal(restore(&archive, RestoreTo::Lsn(Lsn(0))));
    assert!(origin.contains("nothing below LSN 0"), "{origin}");

    let pruned = archive.prune(u64::MAX, false).unwrap().start;
    assert!(pruned > before.start);
    let after = archive.list().unwrap();
    let lowest = after.lowest_end.unwrap();
    assert!(lowest > pruned && lowest <= end, "{after:?}");
    restore(&archive, RestoreTo::Lsn(lowest)).unwrap();
    for lsn in [pruned.plus(1), Lsn(lowest.0 - 130_000)] {
        let why = refusal(restore(&archive, RestoreTo::Lsn(lsn)));
        assert!(why.contains("Choose a later end"), "{why}");
    }
}

#[test]
fn a_gap_below_a_time_is_named() {
    for (size, folder) in [(128 << 20, "e"), (1 << 20, "s")] {
        let home = temp();
        let (archive, _) = fill(home.path(), size);
        let objects = objects(home.path(), folder);
        std::fs::remove_file(&objects[objects.len() - 2]).unwrap();
        let refused = restore(&archive, RestoreTo::Time(u64::MAX)).unwrap_err();
        assert!(refused.to_string().contains("has a gap at"), "{refused}");
    }
}

/// A range that `truncate_back` voids stays void in a restored log, also if it is the last that the archive gets.
#[test]
fn a_last_truncation_of_the_back_is_archived() {
    for is_open in [true, false] {
        let home = temp();
        let bucket = home.path().join("bucket");
        std::fs::create_dir(&bucket).unwrap();
        let archive = Archive::open(bucket.to_str().unwrap(), ArchiveOptions::default()).unwrap();
        let path = home.path().join("log");
        let log = logforce::create_new(&path, options()).unwrap();
        let attach = || match is_open {
            true => archive.attach(&log, AttachOptions::new()).unwrap(),
            // As another process does.
            false => archive
                .attach_directory(&path, AttachOptions::new())
                .unwrap(),
        };
        log.commit(b"kept").unwrap();
        let voided = log.commit(b"voided").unwrap();
        let attached = attach();
        attached.close().unwrap();
        let attached = attach();
        log.truncate_back(voided.start).unwrap();
        attached.close().unwrap();
        log.close().unwrap();
        let copy = home.path().join("copy");
        let to = RestoreOptions::new().require(Guarantee::ProcessCrash);
        archive.restore(&copy, &to, &mut |_| {}).unwrap();
        let log = logforce::open_existing(&copy, options()).unwrap();
        assert_eq!(log.last().unwrap().unwrap().data, b"kept", "{is_open}");
    }
}
