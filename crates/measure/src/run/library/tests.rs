use super::*;
use crate::run::counters::NoCounters;
use logforce_terminal::progress::Silent;

fn place() -> tempfile::TempDir {
    let target = std::env::current_exe().unwrap();
    tempfile::tempdir_in(target.parent().unwrap()).unwrap()
}

fn shared(dir: &tempfile::TempDir) -> (Rc<RefCell<SharedLog>>, Assessment) {
    let facts = logforce::disk::facts(dir.path()).unwrap();
    let method = default_method(&facts);
    let assessment = assess(&facts, method).unwrap();
    let setup = LogSetup {
        path: dir.path().join("log"),
        method,
        guarantee: assessment.guarantee,
        segment_size: 1 << 20,
    };
    let log = SharedLog::new(setup, Interrupt::new(), Rc::new(Silent));
    (Rc::new(RefCell::new(log)), assessment)
}

fn journal(
    threads: u32,
    bytes: u64,
    log: &Rc<RefCell<SharedLog>>,
    assessment: &Assessment,
) -> LogJournal {
    let key = RowKey {
        scenario: "test",
        subject: SubjectKind::Logforce,
        method: log.borrow().setup.method,
        file_state: None,
        threads,
        bytes,
    };
    LogJournal::new(key, assessment.clone(), None, Rc::clone(log))
}

#[test]
fn the_librarys_default_is_known() {
    let dir = place();
    let facts = logforce::disk::facts(dir.path()).unwrap();
    let options = Options::new()
        .require(Guarantee::ProcessCrash)
        .segment_size(1 << 20);
    let log = logforce::create_new(dir.path().join("log"), options).unwrap();
    assert_eq!(log.recovered().method, default_method(&facts));
    let assessment = assess(&facts, log.recovered().method).unwrap();
    assert_eq!(log.guarantee(), assessment.guarantee);
}

#[test]
fn every_commit_is_counted_and_the_disk_does_not_fill() {
    let dir = place();
    let (log, assessment) = shared(&dir);
    let mut committed = 0;
    for (threads, bytes) in [(1, 16384), (8, 128), (1, 16384)] {
        let mut subject = journal(threads, bytes, &log, &assessment);
        let mut recorder = Recorder::new(Rc::new(NoCounters), Interrupt::new());
        let limit = Limit {
            commits: 300,
            time: None,
        };
        subject.prepare().unwrap();
        recorder.begin_slice();
        subject.run(&limit, &mut recorder).unwrap();
        subject.finish().unwrap();
        assert_eq!(recorder.commits(), 300);
        assert_eq!(recorder.latencies().count(), 300);
        assert!(recorder.time() > Duration::ZERO);
        if threads == 1 {
            let each = recorder.log_bytes() as f64 / 300.0;
            assert!((20480.0..20700.0).contains(&each), "{each}");
        }
        committed += 300;
        // Truncation keeps only the segment that holds the last record.
        let segments = logforce::inspect::open(log.borrow().path())
            .unwrap()
            .summary();
        let files = segments.segments.len() + segments.spares.len();
        assert!(files as u64 <= SEGMENTS, "{segments:?}");
    }
    assert_eq!(committed, 900);
}

#[test]
fn an_interrupt_ends_many_threads() {
    let dir = place();
    let (log, assessment) = shared(&dir);
    let mut subject = journal(16, 128, &log, &assessment);
    let interrupt = Interrupt::new();
    let mut recorder = Recorder::new(Rc::new(NoCounters), interrupt.clone());
    subject.prepare().unwrap();
    recorder.begin_slice();
    let stop = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        interrupt.raise();
    });
    let limit = Limit {
        commits: u64::MAX,
        time: None,
    };
    subject.run(&limit, &mut recorder).unwrap();
    stop.join().unwrap();
}

#[test]
fn a_log_that_fails_ends_the_row() {
    let dir = place();
    let (log, assessment) = shared(&dir);
    log.borrow_mut().log().unwrap().close().unwrap();
    let mut subject = journal(4, 128, &log, &assessment);
    let mut recorder = Recorder::new(Rc::new(NoCounters), Interrupt::new());
    recorder.begin_slice();
    let limit = Limit {
        commits: 10,
        time: None,
    };
    let error = subject.run(&limit, &mut recorder).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}
