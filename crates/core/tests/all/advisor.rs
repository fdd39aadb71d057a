//! Advisors: when they are asked for a method, and when their answer counts.

use logforce_commit::advisor::{Advisor, Observation, Question};
use logforce_core::{
    CutEvidence, CutResult, ErrorKind, Guarantee, Log, Method, OpenMode, Options, Result, Verdict,
};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

#[derive(Debug, Default)]
struct Oracle {
    fails: bool,
    answer: Option<Method>,
    asked: Mutex<Vec<Guarantee>>,
    tried: Vec<CutResult>,
    unread: Vec<String>,
}

impl Advisor for Oracle {
    fn tried(&self, _: &Question<'_>) -> CutEvidence {
        CutEvidence::new(self.tried.clone(), self.unread.clone())
    }

    fn method(&self, question: &Question<'_>) -> Option<Method> {
        assert!(
            question.dir.is_locked("lock").unwrap(),
            "asked without lock"
        );
        assert_eq!(question.write_unit, 4096);
        self.asked.lock().unwrap().push(question.require);
        self.answer
    }

    fn observe(&self, _: &Question<'_>, _: Observation) {
        assert!(!self.fails, "the advisor panics, as intended");
    }
}

fn oracle(answer: Method) -> Arc<Oracle> {
    Arc::new(Oracle {
        answer: Some(answer),
        ..Oracle::default()
    })
}

fn options(oracle: &Arc<Oracle>) -> Options {
    Options::new()
        .segment_size(64 << 10)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .default_advisor(oracle.clone())
}

fn in_simulation(body: impl Fn(&dyn Fn(Options) -> Result<Log>)) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        body(&|options| Log::open(&*system, "/log", OpenMode::OpenOrCreate, options));
    });
}

#[test]
fn asked_once_for_an_opening_with_the_lock_held() {
    in_simulation(|open| {
        let oracle = oracle(Method::Fdatasync);
        let log = open(options(&oracle)).unwrap();
        assert_eq!(log.recovered().method, Method::Fdatasync);
        log.commit(b"by it").unwrap();
        let refused = open(options(&oracle)).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Locked);
        assert_eq!(oracle.asked.lock().unwrap().len(), 1);
        log.close().unwrap();
        open(options(&oracle)).unwrap();
        assert_eq!(oracle.asked.lock().unwrap().len(), 2);
    });
}

#[test]
fn not_asked_where_the_user_has_decided() {
    for decide in [
        (|o| o.method(Method::Dsync)) as fn(Options) -> Options,
        |o| o.calibrate(false),
    ] {
        in_simulation(|open| {
            let oracle = oracle(Method::Fdatasync);
            let log = open(decide(options(&oracle))).unwrap();
            assert_ne!(log.recovered().method, Method::Fdatasync);
            assert_eq!(oracle.asked.lock().unwrap().len(), 0);
        });
    }
}

#[test]
fn an_answer_that_guarantees_less_is_not_taken() {
    for weak in [Method::Buffered, Method::Direct] {
        in_simulation(|open| {
            let oracle = oracle(weak);
            // The answer is ignored even if the user requires no more.
            let asked = options(&oracle).require(Guarantee::ProcessCrash);
            let log = open(asked).unwrap();
            assert_eq!(log.recovered().method, Method::DirectDsync);
            assert_eq!(log.guarantee(), Guarantee::PowerLoss);
            assert_eq!(oracle.asked.lock().unwrap().len(), 1);
        });
    }
}

#[test]
fn the_first_advisor_that_is_named_stays() {
    in_simulation(|open| {
        let (first, second) = (oracle(Method::Dsync), oracle(Method::Fdatasync));
        let log = open(options(&first).default_advisor(second)).unwrap();
        assert_eq!(log.recovered().method, Method::Dsync);
    });
}

fn tried(method: Method, kept: bool) -> Arc<Oracle> {
    Arc::new(Oracle {
        answer: Some(method),
        tried: vec![CutResult::new(method, kept, "three cuts on 2026-11-21")],
        ..Oracle::default()
    })
}

#[test]
fn what_a_cut_of_power_proved_is_what_the_log_says() {
    in_simulation(|open| {
        let oracle = tried(Method::Fdatasync, true);
        let log = open(options(&oracle)).unwrap();
        let said = (
            log.recovered().method,
            log.guarantee().guarantee,
            log.recovered().verdict,
        );
        let proven = (Method::Fdatasync, Guarantee::PowerLoss, Verdict::Proven);
        assert_eq!(said, proven);
        assert!(
            log.recovered().evidence.contains("three cuts"),
            "{}",
            log.recovered().evidence
        );
        log.close().unwrap();
        let log = open(options(&oracle).method(Method::Dsync)).unwrap();
        assert_eq!(log.recovered().verdict, Verdict::Declared);
    });
}

#[test]
fn a_method_that_lost_is_refused_also_by_name() {
    in_simulation(|open| {
        let oracle = tried(Method::DirectDsync, false);
        for options in [options(&oracle), options(&oracle).calibrate(false)] {
            let refused = open(options.method(Method::DirectDsync)).map(drop);
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable);
            let said = refused.to_string();
            assert!(
                said.contains("guarantees os-crash here, power-loss"),
                "{said}"
            );
            assert!(said.contains("three cuts on 2026-11-21"), "{said}");
        }
        // A caller that requires less may use the method, and the log reports the verdict.
        let less = options(&oracle).require(Guarantee::OsCrash);
        let log = open(less.method(Method::DirectDsync)).unwrap();
        assert_eq!(log.recovered().verdict, Verdict::Contradicted);
        assert_eq!(log.guarantee(), Guarantee::OsCrash);
    });
}

#[test]
fn where_the_default_lost_another_is_used_or_none() {
    in_simulation(|open| {
        // Only FUA has lost, which says nothing about a flush.
        let log = open(options(&tried(Method::DirectDsync, false))).unwrap();
        assert_eq!(log.recovered().method, Method::DirectFdatasync);
        assert_eq!(log.guarantee(), Guarantee::PowerLoss);
        log.close().unwrap();
        let both = Oracle {
            tried: [Method::DirectDsync, Method::Fdatasync]
                .map(|method| CutResult::new(method, false, "lost 5"))
                .to_vec(),
            ..Oracle::default()
        };
        let refused = open(options(&Arc::new(both))).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.to_string().contains("lost 5"), "{refused}");
    });
}

#[test]
fn evidence_that_cannot_be_read_may_be_of_a_loss() {
    in_simulation(|open| {
        let mut oracle = Oracle::default();
        oracle.unread.push("verdicts is torn: mend it".to_owned());
        // Other evidence does not prove a method while evidence of a loss may be unreadable.
        oracle.tried = tried(Method::Dsync, true).tried.clone();
        let oracle = Arc::new(oracle);
        for named in [None, Some(Method::Dsync), Some(Method::Fdatasync)] {
            let options = || match named {
                None => options(&oracle),
                Some(method) => options(&oracle).method(method),
            };
            let refused = open(options()).map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable);
            let said = refused.to_string();
            assert!(said.contains("verdicts is torn: mend it"), "{said}");
            let log = open(options().require(Guarantee::OsCrash)).unwrap();
            let known = (log.guarantee().guarantee, log.recovered().verdict);
            assert_eq!(known, (Guarantee::OsCrash, Verdict::Unknown));
            assert!(
                log.recovered().evidence.contains("mend it"),
                "{}",
                log.recovered().evidence
            );
            log.close().unwrap();
        }
    });
}

/// An advisor that panics in the last step of a close, before the lock is released.
#[test]
fn one_that_panics_at_the_end_keeps_neither_the_lock_nor_anybody_waiting() {
    let oracle = Arc::new(Oracle {
        fails: true,
        ..Oracle::default()
    });
    for dropped in [false, true] {
        in_simulation(|open| {
            let log = open(options(&oracle)).unwrap();
            let at = log.commit(b"kept").unwrap();
            let mut follower = log.follow_lsn(at.start).unwrap();
            let other = log.clone();
            if dropped {
                drop(other);
                drop(log);
            } else {
                let closed = catch_unwind(AssertUnwindSafe(|| log.close()));
                assert!(closed.is_err(), "the caller gets the panic");
                // The log was closed completely, and another close succeeds.
                other.close().unwrap();
            }
            assert!(follower.next_blocking().unwrap().is_ok());
            assert!(follower.next_blocking().is_none());
            let log = open(options(&oracle).calibrate(false)).unwrap();
            assert!(log.recovered().clean);
            assert_eq!(log.read_at(at.start).unwrap().data, b"kept");
        });
    }
}
