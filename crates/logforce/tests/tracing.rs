//! Spans and events of the log for the crate `tracing`. Requires the feature of that name.

#[path = "all/common/mod.rs"]
mod common;

use common::*;
use logforce::{Method, Tuning};
use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that records all spans and events of all threads.
#[derive(Clone, Default)]
struct Listener {
    heard: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Listener {
    fn hear(&self, what: &str, about: &Metadata<'_>, fields: Fields) {
        if about.target() == "logforce" {
            let line = format!("{what} {} {}{}", about.level(), about.name(), fields.0);
            self.heard.lock().unwrap().push(line);
        }
    }

    fn count(&self, words: &[&str]) -> usize {
        let heard = self.heard.lock().unwrap();
        let all = |line: &&String| words.iter().all(|w| line.contains(w));
        heard.iter().filter(all).count()
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(String::new());
        span.record(&mut fields);
        self.hear("span", span.metadata(), fields);
        Id::from_u64(1 + self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.hear("event", event.metadata(), fields);
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// There is only one test, because all threads of the process have the same subscriber.
#[test]
fn a_life_is_told() {
    let listener = Listener::default();
    tracing::subscriber::set_global_default(listener.clone()).unwrap();
    let home = temp();
    let path = home.path().join("log");
    let log = logforce::create_new(&path, options()).unwrap();
    assert_eq!(listener.count(&["span INFO open", "path="]), 1);
    assert_eq!(listener.count(&["event INFO", "opened", "created=true"]), 1);
    let before = listener.count(&["event DEBUG", "message=job", "batches=1", "bytes=4096"]);
    for n in 0..20 {
        log.commit(&record(n, 100)).unwrap();
    }
    let jobs = listener.count(&[
        "event DEBUG",
        "message=job",
        "batches=1",
        "bytes=4096",
        "took_ns=",
    ]);
    assert!(jobs >= before + 20, "{jobs}");
    let front = log.commit(&vec![7; 200 << 10]).unwrap().end;
    log.truncate_front(front).unwrap();
    assert_eq!(listener.count(&["INFO", "truncated", "end=\"front\""]), 1);
    let last = log.commit(b"voided").unwrap();
    log.truncate_back(last.start).unwrap();
    assert_eq!(listener.count(&["INFO", "truncated", "end=\"back\""]), 1);
    // Another thread has prepared the space for these records.
    assert!(listener.count(&["span DEBUG prepare", "start="]) >= 1);
    assert!(listener.count(&["event DEBUG", "prepared", "recycled=false"]) >= 1);
    log.close().unwrap();
    assert_eq!(listener.count(&["event INFO", "closed", "durable="]), 1);

    let log = logforce::open_existing(&path, options()).unwrap();
    let found = ["event INFO", "opened", "created=false", "clean=true"];
    assert_eq!(listener.count(&found), 1);
    log.close().unwrap();

    let log = logforce::open_existing(&path, options().method(Method::Fdatasync)).unwrap();
    log.commit(b"by a barrier").unwrap();
    assert!(listener.count(&["event DEBUG", "barrier", "segments=1"]) >= 1);
    log.close().unwrap();

    assert_eq!(listener.count(&["event ERROR"]), 0);
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let options = options().tuning(Tuning::new().live_stats(false));
        let log =
            logforce::internal::open(&*disk.system(rt), "/log", options.create_new(true)).unwrap();
        rt.sleep(Duration::from_secs(1));
        disk.fail_at(disk.ops(), Fault::Io);
        log.commit(b"lost").unwrap_err();
        log.commit(b"refused").unwrap_err();
    });
    assert_eq!(listener.count(&["event ERROR", "poisoned", "error="]), 1);

    let heard = listener.heard.lock().unwrap();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for line in heard.iter() {
        *kinds.entry(line.split(' ').nth(1).unwrap()).or_default() += 1;
    }
    println!("{kinds:?}");
}
