//! Calls of a log in the callbacks of a log.

use super::{Home, OnDrop, Once, assert_complete, poll, public_functions, wait, within_limit};
use crate::common::*;
use logforce::replica::ReplicaOptions;
use logforce::{
    BackupOptions, Batch, EnvironmentOptions, ErrorKind, Log, Lsn, Method, Options, Policy, Tuning,
};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

type Call = (&'static str, fn(&Log, &Path));

/// All public calls of a log; their results do not matter. The path is a directory for copies.
const CALLS: &[Call] = &[
    ("append", |log, _| drop(log.append(b"appended"))),
    ("append_many", |log, _| {
        // Appends more than the buffer holds.
        (0..8).for_each(|n| drop(log.append(&record(n, 20 << 10))));
    }),
    ("force", |log, _| drop(log.force(log.tail_lsn()))),
    ("commit", |log, _| drop(log.commit(b"committed"))),
    ("commit_with", |log, _| {
        for policy in POLICIES {
            let _ = log.commit_with(b"committed", policy);
        }
    }),
    ("durable_lsn", |log, _| _ = log.durable_lsn()),
    ("tail_lsn", |log, _| _ = log.tail_lsn()),
    ("front_lsn", |log, _| _ = log.front_lsn()),
    ("read_at", |log, _| drop(log.read_at(log.front_lsn()))),
    ("read_from", |log, _| {
        log.read_from(log.front_lsn())
            .into_iter()
            .for_each(|r| _ = r.count());
    }),
    ("read_back_from", |log, _| {
        log.read_back_from(log.durable_lsn())
            .into_iter()
            .for_each(|r| _ = r.count());
    }),
    ("last", |log, _| drop(log.last())),
    ("truncate_front", |log, _| {
        drop(log.truncate_front(log.tail_lsn()))
    }),
    ("truncate_front, within a record", |log, _| {
        let _ = log.truncate_front(Lsn(log.durable_lsn().0 - 1));
    }),
    ("truncate_back", |log, _| {
        drop(log.truncate_back(log.front_lsn()))
    }),
    ("pin", |log, _| {
        let pin = log.pin(log.front_lsn());
        let _ = log.truncate_front(log.durable_lsn());
        let _ = pin.map(|pin| pin.advance(log.durable_lsn()));
    }),
    ("pin, of the front", |log, _| drop(log.pin(None))),
    ("replicate", |log, _| {
        if let Ok(mut replica) = log.replicate(ReplicaOptions::new()) {
            let _ = replica.wait(Some(Duration::from_millis(1)));
            let _ = replica.read(1 << 20);
            let _ = replica.confirm(replica.position());
        }
    }),
    ("replicated_lsn", |log, _| _ = log.replicated_lsn()),
    ("follow", |log, _| {
        if let Ok(follower) = log.follow_lsn(log.durable_lsn()) {
            drop(log.follow(&follower.position()));
        }
    }),
    ("follow_lsn", |log, _| {
        if log.commit(b"to follow").is_ok() {
            // Either there is a record, or the log was closed meanwhile.
            if let Ok(mut follower) = log.follow_lsn(log.front_lsn()) {
                drop(follower.next_blocking());
                poll(follower.next());
            }
        }
    }),
    ("stats", |log, _| drop(log.stats())),
    ("guarantee", |log, _| _ = log.guarantee()),
    ("id", |log, _| _ = log.id()),
    ("path", |log, _| _ = log.path().exists()),
    ("recovered", |log, _| _ = log.recovered().clean),
    ("checkpoint_requests", |log, _| {
        _ = log.checkpoint_requests().try_next();
    }),
    ("close", |log, _| drop(log.clone().close())),
    ("submit", |log, _| {
        for policy in POLICIES {
            let _ = log.submit(b"submitted", policy).map(|handle| handle.wait());
        }
    }),
    ("try_reserve", |log, _| {
        let mut batch = Batch::new();
        batch.push(b"one").push(b"two");
        let permit = log.try_reserve(batch.reserved_bytes());
        let submitted = permit.and_then(|permit| permit.submit(&mut batch, Policy::Force));
        let _ = submitted.map(|handle| handle.wait());
    }),
    ("submit_then", |log, _| {
        let _ = log.submit_then(b"submitted", Policy::Force, |_| {});
    }),
    ("submit, of nothing", |log, _| {
        let _ = log
            .submit(Batch::new(), Policy::Force)
            .map(|handle| handle.wait());
    }),
    ("commit_async", |log, _| {
        wait(log.commit_async(b"committed"))
    }),
    ("reserve", |log, _| {
        wait(async {
            if let Ok(permit) = log.reserve(100).await {
                let _ = permit.submit(b"permitted", Policy::Force)?.await;
            }
            Ok::<(), logforce::Error>(())
        });
    }),
    ("handles, awaited", |log, _| {
        for policy in POLICIES {
            wait(async { log.submit(b"submitted", policy)?.await });
        }
        wait(async { log.submit(Batch::new(), Policy::Force)?.await });
    }),
    ("reserve, more than the buffer holds", |log, _| {
        for n in 0..8 {
            wait(async {
                let record = record(n, 20 << 10);
                drop(
                    log.reserve(record.len())
                        .await?
                        .submit(&record, Policy::Force)?,
                );
                Ok::<(), logforce::Error>(())
            });
        }
    }),
    ("meta", |log, _| drop(log.meta())),
    ("set_meta", |log, _| drop(log.set_meta(b"metadata"))),
    ("backup", |log, copies| {
        drop(log.backup(copies.join("called"), BackupOptions::new()))
    }),
    ("backup, closed within", |log, copies| {
        let _ = log.backup(
            copies.join("called"),
            BackupOptions::new().progress(|_, _| {
                let _ = log.clone().close();
            }),
        );
    }),
    ("blocking, close", |log, _| {
        wait(log.blocking(|log| log.close()))
    }),
    ("blocking, truncations", |log, _| {
        wait(log.blocking(|log| log.truncate_front(log.durable_lsn())));
        wait(log.blocking(|log| log.truncate_back(log.front_lsn())))
    }),
    ("blocking, set_meta", |log, _| {
        wait(log.blocking(|log| log.set_meta(b"metadata")))
    }),
    ("blocking, backup", |log, copies| {
        let to = copies.join("called");
        wait(log.blocking(|log| log.backup(to, BackupOptions::new())))
    }),
    // Inspects the log, and opens it once more.
    ("open", |log, _| {
        let again = logforce::open_existing(log.path(), options());
        let kind = again.map(drop).map_err(|e| e.kind());
        // The opening succeeds only if a call has closed the log.
        assert!(kind == Err(ErrorKind::Locked) || kind.is_ok(), "{kind:?}");
    }),
    ("drop", |log, _| drop(log.clone())),
];

/// Names in `CALLS` that `the_table_is_complete` does not compare with public functions.
const OTHERS: [&str; 4] = ["append_many", "handles, awaited", "open", "drop"];

const POLICIES: [Policy; 3] = [
    Policy::Force,
    Policy::Write {
        force_within: Duration::from_millis(3),
    },
    Policy::Interval {
        within: Duration::from_millis(3),
    },
];

/// A log, and its directory.
struct Subject {
    log: Log,
    dir: PathBuf,
}

/// A callback in which calls are made.
type Callback = (&'static str, fn(&Subject, Arc<Once>));

const CALLBACKS: &[Callback] = &[
    ("submit_then", |subject, once| {
        let (done, ended) = std::sync::mpsc::channel();
        let then = move |_| {
            once.call();
            let _ = done.send(());
        };
        subject
            .log
            .submit_then(b"then", Policy::Force, then)
            .unwrap();
        ended.recv().unwrap();
    }),
    ("drop of what submit_then was given", |subject, once| {
        let (done, ended) = std::sync::mpsc::channel::<()>();
        let dropped = (OnDrop(once), done);
        let then = move |_| drop(dropped);
        subject
            .log
            .submit_then(b"then", Policy::Force, then)
            .unwrap();
        let _ = ended.recv();
    }),
    ("progress of a backup", |subject, once| {
        let _ = subject.log.backup(
            subject.dir.join("backup"),
            BackupOptions::new().progress(|_, _| once.call()),
        );
    }),
    ("progress of a copy", |subject, once| {
        let require = logforce::Guarantee::ProcessCrash;
        let to = subject.dir.join("backup");
        let _ = logforce::backup(
            subject.log.path(),
            to,
            BackupOptions::new()
                .require(require)
                .progress(|_, _| once.call()),
        );
    }),
    ("visit of a walk", |subject, once| {
        let inspector = logforce::inspect::open(subject.log.path()).unwrap();
        let _ = inspector.walk(&mut |_| {
            once.call();
            true
        });
    }),
    ("waker of a commit", |subject, once| {
        let log = &subject.log;
        let handle = log.submit(b"awaited", POLICIES[2]).unwrap();
        // The record becomes durable when the interval is over, or with another commit.
        awaits(handle, &once, || drop(log.commit(b"another")));
    }),
    ("waker of a write", |subject, once| {
        let log = &subject.log;
        let handle = log.submit(b"awaited", POLICIES[1]).unwrap();
        awaits(handle, &once, || drop(log.commit(b"another")));
    }),
    ("waker of a force", |subject, once| {
        let log = &subject.log;
        let handle = log
            .append(b"awaited")
            .and_then(|_| log.submit(Batch::new(), Policy::Force));
        awaits(handle.unwrap(), &once, || drop(log.commit(b"another")));
    }),
    ("waker of a truncation's force", |subject, once| {
        let log = &subject.log;
        let handle = log.submit(b"awaited", POLICIES[2]).unwrap();
        awaits(handle, &once, || drop(log.truncate_front(log.tail_lsn())));
    }),
    ("waker of a follower", |subject, once| {
        let log = &subject.log;
        let mut follower = log.follow_lsn(log.durable_lsn()).unwrap();
        let next = follower.next();
        awaits(next, &once, || drop(log.commit(b"followed")));
    }),
    ("waker of space", |subject, once| {
        let log = &subject.log;
        let permit = loop {
            let mut all = pin!(log.reserve(40 << 10));
            let polled = all.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let std::task::Poll::Ready(permit) = polled {
                break permit.unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        awaits(log.reserve(40 << 10), &once, || drop(permit));
    }),
    ("waker of an end", |subject, once| {
        let log = &subject.log;
        let mut follower = log.follow_lsn(log.durable_lsn()).unwrap();
        awaits(follower.next(), &once, || drop(log.clone().close()));
    }),
    ("drop of a waker that is replaced", |subject, once| {
        let mut handle = pin!(subject.log.submit(b"awaited", POLICIES[2]).unwrap());
        let waker = Waker::from(Arc::new(OnDrop(once)));
        let _ = handle.as_mut().poll(&mut Context::from_waker(&waker));
        drop(waker);
        let _ = handle
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }),
    ("drop of a waker with its handle", |subject, once| {
        let mut handle = Box::pin(subject.log.submit(b"awaited", POLICIES[2]).unwrap());
        let waker = Waker::from(Arc::new(OnDrop(once)));
        let _ = handle.as_mut().poll(&mut Context::from_waker(&waker));
        drop(waker);
        drop(handle);
    }),
    ("bytes of a record", |subject, once| {
        struct Bytes(Arc<Once>);
        impl AsRef<[u8]> for Bytes {
            fn as_ref(&self) -> &[u8] {
                self.0.call();
                b"bytes"
            }
        }
        let _ = subject.log.commit(Bytes(once));
    }),
    ("items of a batch", |subject, once| {
        let items = ["one", "two"].iter().inspect(|_| once.call());
        let mut batch: Batch = items.collect();
        let _ = subject.log.commit(&mut batch);
    }),
];

/// Polls a future, and lets `wakes` wake it unless it is ready.
fn awaits<F: Future>(future: F, once: &Arc<Once>, wakes: impl FnOnce()) {
    let mut future = pin!(future);
    let waker = Waker::from(once.clone());
    if future
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_ready()
    {
        once.call();
    }
    wakes();
}

/// Settings: a log with private threads and durable writes, and a log with barriers in an environment with
/// one thread.
const SETTINGS: [(&str, bool, Method); 2] = [
    ("own threads", false, Method::Dsync),
    ("an environment", true, Method::Fdatasync),
];

fn with(shared: bool, method: Method) -> Options {
    let method = match Method::here().contains(&method) {
        true => method,
        false if cfg!(windows) => Method::FlushData,
        false => Method::Fsync,
    };
    let options = options()
        .segment_size(64 << 10)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .method(method)
        .tuning(Tuning::new().idle_stamp(Duration::from_millis(5)));
    match shared {
        false => options,
        true => {
            let one = EnvironmentOptions::new().threads(1);
            options.environment(&logforce::environment(&one).unwrap())
        }
    }
}

/// Checks the log after the callback: it works or is closed, and can be opened again.
fn ends_well(log: Log, options: Options) {
    let answers = [log.commit(b"afterwards").map(drop), log.clone().close()];
    for answer in answers {
        let kind = answer.map_err(|e| e.kind());
        assert!(matches!(kind, Ok(()) | Err(ErrorKind::Closed)), "{kind:?}");
    }
    let path = log.path().to_owned();
    drop(log);
    // Another thread may be closing it.
    let options = options.wait_for_lock(Duration::from_secs(20));
    let log = logforce::open_existing(path, options).unwrap();
    log.commit(b"opened again").unwrap();
    log.close().unwrap();
}

fn settings() -> impl Iterator<Item = (&'static str, Options)> {
    SETTINGS
        .map(|(name, shared, method)| (name, with(shared, method)))
        .into_iter()
}

/// Returns true if the call or the callback may close the log.
fn may_close(name: &str) -> bool {
    name.contains("close") || name.contains("closed within") || name.contains("an end")
}

#[test]
fn every_call_in_every_callback() {
    for (setting, options) in settings() {
        for (callback, trigger) in CALLBACKS {
            let home = Home::new();
            let mut open: Option<Log> = None;
            for (n, (call, make)) in CALLS.iter().enumerate() {
                let what = format!("{setting}: {call} in {callback}");
                let (dir, options) = (home.path().join(n.to_string()), options.clone());
                let log = open.take();
                open = within_limit(&what, move || {
                    std::fs::create_dir(&dir).unwrap();
                    let log = log.unwrap_or_else(|| {
                        logforce::create_new(dir.join("log"), options.clone()).unwrap()
                    });
                    for n in 0..3 {
                        log.commit(&record(n, 1000)).unwrap();
                    }
                    let (own, copies) = (log.clone(), dir.clone());
                    let once = Once::new(move || make(&own, &copies));
                    let subject = Subject { log, dir };
                    trigger(&subject, once.clone());
                    // The waker was not called, because the future was ready at once or needed no wake.
                    once.call();
                    drop(once);
                    if may_close(call) || may_close(callback) {
                        ends_well(subject.log, options);
                        return None;
                    }
                    subject.log.commit(b"afterwards").unwrap();
                    Some(subject.log)
                });
            }
        }
    }
}

/// Closing several logs of an environment in a callback of one of them does not wait for that callback.
#[test]
fn close_all_in_every_callback() {
    for method in [Method::Dsync, Method::Fdatasync] {
        for (callback, trigger) in CALLBACKS {
            let home = Home::new();
            let dir = home.path().to_owned();
            within_limit(&format!("{method:?}: close_all in {callback}"), move || {
                let one = EnvironmentOptions::new().threads(1);
                let environment = logforce::environment(&one).unwrap();
                let options = with(false, method).environment(&environment);
                let create = |name: String| {
                    let log = logforce::create_new(dir.join(name), options.clone()).unwrap();
                    log.commit(b"before").unwrap();
                    log
                };
                let others: Vec<Log> = (0..8).map(|n| create(format!("other {n}"))).collect();
                let log = create("log".to_owned());
                let once = Once::new(move || drop(environment.close_all()));
                let dir = dir.clone();
                let subject = Subject { log, dir };
                trigger(&subject, once.clone());
                once.call();
                drop(once);
                ends_well(subject.log, options);
                for log in others {
                    log.close().unwrap();
                }
            });
        }
    }
}

/// A call that waits is refused in a waker: the waking thread may be in the middle of the operation that the
/// call would wait for.
#[test]
fn a_waker_makes_no_call_that_waits() {
    let home = Home::new();
    let options = with(false, Method::Fdatasync);
    let log = logforce::create_new(home.path().join("log"), options).unwrap();
    let (own, answers) = (log.clone(), Arc::<Mutex<Vec<_>>>::default());
    let told = answers.clone();
    let backup = home.path().join("backup");
    let once = Once::new(move || {
        let mut told = told.lock().unwrap();
        told.push(own.commit(b"committed").map(drop));
        told.push(own.submit(b"submitted", Policy::Force).map(drop));
        told.push(own.truncate_front(own.durable_lsn()));
        told.push(own.backup(&backup, BackupOptions::new()).map(drop));
        told.push(own.clone().close());
        assert!(own.checkpoint_requests().next_blocking().is_none());
        let permit = own.try_reserve(100);
        assert!(
            permit
                .and_then(|p| p.submit(b"never waits", Policy::Force))
                .is_ok()
        );
    });
    let handle = log.submit(b"awaited", POLICIES[2]).unwrap();
    let mut handle = pin!(handle);
    let waker = Waker::from(once);
    while handle
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_pending()
    {
        log.commit(b"another").unwrap();
    }
    log.close().unwrap();
    for answer in answers.lock().unwrap().drain(..) {
        assert_error(answer, ErrorKind::InvalidInput, &["a waker must not"]);
    }
}

#[test]
fn the_table_is_complete() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src/log");
    let files = std::fs::read_dir(log).unwrap().map(|e| e.unwrap().path());
    let there = files
        .flat_map(|file| public_functions(&file, "Log"))
        .collect();
    let table = CALLS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !OTHERS.contains(name));
    assert_complete(table, there);
}
