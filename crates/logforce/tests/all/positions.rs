//! Invalid positions, sizes and options.

use crate::common::*;
use logforce::{Batch, Error, ErrorKind, Log, Lsn, Options, Tuning};
use logforce_testkit::process::Start;

fn log(dir: &tempfile::TempDir) -> Log {
    // Disables idle stamps, so that the end of the log stays at the last record.
    let no_stamps = options().tuning(Tuning::new().idle_stamp(std::time::Duration::MAX));
    logforce::create_new(dir.path(), no_stamps).unwrap()
}

#[test]
fn not_a_boundary() {
    let dir = temp();
    let log = log(&dir);
    log.commit(&record(0, 100)).unwrap();
    let at = log.commit(&record(1, 50_000)).unwrap();
    for lsn in [
        at.start.plus(8),
        at.start.plus(40_000),
        Lsn(at.end.0 - 8),
        at.start.plus(1),
    ] {
        let words = [&*lsn.to_string(), "not where a record begins or ends"];
        let answers = [
            log.read_at(lsn).map(drop),
            log.read_from(lsn).map(drop),
            log.truncate_back(lsn),
        ];
        for answer in answers {
            let e = assert_error(answer, ErrorKind::InvalidInput, &words);
            assert_eq!(e.lsn(), Some(lsn));
        }
    }
    // The end of a record is a boundary, but not a record.
    let end = log.read_at(at.end);
    assert!(end.is_err());
    assert!(read(&log, at.end).is_empty());
    assert_eq!(read_all(&log).len(), 2, "nothing was taken away");
}

#[test]
fn an_atomic_append_is_cut_as_a_whole() {
    let dir = temp();
    let log = log(&dir);
    let mut batch = Batch::of(&[b"a", b"b", b"c"]);
    log.commit(&mut batch).unwrap();
    let all = batch.ranges();
    // Each record can be read alone, and reading can begin at each.
    assert_eq!(log.read_at(all[1].start).unwrap().data, b"b");
    assert_eq!(read(&log, all[1].start), [b"b", b"c"]);
    for lsn in [all[1].start, all[2].start] {
        let words = [
            &*lsn.to_string(),
            "truncate_back to LSN",
            &*all[0].start.to_string(),
        ];
        assert_error(log.truncate_back(lsn), ErrorKind::InvalidInput, &words);
        log.truncate_front(lsn).unwrap();
        assert_eq!(log.front_lsn(), all[0].start, "rounded down");
        assert_eq!(log.pin(lsn).unwrap().lsn(), all[0].start);
        assert_eq!(read_all(&log).len(), 3);
    }
    log.truncate_front(all[2].end).unwrap();
    assert!(read_all(&log).is_empty());
}

#[test]
fn before_the_front() {
    let dir = temp();
    let log = log(&dir);
    let places: Vec<_> = (0..60)
        .map(|n| log.commit(&record(n, 20_000)).unwrap())
        .collect();
    log.truncate_front(places[40].start).unwrap();
    let check = |log: &Log| {
        // Positions in the segment that stays, and in removed ones.
        for n in [0, 20, 39] {
            let lsn = places[n].start;
            let words = [
                &*lsn.to_string(),
                "was truncated",
                &*places[40].start.to_string(),
            ];
            let answers = [
                log.read_at(lsn).map(drop),
                log.read_from(lsn).map(drop),
                log.truncate_back(lsn),
            ];
            log.truncate_front(lsn).unwrap(); // never back
            for answer in answers {
                let e = assert_error(answer, ErrorKind::Truncated, &words);
                assert_eq!(e.lsn(), Some(lsn));
            }
        }
        assert_eq!(log.front_lsn(), places[40].start);
        assert_holds(log, 40, 60, 20_000);
    };
    check(&log);
    log.close().unwrap();
    check(&logforce::open_existing(dir.path(), options()).unwrap());
}

#[test]
fn beyond_the_end() {
    let dir = temp();
    let log = log(&dir);
    let at = log.commit(&record(0, 100)).unwrap();
    let tail = log.tail_lsn();
    for lsn in [
        tail.plus(8),
        tail.plus(SEGMENT),
        tail.plus(1 << 40),
        Lsn(u64::MAX),
    ] {
        let words = [&*lsn.to_string(), "beyond the end at"];
        let answers = [
            log.read_at(lsn).map(drop),
            log.read_from(lsn).map(drop),
            log.force(lsn).map(drop),
            log.truncate_front(lsn),
            log.truncate_back(lsn),
        ];
        for answer in answers {
            let e = assert_error(answer, ErrorKind::BeyondEnd, &words);
            assert_eq!(e.lsn(), Some(lsn));
        }
    }
    // Readers do not see appended records that are not durable. A truncation forces them.
    let staged = log.append(&record(1, 100)).unwrap();
    assert_error(log.read_at(staged.start), ErrorKind::BeyondEnd, &[]);
    assert_eq!(log.read_from(at.start).unwrap().count(), 1);
    log.force(staged.end).unwrap();
    assert_eq!(log.read_from(at.start).unwrap().count(), 2);
    let last = log.append(&record(2, 100)).unwrap();
    log.truncate_front(last.start).unwrap();
    assert_eq!(log.front_lsn(), last.start);
    assert_eq!(
        log.read_from(last.start).unwrap().count(),
        1,
        "it is durable"
    );
}

/// A truncation is rounded down to the start or end of an append. Tested within a record, a group, a record
/// of many batches and segments, and a void range; also beyond the durable LSN and below the front.
#[test]
fn a_truncation_is_rounded_down() {
    let dir = temp();
    let log = log(&dir);
    let first = log.commit(&record(0, 100)).unwrap();
    let mut batch = Batch::of(&[b"a", b"b", b"c"]);
    log.commit(&mut batch).unwrap();
    let group = batch.ranges();
    let large = log.commit(&record(1, 3 << 20)).unwrap();
    let gone = log.commit(&record(2, 9_000)).unwrap();
    log.truncate_back(gone.start).unwrap();
    let last = log.commit(&record(3, 100)).unwrap();
    let staged = log.append(&record(4, 100)).unwrap();
    let cut = |lsn: Lsn| {
        log.truncate_front(lsn).unwrap();
        log.front_lsn()
    };
    assert_eq!(cut(first.start.plus(50)), first.start);
    assert_eq!(cut(group[1].start), group[0].start);
    assert_eq!(cut(Lsn(group[2].end.0 - 1)), group[0].start);
    assert_eq!(cut(large.start.plus(2 << 20)), large.start);
    assert_eq!(cut(Lsn(large.end.0 - 1)), large.start);
    assert_eq!(log.front_lsn(), large.start);
    assert_eq!(cut(first.start), large.start, "never back");
    let voided = log.truncate_front(gone.start.plus(4_000));
    assert_error(voided, ErrorKind::Voided, &[]);
    assert_eq!(cut(large.end), large.end, "the end of a record");
    assert_eq!(read_all(&log), [record(3, 100)]);
    assert_eq!(cut(Lsn(last.end.0 - 1)), last.start);
    assert!(log.durable_lsn() < staged.end);
    assert_eq!(cut(Lsn(staged.end.0 - 1)), staged.start, "forced before");
    assert!(log.durable_lsn() >= staged.end);
    assert_eq!(read_all(&log), [record(4, 100)]);
    log.close().unwrap();
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_eq!((log.front_lsn(), read_all(&log).len()), (staged.start, 1));
}

#[test]
fn voided() {
    let dir = temp();
    let log = log(&dir);
    let keep = log.commit(&record(0, 100)).unwrap();
    let gone: Vec<_> = (1..40)
        .map(|n| log.commit(&record(n, 20_000)).unwrap())
        .collect();
    log.truncate_back(gone[0].start).unwrap();
    let on = log.commit(&record(1, 100)).unwrap();
    assert!(
        on.start > gone[38].end,
        "those positions are not used again"
    );
    let check = |log: &Log| {
        for at in [&gone[1], &gone[20], &gone[38]] {
            let lsn = at.start;
            let words = [&*lsn.to_string(), "voided", &*gone[0].start.to_string()];
            let answers = [
                log.read_at(lsn).map(drop),
                log.read_from(lsn).map(drop),
                log.truncate_front(lsn),
                log.truncate_back(lsn),
            ];
            for answer in answers {
                let e = assert_error(answer, ErrorKind::Voided, &words);
                assert_eq!(e.lsn(), Some(lsn));
                assert!(matches!(e, Error::Voided { from, to, .. } if from <= lsn && lsn < to));
            }
        }
        assert_error(log.read_at(gone[0].start), ErrorKind::Voided, &[]);
        assert_holds(log, 0, 2, 100);
        assert_eq!(read(log, keep.end), [record(1, 100)]);
    };
    check(&log);
    log.close().unwrap();
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    check(&log);
    // Below the front the range counts as truncated instead of voided.
    log.truncate_front(on.start).unwrap();
    assert_error(log.read_at(gone[20].start), ErrorKind::Truncated, &[]);
}

#[test]
fn too_large() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options().segment_size(32 << 20)).unwrap();
    let before = log.tail_lsn();
    let max = vec![7; Log::MAX_RECORD_LEN + 1];
    let words = ["at most"];
    let e = assert_error(log.append(&max), ErrorKind::InvalidInput, &words);
    assert!(e.to_string().contains("64.0 MiB (6710888"), "{e}");
    assert_error(log.commit(&max), ErrorKind::InvalidInput, &words);
    assert_error(
        log.append(Batch::new().push_parts(&[&max[..1], &max[1..]])),
        ErrorKind::InvalidInput,
        &words,
    );
    // The limit applies to the sum of an atomic append.
    let half = &max[..Log::MAX_RECORD_LEN / 2];
    assert_error(
        log.append(Batch::of(&[half, half])),
        ErrorKind::InvalidInput,
        &words,
    );
    let many: Vec<&[u8]> = vec![&[]; Log::MAX_RECORD_LEN / 8 + 2];
    assert_error(
        log.append(Batch::of(&many)),
        ErrorKind::InvalidInput,
        &words,
    );
    assert_eq!(log.tail_lsn(), before, "nothing was accepted");
    let at = log.append(Batch::of(&[half, &half[100..]])).unwrap();
    log.force(at.end).unwrap();
    let at = log.commit(&max[1..]).unwrap();
    assert_eq!(
        log.read_at(at.start).unwrap().data.len(),
        Log::MAX_RECORD_LEN
    );
}

#[test]
fn nothing_is_an_append_too() {
    let dir = temp();
    let log = log(&dir);
    let tail = log.tail_lsn();
    let at = log.append(Batch::new()).unwrap();
    assert_eq!((at.start, at.end, log.tail_lsn()), (tail, tail, tail));
    // Committing an empty batch makes earlier appends durable.
    let before = log.append(b"before").unwrap();
    let done = log.commit(Batch::new()).unwrap();
    assert_eq!((done.end, done.guarantee), (before.end, log.guarantee()));
    assert!(log.durable_lsn() >= before.end);
    let at = log.commit(b"").unwrap();
    assert!(at.end > at.start);
    let at = log.append(Batch::new().push_parts(&[])).unwrap();
    log.force(at.end).unwrap();
    assert_eq!(read_all(&log), [&b"before"[..], b"", b""]);
    log.force(Lsn::ORIGIN).unwrap();
}

#[test]
fn options_out_of_range() {
    let home = temp();
    let dir = home.path().join("log");
    let large = Options::new().segment_size(64 << 20);
    let cases: Vec<(&str, Options)> = vec![
        ("segment_size", options().segment_size(0)),
        ("segment_size", options().segment_size(4096)),
        ("segment_size", options().segment_size((256 << 10) + 1)),
        ("segment_size", options().segment_size((4 << 30) + 4096)),
        ("segment_size", options().segment_size(u64::MAX)),
        (
            "write_unit_size",
            options().tuning(Tuning::new().write_unit_size(0)),
        ),
        (
            "write_unit_size",
            options().tuning(Tuning::new().write_unit_size(512)),
        ),
        (
            "write_unit_size",
            options().tuning(Tuning::new().write_unit_size(5000)),
        ),
        (
            "write_unit_size",
            options().tuning(Tuning::new().write_unit_size(128 << 10)),
        ),
        (
            "write_unit_size",
            options().tuning(Tuning::new().write_unit_size(u64::MAX)),
        ),
        ("max_batch_size", large.clone().max_batch_size(0)),
        ("max_batch_size", large.clone().max_batch_size(4096)),
        (
            "max_batch_size",
            large.clone().max_batch_size((1 << 20) + 1),
        ),
        ("max_batch_size", large.clone().max_batch_size(u64::MAX)),
        ("buffer_size", large.clone().buffer_size(0)),
        ("buffer_size", large.clone().buffer_size((1 << 20) - 1)),
    ];
    for (option, options) in cases {
        let words = [&format!("option {option}: ")[..], " is "];
        let e = assert_error(
            logforce::open_or_create(&dir, options.clone()),
            ErrorKind::InvalidInput,
            &words,
        );
        assert!(matches!(e, Error::Option { option: o, .. } if o == option));
        assert!(!dir.join("control").exists());
    }
    // The smallest sizes and unusual sizes work.
    let smallest = Options::new()
        .require(logforce::Guarantee::ProcessCrash)
        .segment_size(16 << 10)
        .max_batch_size(8 << 10)
        .buffer_size(8 << 10);
    let log = logforce::create_new(&dir, smallest.clone()).unwrap();
    for n in 0..40 {
        log.commit(&record(n, 3000)).unwrap();
    }
    log.commit(&record(40, 100_000)).unwrap();
    log.close().unwrap();
    // With other sizes at the next opening, existing segments keep their sizes.
    for (segment_size, unit) in [(SEGMENT, 65_536), (64 << 10, 8192), (48 << 10, 4096)] {
        let options = smallest
            .clone()
            .segment_size(segment_size)
            .tuning(Tuning::new().write_unit_size(unit))
            .max_batch_size(2 * unit)
            .buffer_size(1 << 20);
        let log = logforce::open_existing(&dir, options).unwrap();
        assert_eq!(read_all(&log).len() % 41, 0);
        for n in 0..41 {
            log.commit(&record(n, 3000)).unwrap();
        }
        log.close().unwrap();
    }
    let log = logforce::open_existing(&dir, smallest).unwrap();
    assert_eq!(read_all(&log).len(), 4 * 41);
}

#[test]
fn prepared_segments_of_other_sizes_are_used_up_first() {
    const DIR: &str = "LOGFORCE_TEST_DIR";
    let small = Options::new()
        .require(logforce::Guarantee::ProcessCrash)
        .segment_size(16 << 10)
        .max_batch_size(8 << 10)
        .buffer_size(4 << 20);
    if let Some(dir) = in_second_process(DIR) {
        let log = logforce::create_new(dir, small).unwrap();
        // The log prepares space for the whole append before it accepts it. Little of that space is used.
        log.append(&record(0, 2 << 20)).unwrap();
        std::process::abort();
    }
    let large = options().segment_size(1 << 20);
    for _ in 0..20 {
        let home = temp();
        // One write spans all of these segments.
        unlimited_descriptors();
        let dir = home.path().join("log");
        let name = "prepared_segments_of_other_sizes_are_used_up_first";
        again(name, DIR, &dir).to_end().unwrap();
        let prepared = logforce::inspect::open(&dir)
            .unwrap()
            .summary()
            .prepared_end;
        let log = logforce::open_existing(&dir, large.clone()).unwrap();
        let room = prepared.0.saturating_sub(log.tail_lsn().0);
        if room < 700 << 10 {
            println!("only {room} bytes were left: trying again");
            continue;
        }
        // The record does not fit into the prepared segments, but into segments of the new size.
        let at = log.commit(&record(1, room as usize - (110 << 10))).unwrap();
        assert!(at.end > prepared);
        log.close().unwrap();
        let log = logforce::open_existing(&dir, large).unwrap();
        let all = read_all(&log);
        assert!(all.last() == Some(&record(1, room as usize - (110 << 10))));
        return;
    }
    logforce_testkit::skip!("each attempt wrote the whole append before its process ended");
}

/// Reading forwards, forwards without copies, and backwards returns the same records from every position. The
/// log has records of many batches, groups, void ranges, a moved front, and a concurrent writer.
#[test]
fn all_ways_to_read_agree() {
    let dir = temp();
    let log = log(&dir);
    let lens = [10, 0, 5_000, 300_000, 100, 9, 70_000, 1 << 20, 3];
    let mut starts = Vec::new();
    for round in 0..3u64 {
        for (n, len) in lens.into_iter().enumerate() {
            let data = record(100 * round + n as u64, len);
            if n % 4 == 2 {
                let mut batch = Batch::of(&[&data, b"joined", &data]);
                log.commit(&mut batch).unwrap();
                starts.extend(batch.ranges().iter().map(|r| r.start));
            } else {
                starts.push(log.commit(&data).unwrap().start);
            }
        }
        let gone = log.commit(&record(900 + round, 200_000)).unwrap();
        log.commit(b"gone as well").unwrap();
        log.truncate_back(gone.start).unwrap();
    }
    log.truncate_front(starts[6]).unwrap();
    log.append(b"not durable").unwrap();
    let check = |log: &Log, from: usize| {
        let forwards: Vec<_> = log
            .read_from(starts[from])
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(forwards.len(), starts.len() - from);
        let mut reader = log.read_from(starts[from]).unwrap();
        for record in &forwards {
            let lent = reader.next_ref().unwrap().unwrap();
            assert_eq!((lent.start, lent.end), (record.start, record.end));
            assert!(lent.data == record.data);
        }
        assert!(reader.next_ref().is_none());
        forwards
    };
    let all = check(&log, 6);
    for from in 7..starts.len() {
        assert!(check(&log, from) == all[from - 6..]);
    }
    // Reads backwards from the end, and from each start and end.
    let back = |from: Lsn| -> Vec<_> {
        let mut found: Vec<_> = log
            .read_back_from(from)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        found.reverse();
        found
    };
    assert!(back(log.durable_lsn()) == all);
    for (n, record) in all.iter().enumerate() {
        assert!(back(record.start) == all[..n], "{n}");
        assert!(back(record.end) == all[..=n], "{n}");
    }
    assert_eq!(log.last().unwrap().as_ref(), all.last());
    for lsn in [starts[8].plus(8), starts[3], log.tail_lsn().plus(8)] {
        assert!(log.read_back_from(lsn).is_err(), "{lsn}");
    }
    log.close().unwrap();
    let closed = logforce::read_only(dir.path()).unwrap();
    assert_eq!(closed.last().unwrap().unwrap().data, b"not durable");
    let found: Vec<_> = closed
        .read_back_from(closed.durable_lsn())
        .unwrap()
        .collect();
    assert_eq!(found.len(), all.len() + 1);
    // An empty log.
    let empty = temp();
    let log = logforce::create_new(empty.path().join("log"), options()).unwrap();
    assert_eq!(log.last().unwrap(), None);
    let at = log.commit(b"x").unwrap();
    log.truncate_back(at.start).unwrap();
    assert_eq!(log.last().unwrap(), None);
}
