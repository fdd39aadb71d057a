//! Durable files: single cases that random runs do not have, or have too seldom.

use logforce_commit::advisor::{Advisor, Observation, Question};
use logforce_commit::file::{Error, ErrorKind, File, Options, Prepare};
use logforce_device::{Guarantee, Method, WriteCache};
use logforce_sim::{files, seeds};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::path::Path;
use std::sync::Arc;

/// Opens or creates a file, and runs `body` with the result.
fn with_file(disk: &SimDisk, options: Options, body: impl FnOnce(Result<File, Error>)) {
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let made = system.make_directory(Path::new("/d"));
        made.expect("nothing fails");
        body(options.create(true).open(&*system, Path::new("/d/f")));
    });
}

/// Returns a disk whose device has no volatile cache.
fn without_cache() -> SimDisk {
    let options = SimOptions {
        write_cache: WriteCache::Through,
        ..SimOptions::default()
    };
    SimDisk::new(options, 1)
}

#[derive(Debug)]
struct Advice(Method);

impl Advisor for Advice {
    fn method(&self, _: &Question<'_>) -> Option<Method> {
        Some(self.0)
    }

    fn observe(&self, _: &Question<'_>, _: Observation) {}
}

/// A direct write is durable there if it overwrites. A file may grow, and without a barrier neither its size
/// nor its new blocks are durable.
#[test]
fn a_method_without_a_barrier_survives_no_power_cut() {
    let direct = || Options::new().aligned(true).method(Method::Direct);
    with_file(&without_cache(), direct(), |opened| {
        let error = opened.expect_err("power loss is not survived");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
    let weak = direct().require(Guarantee::ProcessCrash);
    with_file(&without_cache(), weak, |opened| {
        let file = opened.expect("less is accepted");
        assert_eq!(file.guarantee(), Guarantee::ProcessCrash);
        assert_eq!(file.method(), Method::Direct);
    });
}

/// Advice for a log, whose segments are written before, is not followed where it is too weak for a file.
#[test]
fn advice_makes_no_guarantee_weaker() {
    for require in [Guarantee::PowerLoss, Guarantee::ProcessCrash] {
        let advised = |method| {
            let options = Options::new().aligned(true).require(require);
            options.default_advisor(Arc::new(Advice(method)))
        };
        for (method, used) in [
            (Method::Direct, Method::DirectDsync),
            (Method::DirectFdatasync, Method::DirectFdatasync),
        ] {
            with_file(&without_cache(), advised(method), |opened| {
                let file = opened.expect("the default is safe");
                assert_eq!(file.guarantee(), Guarantee::PowerLoss);
                assert_eq!(file.method(), used);
            });
        }
    }
}

/// Blocks that were prepared need no space: writes into them succeed on a full disk.
#[test]
fn prepared_blocks_need_no_space() {
    for (how, direct) in [
        (Prepare::Written, false),
        (Prepare::Reserved, false),
        (Prepare::Written, true),
    ] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        with_file(&disk, Options::new().aligned(direct), |opened| {
            let file = opened.expect("nothing fails");
            file.write_commit(&[1; 4096], 0).expect("there is space");
            file.prepare(0..8 * 4096, how).expect("there is space");
            disk.fill();
            for block in 0..8 {
                let written = file.write_commit(&[2; 4096], block * 4096);
                written.expect("the blocks are there");
            }
            // The file goes on after a lack of space in preparing, and not after one in writing.
            let error = file
                .prepare(0..9 * 4096, how)
                .expect_err("the disk is full");
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            file.write_commit(&[3; 4096], 0).expect("it goes on");
            let error = file
                .write_commit(&[3; 4096], 9 * 4096)
                .expect_err("no space");
            assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        });
    }
}

/// Random runs pass; `LOGFORCE_SEED=N` makes only that one.
#[test]
fn random_runs_of_files() {
    // The stage `simulation` of `cargo xtask test` makes more.
    let mut all = files::Coverage::default();
    for seed in seeds(30, 30) {
        let one = files::run(seed);
        assert!(one.calls >= files::CALLS);
        all.add(&one);
    }
    println!("{all}");
}

/// The same seed makes the same run: otherwise a failure could not be reproduced.
#[test]
fn a_run_of_a_file_follows_from_its_seed() {
    for seed in [3, 4, 5] {
        assert_eq!(files::run(seed), files::run(seed));
    }
}

/// A write of several megabytes is split. Its slices of any length end up one behind the other.
#[test]
fn long_writes_are_split_between_slices() {
    let lens = [1, 0, 700_000, 3, 900_001, 0, 524_288, 99];
    let whole: Vec<u8> = (0..lens.iter().sum::<usize>())
        .map(|n| (n / 7) as u8)
        .collect();
    let mut rest = &whole[..];
    let slices = lens.map(|len| {
        let (slice, behind) = rest.split_at(len);
        rest = behind;
        slice
    });
    let disk = SimDisk::new(SimOptions::default(), 1);
    with_file(&disk, Options::new(), |opened| {
        let file = opened.expect("nothing fails");
        file.writev_commit(&slices, 5).expect("nothing fails");
        let counters = file.stats().counters;
        assert_eq!((counters.writes, counters.syncs), (3, 1));
    });
    let bytes = disk.file_bytes("/d", "f").expect("it is durable");
    assert!(bytes[5..] == whole);
}

/// Reads past the cache are aligned, whatever the program's offsets, buffers and writes are.
#[test]
fn the_medium_is_read_in_whole_units() {
    let disk = SimOptions {
        physical_sector: 8192,
        ..SimOptions::default()
    };
    with_file(&SimDisk::new(disk, 1), Options::new(), |opened| {
        let file = opened.expect("nothing fails");
        let bytes: Vec<u8> = (0..20_000).map(|n| (n / 3) as u8).collect();
        file.write_commit(&bytes, 7).expect("nothing fails");
        let mut read = vec![0; 9_001];
        let found = file
            .read_medium_at(&mut read, 8_190)
            .expect("nothing fails");
        assert_eq!((found, &read[..]), (9_001, &bytes[8_183..17_184]));
        let found = file
            .read_medium_at(&mut read, 20_000)
            .expect("nothing fails");
        assert_eq!((found, &read[..7]), (7, &bytes[19_993..]));
    });
}
