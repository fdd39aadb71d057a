//! Normal operation of a log, on the disk of the machine that runs the tests.

use crate::common::*;
use logforce::{Batch, ErrorKind, Guarantee, Log, Lsn, Options, Reader, Tuning};

#[test]
fn the_types_can_be_shared_and_reported() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    fn sent<T: Send>() {}
    shared::<Log>();
    shared::<Options>();
    shared::<logforce::Error>();
    shared::<logforce::Record>();
    shared::<logforce::inspect::RecoveryReport>();
    error::<logforce::Error>();
    sent::<Reader>();
    sent::<logforce::inspect::Inspector>();
}

#[test]
fn every_method_does_everything() {
    let home = temp();
    for method in methods(home.path()) {
        println!("{method}");
        let dir = home.path().join(method.name());
        let options = options().method(method);
        let log = logforce::create_new(&dir, options.clone()).unwrap();
        assert_eq!(log.recovered().method, method);
        assert!(log.recovered().created);
        assert_eq!(log.durable_lsn(), log.tail_lsn());

        let first = log.commit(&record(0, 100)).unwrap();
        assert_eq!(first.guarantee, log.guarantee());
        assert!(log.durable_lsn() >= first.end);
        let parts = log
            .append(Batch::new().push_parts(&[&record(1, 3000)[..7], &[], &record(1, 3000)[7..]]))
            .unwrap();
        assert!(parts.start >= first.end);
        let records = [record(2, 8), record(3, 70_000), record(4, 9)];
        let mut batch: Batch = records.iter().collect();
        let range = log.append(&mut batch).unwrap();
        let all = batch.ranges();
        assert_eq!(all.len(), 3);
        assert_eq!((range.start, range.end), (all[0].start, all[2].end));
        assert!(all.windows(2).all(|w| w[0].end <= w[1].start));
        let end = all[2].end;
        assert_eq!(log.force(end).unwrap(), log.guarantee());
        assert!(log.durable_lsn() >= end);
        assert_eq!(log.read_at(all[1].start).unwrap().data, record(3, 70_000));
        assert_eq!(log.read_at(parts.start).unwrap().end, parts.end);
        assert_eq!(
            read_all(&log),
            [
                record(0, 100),
                record(1, 3000),
                record(2, 8),
                record(3, 70_000),
                record(4, 9)
            ]
        );
        assert_eq!(read(&log, all[0].start)[0], record(2, 8));

        log.truncate_front(parts.start).unwrap();
        assert_eq!(log.front_lsn(), parts.start);
        log.truncate_back(all[0].start).unwrap();
        assert_eq!(read_all(&log), [record(1, 3000)]);
        let later = log.commit(&record(5, 50)).unwrap();
        assert!(later.start >= end, "positions are not used again");
        let id = log.id();
        log.close().unwrap();

        let log = logforce::open_existing(&dir, options).unwrap();
        assert_eq!(log.id(), id);
        let found = log.recovered();
        assert!(!found.created && found.clean, "{found:?}");
        assert!(found.end >= later.end);
        assert_eq!(log.front_lsn(), parts.start);
        assert_eq!(read_all(&log), [record(1, 3000), record(5, 50)]);
        assert_eq!(log.read_at(later.start).unwrap().data, record(5, 50));
        log.close().unwrap();
    }
}

#[test]
fn a_log_goes_on_under_any_other_method() {
    let dir = temp();
    let mut n = 0;
    for method in methods(dir.path()).into_iter().rev() {
        let log = logforce::open_or_create(dir.path(), options().method(method)).unwrap();
        assert_holds(&log, 0, n, 5000);
        for _ in 0..60 {
            log.commit(&record(n, 5000)).unwrap();
            n += 1;
        }
    }
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 0, n, 5000);
}

#[test]
fn records_of_every_size() {
    let dir = temp();
    let options = options()
        .segment_size(8 << 20)
        .max_batch_size(1 << 20)
        .buffer_size(8 << 20);
    let sizes = [
        0,
        1,
        7,
        8,
        9,
        4000,
        4096,
        65_535,
        65_536,
        (1 << 20) - 100,
        1 << 20,
        (8 << 20) + 1,
        Log::MAX_RECORD_LEN,
    ];
    let data = |len: usize| -> Vec<u8> { (0..len).map(|i| (i * 7 + len) as u8).collect() };
    let log = logforce::create_new(dir.path(), options.clone()).unwrap();
    let mut at = Vec::new();
    for len in sizes {
        at.push(log.commit(&data(len)).unwrap());
    }
    let check = |log: &Log| {
        for (len, at) in sizes.into_iter().zip(&at) {
            let record = log.read_at(at.start).unwrap();
            assert_eq!(record.end, at.end);
            assert!(record.data == data(len), "{len} bytes");
        }
        let lens: Vec<usize> = log
            .read_from(log.front_lsn())
            .unwrap()
            .map(|e| e.unwrap().data.len())
            .collect();
        assert_eq!(lens, sizes);
    };
    check(&log);
    log.close().unwrap();
    check(&logforce::open_existing(dir.path(), options).unwrap());
}

#[test]
fn a_record_over_many_segments_is_truncated_and_voided_whole() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    let small = log.commit(&record(0, 10)).unwrap();
    let large = log.commit(&record(1, 3 << 20)).unwrap();
    let next = log.commit(&record(2, 10)).unwrap();
    assert!(segments(dir.path()).len() >= 12);
    // The start of a segment within the record is not a boundary.
    for segment in segments(dir.path()).iter().skip(2).take(8) {
        let name = segment.file_stem().unwrap().to_str().unwrap();
        let lsn = Lsn(u64::from_str_radix(name, 16).unwrap());
        assert!(lsn > large.start && lsn < large.end);
        let e = log.truncate_back(lsn).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
        assert!(log.read_at(lsn).is_err());
    }
    log.truncate_back(large.start).unwrap();
    assert_eq!(read_all(&log), [record(0, 10)]);
    assert_eq!(
        log.read_at(next.start).unwrap_err().kind(),
        ErrorKind::Voided
    );
    let again = log.commit(&record(3, 1 << 20)).unwrap();
    assert_eq!(read(&log, small.end), [record(3, 1 << 20)]);
    log.truncate_front(again.end).unwrap();
    assert!(
        segments(dir.path()).len() <= 3,
        "{:?}",
        segments(dir.path())
    );
    assert!(read_all(&log).is_empty());
    log.close().unwrap();
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert!(read_all(&log).is_empty());
    log.commit(b"on").unwrap();
    assert_eq!(read_all(&log), [b"on"]);
}

#[test]
fn truncated_segments_are_used_again() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    for n in 0..300 {
        let at = log.commit(&record(n, 20_000)).unwrap();
        if n % 5 == 4 {
            log.truncate_front(at.start).unwrap();
            assert_holds(&log, n, n + 1, 20_000);
        }
    }
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    // After 6 MB of records these files remain at most: the current segment and its predecessor, the prepared
    // segments, two spares, the control file and the lock.
    assert!(files <= 8, "{files} files");
    drop(log);
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 299, 300, 20_000);
}

#[test]
fn no_spares_are_kept_when_none_are_wanted() {
    let dir = temp();
    let log = logforce::create_new(
        dir.path(),
        options().tuning(Tuning::new().max_spare_segments(0)),
    )
    .unwrap();
    for n in 0..60 {
        let at = log.commit(&record(n, 20_000)).unwrap();
        log.truncate_front(at.end).unwrap();
    }
    assert_eq!(
        with_suffix(dir.path(), ".spare"),
        [] as [std::path::PathBuf; 0]
    );
    log.close().unwrap();
}

#[test]
fn dropping_the_last_clone_closes() {
    let dir = temp();
    for round in 0..5 {
        let log = logforce::open_or_create(dir.path(), options()).unwrap();
        assert!(round == 0 || log.recovered().clean, "{:?}", log.recovered());
        assert_holds(&log, 0, round, 100);
        // Does not force: dropping the last clone does.
        let other = log.clone();
        log.append(&record(round, 100)).unwrap();
        drop(log);
        assert_eq!(other.tail_lsn(), other.tail_lsn());
        let second = logforce::open_existing(dir.path(), options());
        assert_error(second, ErrorKind::Locked, &["only one writer"]);
    }
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 0, 5, 100);
}

#[test]
fn after_close_other_clones_answer_closed_and_change_nothing() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    let a = log.commit(&record(0, 100)).unwrap();
    let b = log.commit(&record(1, 100)).unwrap();
    let other = log.clone();
    log.close().unwrap();
    // Another opening owns the log now, so the old one must not write.
    let next = logforce::open_existing(dir.path(), options()).unwrap();
    assert_error(other.append(b"x"), ErrorKind::Closed, &["closed"]);
    assert_error(other.commit(b"x"), ErrorKind::Closed, &[]);
    assert_error(
        other.append(Batch::of(&[b"x", b"y"])),
        ErrorKind::Closed,
        &[],
    );
    assert_error(other.truncate_front(b.start), ErrorKind::Closed, &[]);
    assert_error(other.truncate_back(b.start), ErrorKind::Closed, &[]);
    // Durable records stay durable, so forcing them succeeds.
    other.force(b.end).unwrap();
    assert_eq!(other.read_at(a.start).unwrap().data, record(0, 100));
    other.clone().close().unwrap();
    drop(other);
    let seen = logforce::inspect::open(dir.path()).unwrap();
    assert!(seen.summary().in_use && seen.summary().front == Lsn::ORIGIN);
    assert_holds(&next, 0, 2, 100);
    assert_eq!(next.front_lsn(), Lsn::ORIGIN);
    next.commit(b"still the writer").unwrap();
}

#[test]
fn a_reader_outlives_the_log_it_reads() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    for n in 0..50 {
        log.append(&record(n, 2000)).unwrap();
    }
    log.force(log.tail_lsn()).unwrap();
    let mut reader = log.read_from(log.front_lsn()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().data, record(0, 2000));
    log.close().unwrap();
    let rest: Vec<_> = reader.by_ref().map(|e| e.unwrap().data).collect();
    assert_eq!(rest.len(), 49);
    drop(reader);
    logforce::open_existing(dir.path(), options()).unwrap();
}

#[test]
fn two_logs_in_one_process() {
    let home = temp();
    let logs: Vec<Log> = (0..2)
        .map(|i| logforce::create_new(home.path().join(i.to_string()), options()).unwrap())
        .collect();
    assert_ne!(logs[0].id(), logs[1].id());
    for n in 0..200 {
        logs[n as usize % 2].commit(&record(n, 3000)).unwrap();
    }
    for (i, log) in logs.iter().enumerate() {
        let numbers: Vec<u64> = read_all(log)
            .iter()
            .map(|r| u64::from_le_bytes(r[..8].try_into().unwrap()))
            .collect();
        let expected: Vec<u64> = (i as u64..200).step_by(2).collect();
        assert_eq!(numbers, expected);
    }
}

#[test]
fn the_default_options_are_safe_against_loss_of_power_or_refuse() {
    let dir = temp();
    match logforce::create_new(dir.path(), Options::new()) {
        Ok(log) => {
            assert_eq!(log.guarantee(), Guarantee::PowerLoss);
            let at = log.commit(b"one").unwrap();
            assert_eq!(at.guarantee, Guarantee::PowerLoss);
            log.close().unwrap();
            let log = logforce::open_existing(dir.path(), Options::new()).unwrap();
            assert_eq!(log.read_at(at.start).unwrap().data, b"one");
        }
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"),
    }
}

#[test]
fn clocks_at_their_ends_are_taken() {
    use std::time::Duration;
    for idle in [Duration::ZERO, Duration::MAX] {
        let dir = temp();
        let log =
            logforce::create_new(dir.path(), options().tuning(Tuning::new().idle_stamp(idle)))
                .unwrap();
        for n in 0..20 {
            log.commit(&record(n, 100)).unwrap();
        }
        log.close().unwrap();
    }
}

#[test]
fn a_log_that_was_taken_back_whole_can_be_read_and_goes_on() {
    let dir = temp();
    let mut log = logforce::create_new(dir.path(), options()).unwrap();
    for round in 0..4 {
        // Truncates everything from the front on. In the first round the front is not the start of a record.
        log.truncate_back(log.front_lsn()).unwrap();
        assert!(read_all(&log).is_empty());
        log.truncate_front(log.front_lsn()).unwrap();
        let at = log.commit(&record(round, 100)).unwrap();
        assert_eq!(read_all(&log), [record(round, 100)]);
        assert_eq!(log.read_at(at.start).unwrap().data, record(round, 100));
        if round % 2 == 1 {
            log.close().unwrap();
            log = logforce::open_existing(dir.path(), options()).unwrap();
            assert_eq!(read_all(&log), [record(round, 100)]);
        }
    }
    let seen = logforce::inspect::open(dir.path()).unwrap();
    let found = seen.walk(&mut |_| true).unwrap();
    assert_eq!((found.records, found.damages), (1, 0), "{found:?}");
}

#[test]
fn the_end_of_a_record_stays_a_boundary_when_the_next_is_taken_back() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    // Both records are in one batch: the second begins where the first ends.
    let first = log.append(&record(0, 100)).unwrap();
    let second = log.append(&record(1, 100)).unwrap();
    assert_eq!(first.end, second.start);
    log.truncate_back(second.start).unwrap();
    let voided = log.read_at(second.start);
    assert_error(voided, ErrorKind::Voided, &[&second.start.to_string()]);
    log.commit(&record(2, 100)).unwrap();
    assert_eq!(read(&log, first.end), [record(2, 100)]);
    log.truncate_front(first.end).unwrap();
    assert_eq!(read_all(&log), [record(2, 100)]);
    log.close().unwrap();
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_eq!(read_all(&log), [record(2, 100)]);
}

#[test]
fn truncated_exactly_where_a_segment_ends() {
    let home = temp();
    for method in methods(home.path()) {
        let dir = home.path().join(method.name());
        let options = options()
            .method(method)
            .tuning(Tuning::new().idle_stamp(std::time::Duration::MAX));
        let log = logforce::create_new(&dir, options.clone()).unwrap();
        let mut ends = 0;
        for n in 0..200 {
            log.commit(&record(n, 100)).unwrap();
            if log.durable_lsn().0.is_multiple_of(SEGMENT) {
                ends += 1;
                log.truncate_front(log.durable_lsn()).unwrap();
                assert!(read_all(&log).is_empty());
            }
        }
        assert!(ends > 0, "{method}");
        let left = read_all(&log).len() as u64;
        log.close().unwrap();
        let seen = logforce::inspect::open(&dir).unwrap();
        let found = seen.walk(&mut |_| true).unwrap();
        assert_eq!(
            (found.records, found.damages),
            (left, 0),
            "{method}: {found:?}"
        );
        let log = logforce::open_existing(&dir, options).unwrap();
        assert_eq!(read_all(&log).len() as u64, left);
    }
}
