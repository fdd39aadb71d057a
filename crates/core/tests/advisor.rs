//! Who is asked for the method, when, and what the answer is worth.

use logforce_core::{
    Advisor, Creation, ErrorKind, Guarantee, Log, Method, Observation, Options, Question, Result,
};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::sync::{Arc, Mutex};

#[derive(Debug, Default)]
struct Oracle {
    answer: Option<Method>,
    asked: Mutex<Vec<Guarantee>>,
}

impl Advisor for Oracle {
    fn method(&self, question: &Question<'_>) -> Option<Method> {
        assert!(
            question.dir.is_locked("lock").unwrap(),
            "asked without lock"
        );
        assert_eq!(question.write_unit, 4096);
        self.asked.lock().unwrap().push(question.require);
        self.answer
    }

    fn observe(&self, _: &Question<'_>, _: Observation) {}
}

fn oracle(answer: Method) -> Arc<Oracle> {
    Arc::new(Oracle {
        answer: Some(answer),
        ..Oracle::default()
    })
}

fn options(oracle: &Arc<Oracle>) -> Options {
    Options::new()
        .segment_len(64 << 10)
        .max_batch(16 << 10)
        .staging(64 << 10)
        .default_advisor(oracle.clone())
}

fn in_simulation(body: impl Fn(&dyn Fn(Options) -> Result<Log>)) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        body(&|options| Log::open(&*system, "/log", Creation::OpenOrCreate, options));
    });
}

#[test]
fn asked_once_for_an_opening_with_the_lock_held() {
    in_simulation(|open| {
        let oracle = oracle(Method::Fdatasync);
        let log = open(options(&oracle)).unwrap();
        assert_eq!(log.method(), Method::Fdatasync);
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
            assert_ne!(log.method(), Method::Fdatasync);
            assert_eq!(oracle.asked.lock().unwrap().len(), 0);
        });
    }
}

#[test]
fn an_answer_that_guarantees_less_is_not_taken() {
    for weak in [Method::Buffered, Method::Direct] {
        in_simulation(|open| {
            let oracle = oracle(weak);
            // Even where the user asks for no more.
            let asked = options(&oracle).require(Guarantee::ProcessCrash);
            let log = open(asked).unwrap();
            assert_eq!(log.method(), Method::DirectDsync);
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
        assert_eq!(log.method(), Method::Dsync);
    });
}
