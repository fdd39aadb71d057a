//! Durable files: single cases that random runs do not have, or have too seldom.

use logforce_commit::advisor::{Advisor, Observation, Question};
use logforce_commit::file::{Error, ErrorKind, File, Options};
use logforce_device::{Guarantee, Method, WriteCache};
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
