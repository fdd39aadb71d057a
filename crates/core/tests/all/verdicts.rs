//! Guarantees that neither a device nor evidence confirms: they are refused, or accepted explicitly and
//! printed with a question mark.

use logforce_core::{
    Error, ErrorKind, Guarantee, Log, Method, OpenMode, Options, Policy, Refused, Result, Verdict,
    WriteCache,
};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

/// Runs `body` on a disk whose write cache is unknown.
fn on_a_doubtful_disk(body: impl Fn(&dyn Fn(Options) -> Result<Log>)) {
    let options = SimOptions {
        write_cache: WriteCache::Unknown,
        ..SimOptions::default()
    };
    let disk = SimDisk::new(options, 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        body(&|options| Log::open(&*system, "/log", OpenMode::OpenOrCreate, options));
    });
}

#[test]
fn what_nobody_answers_for_is_refused_by_default() {
    on_a_doubtful_disk(|open| {
        for options in [
            Options::new(),
            Options::new().method(Method::Fdatasync),
            Options::new().require(Guarantee::OsCrash),
            Options::new().require_verdict(Verdict::Proven),
        ] {
            let e = open(options).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unavailable);
            let Error::Refused(Refused::Verdict { got, verdict, .. }) = &e else {
                panic!("{e}");
            };
            assert_eq!((*got, *verdict), (Guarantee::PowerLoss, Verdict::Unknown));
            let words = e.to_string();
            for word in [
                "unknown whether",
                "Options::require_verdict(Verdict::Unknown)",
            ] {
                assert!(words.contains(word), "{words}");
            }
        }
        // These guarantees do not depend on the device.
        for options in [
            Options::new().require(Guarantee::ProcessCrash),
            Options::new()
                .method(Method::Direct)
                .require(Guarantee::OsCrash),
        ] {
            open(options).unwrap().close().unwrap();
        }
    });
}

#[test]
fn what_is_accepted_by_name_is_printed_with_its_doubt() {
    on_a_doubtful_disk(|open| {
        for accepted in [
            Options::new().require_verdict(Verdict::Unknown),
            Options::new().require_verdict(Verdict::Contradicted),
            Options::new().require(Guarantee::Nothing),
        ] {
            let log = open(accepted).unwrap();
            assert_eq!(log.recovered().verdict, Verdict::Unknown);
            let done = log.commit(b"a record").unwrap();
            let forced = log.force(done.end).unwrap();
            for granted in [log.guarantee(), done.guarantee, forced] {
                assert_eq!(granted, Guarantee::PowerLoss);
                assert_eq!(granted.to_string(), "power-loss?");
            }
            // Records that are not forced yet do not claim that guarantee.
            let later = Policy::Interval {
                within: std::time::Duration::from_secs(1),
            };
            let staged = log.commit_with(b"later", later).unwrap();
            assert_eq!(staged.guarantee.to_string(), "nothing");
            log.close().unwrap();
        }
    });
}

#[test]
fn what_is_declared_is_printed_without() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let options = Options::new().require_verdict(Verdict::Unknown);
        let log = Log::open(&*system, "/log", OpenMode::CreateNew, options).unwrap();
        let done = log.commit(b"a record").unwrap();
        assert_eq!(done.guarantee.to_string(), "power-loss");
        assert_eq!(log.guarantee().to_string(), "power-loss");
    });
}
