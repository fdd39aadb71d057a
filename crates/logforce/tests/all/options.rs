//! Options with valid and invalid values: a log opens and works, or the error names the option. Also the
//! output of errors that a program does not handle.

use crate::common::*;
use logforce::{Error, ErrorKind, Guarantee, Options, Policy, Tuning};
use std::time::Duration;

type Set = fn(Options) -> Options;

/// Options with which a log works.
const WORKS: [(&str, Set); 19] = [
    ("segment_size 16 KiB", |o| {
        o.segment_size(16 << 10).max_batch_size(8192)
    }),
    ("write_unit_size 65536", |o| {
        o.tuning(Tuning::new().write_unit_size(1 << 16))
            .max_batch_size(1 << 17)
    }),
    ("max_batch_size 16 MiB", |o| {
        o.max_batch_size(16 << 20).buffer_size(16 << 20)
    }),
    ("buffer_size", |o| o.buffer_size(u64::MAX)),
    ("idle_stamp 0", |o| {
        o.tuning(Tuning::new().idle_stamp(Duration::ZERO))
    }),
    ("idle_stamp 1 ns", |o| {
        o.tuning(Tuning::new().idle_stamp(Duration::from_nanos(1)))
    }),
    ("idle_stamp", |o| {
        o.tuning(Tuning::new().idle_stamp(Duration::MAX))
    }),
    ("large_write_size 0", |o| {
        o.tuning(Tuning::new().large_write_size(0))
    }),
    ("large_write_size", |o| {
        o.tuning(Tuning::new().large_write_size(u64::MAX))
    }),
    ("max_in_flight_writes 0 is 1", |o| {
        o.tuning(Tuning::new().max_in_flight_writes(0))
    }),
    ("max_in_flight_writes 1024", |o| {
        o.tuning(Tuning::new().max_in_flight_writes(1024))
    }),
    ("1024 small ones", |o| {
        o.tuning(Tuning::new().max_in_flight_writes(1024).large_write_size(0))
    }),
    ("max_spare_segments 0", |o| {
        o.tuning(Tuning::new().max_spare_segments(0))
    }),
    ("max_spare_segments", |o| {
        o.tuning(Tuning::new().max_spare_segments(usize::MAX))
    }),
    ("max_pinned_size 0", |o| o.max_pinned_size(0)),
    ("max_pinned_size", |o| o.max_pinned_size(u64::MAX)),
    ("max_log_size", |o| o.max_log_size(u64::MAX)),
    ("max_log_size and segments", |o| {
        o.max_log_size(u64::MAX)
            .tuning(Tuning::new().max_spare_segments(usize::MAX))
            .max_pinned_size(0)
    }),
    ("an empty cache", |o| {
        o.calibrate(true).calibration_cache("")
    }),
];

/// Refused options: name, setting, and words of the message.
const REFUSED: [(&str, Set, &[&str]); 19] = [
    (
        "segment_size",
        |o| o.segment_size(0),
        &["0 bytes", "16 KiB"],
    ),
    ("segment_size", |o| o.segment_size(1), &["1 byte "]),
    (
        "segment_size",
        |o| o.segment_size((64 << 10) + 1),
        &["4 KiB"],
    ),
    (
        "segment_size",
        |o| o.segment_size((4 << 30) + 4096),
        &["4 GiB"],
    ),
    ("segment_size", |o| o.segment_size(u64::MAX), &["4 GiB"]),
    (
        "write_unit_size",
        |o| o.tuning(Tuning::new().write_unit_size(0)),
        &["4 KiB", "64 KiB"],
    ),
    (
        "write_unit_size",
        |o| o.tuning(Tuning::new().write_unit_size(1)),
        &["power of two"],
    ),
    (
        "write_unit_size",
        |o| o.tuning(Tuning::new().write_unit_size(4097)),
        &["power of two"],
    ),
    (
        "write_unit_size",
        |o| o.tuning(Tuning::new().write_unit_size(1 << 31)),
        &["64 KiB"],
    ),
    (
        "write_unit_size",
        |o| o.tuning(Tuning::new().write_unit_size(u64::MAX)),
        &["64 KiB"],
    ),
    (
        "max_batch_size",
        |o| o.max_batch_size(0),
        &["0 bytes", "16 MiB"],
    ),
    ("max_batch_size", |o| o.max_batch_size(4096), &["8 KiB"]),
    (
        "max_batch_size",
        |o| o.max_batch_size(u64::MAX),
        &["16 MiB"],
    ),
    (
        "buffer_size",
        |o| o.buffer_size(0),
        &["max_batch_size", "64 KiB"],
    ),
    (
        "buffer_size",
        |o| o.buffer_size((64 << 10) - 1),
        &["max_batch_size"],
    ),
    (
        "max_in_flight_writes",
        |o| o.tuning(Tuning::new().max_in_flight_writes(1025)),
        &["1024"],
    ),
    (
        "max_in_flight_writes",
        |o| o.tuning(Tuning::new().max_in_flight_writes(usize::MAX)),
        &["1 to 1024"],
    ),
    ("max_log_size", |o| o.max_log_size(0), &["at least", "KiB"]),
    (
        "max_log_size",
        |o| o.max_log_size(3 * SEGMENT - 1),
        &["segments of"],
    ),
];

#[test]
fn a_log_works_with_every_option_that_it_takes() {
    let home = temp();
    for (n, (name, set)) in WORKS.into_iter().enumerate() {
        println!("{name}");
        let dir = home.path().join(n.to_string());
        let log = logforce::open_or_create(&dir, set(options())).unwrap();
        for n in 0..20 {
            log.commit(&record(n, 1000)).unwrap();
        }
        let records: Vec<_> = (20..40).map(|n| record(n, 30_000)).collect();
        for record in &records {
            log.append(record).unwrap();
        }
        let middle = log.commit(&record(40, 9)).unwrap();
        log.force(middle.end).unwrap();
        let pin = log.pin(log.front_lsn()).unwrap();
        drop(pin);
        assert_eq!(read_all(&log).len(), 41, "{name}");
        log.truncate_front(middle.start).unwrap();
        log.close().unwrap();
        let log = logforce::open_existing(&dir, set(options())).unwrap();
        assert!(log.recovered().clean, "{name}");
        assert_eq!(read(&log, middle.start), [record(40, 9)], "{name}");
        log.close().unwrap();
    }
}

#[test]
fn what_cannot_be_names_the_option_and_leaves_nothing() {
    let home = temp();
    for (option, set, words) in REFUSED {
        let dir = home.path().join("log");
        let words = [&["option", option], words].concat();
        let opened = logforce::open_or_create(&dir, set(options()));
        let e = assert_error(opened, ErrorKind::InvalidInput, &words);
        assert!(matches!(e, Error::Option { option: o, .. } if o == option));
        assert!(!dir.exists(), "{option}");
        // An existing log is not changed either.
        logforce::create_new(&dir, options()).unwrap();
        let opened = logforce::open_existing(&dir, set(options()));
        assert_error(opened, ErrorKind::InvalidInput, &words);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// `main() -> Result<(), Error>`, `unwrap` and `expect` print errors by `Debug`.
#[test]
fn debug_of_an_error_is_its_message() {
    let home = temp();
    for error in [
        logforce::open_existing(home.path().join("gone"), options()).map(drop),
        logforce::open_or_create(home.path(), options().segment_size(3)).map(drop),
        logforce::open_or_create("", options()).map(drop),
    ] {
        let e = error.unwrap_err();
        assert_eq!(format!("{e:?}"), e.to_string());
        assert_eq!(format!("{e:#?}"), e.to_string());
        assert!(!format!("{e:?}").contains('{'), "{e:?}");
    }
}

/// Intervals of any length do not overflow, and accepted records are there after a close.
#[test]
fn policies_with_every_interval() {
    let home = temp();
    let log = logforce::open_or_create(home.path(), options()).unwrap();
    let intervals = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
    for within in intervals {
        let write = Policy::Write {
            force_within: within,
        };
        assert!(log.commit_with(b"w", write).unwrap().guarantee > Guarantee::Nothing);
        log.commit_with(b"i", Policy::Interval { within }).unwrap();
        log.submit(b"s", Policy::Interval { within })
            .unwrap()
            .wait()
            .unwrap();
    }
    log.close().unwrap();
    let log = logforce::open_existing(home.path(), options()).unwrap();
    assert_eq!(read_all(&log), [b"w", b"i", b"s"].repeat(3));
}
