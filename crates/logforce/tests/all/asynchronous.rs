//! Commits in tasks: on tokio, on smol, on a bare `block_on`; with handles that are polled, dropped,
//! forgotten.

use crate::common::*;
use logforce::{Batch, CommitHandle, Error, ErrorKind, Guarantee, Log, Policy, Tuning};
use smol::stream::Stream;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

fn open(options: logforce::Options) -> (TempDir, Log) {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options).unwrap();
    (dir, log)
}

/// Options with a small buffer, which a few records fill.
fn tight() -> logforce::Options {
    options().max_batch_size(8 << 10).buffer_size(8 << 10)
}

/// Runs a future in this thread: a minimal executor.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            // Fails after a minute. Otherwise a lost wake would hang the test.
            Poll::Pending => {
                let began = Instant::now();
                thread::park_timeout(LONG);
                assert!(began.elapsed() < LONG, "the future was not woken");
            }
        }
    }
}

/// A waker that counts its wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[track_caller]
fn until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs one of many tasks: submits and awaits in every mixture.
async fn task(log: Log, task: u64, rounds: u64) {
    for round in 0..rounds {
        let data = record(task * 1_000_000 + round, 10 + (task * 37 % 500) as usize);
        let done = match round % 4 {
            0 => log.submit(&data, Policy::Force).unwrap().await,
            1 => log.commit_async(data.clone()).await,
            2 => {
                let permit = log.reserve(data.len()).await.unwrap();
                permit.submit(&data, Policy::Force).unwrap().await
            }
            _ => {
                let permit = log.reserve(data.len() + 10).await.unwrap();
                let first = permit.submit(&data, Policy::Force).unwrap();
                let end = first.end();
                drop(first);
                log.submit(Batch::new(), Policy::Force)
                    .unwrap()
                    .await
                    .unwrap();
                assert!(log.durable_lsn() >= end);
                continue;
            }
        };
        let done = done.unwrap();
        assert!(log.durable_lsn() >= done.end);
        assert_eq!(log.read_at(done.start).unwrap().data, data);
    }
}

/// Checks that the log contains the records of all tasks, each task's in its order.
fn check(log: &Log, tasks: u64, rounds: u64) {
    let mut next = vec![0; tasks as usize];
    for data in read_all(log) {
        let n = u64::from_le_bytes(data[..8].try_into().unwrap());
        let (task, round) = ((n / 1_000_000) as usize, n % 1_000_000);
        assert_eq!(next[task], round, "task {task}");
        assert!(data == record(n, 10 + (task as u64 * 37 % 500) as usize));
        next[task] += 1;
    }
    assert!(next.iter().all(|n| *n == rounds), "{next:?}");
}

#[test]
fn thousands_of_tasks_on_tokio() {
    let many = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .build();
    let one = tokio::runtime::Builder::new_current_thread().build();
    for runtime in [many.unwrap(), one.unwrap()] {
        for options in [options(), tight()] {
            let (_dir, log) = open(options);
            runtime.block_on(async {
                let spawn = |n| tokio::spawn(task(log.clone(), n, 4));
                for joiner in (0..1000).map(spawn).collect::<Vec<_>>() {
                    joiner.await.unwrap();
                }
            });
            check(&log, 1000, 4);
        }
    }
}

#[test]
fn thousands_of_tasks_on_smol() {
    for options in [options(), tight()] {
        let (_dir, log) = open(options);
        smol::block_on(async {
            let spawn = |n| smol::spawn(task(log.clone(), n, 4));
            for joiner in (0..1000).map(spawn).collect::<Vec<_>>() {
                joiner.await;
            }
        });
        check(&log, 1000, 4);
    }
}

#[test]
fn threads_with_a_bare_block_on() {
    let (_dir, log) = open(tight());
    thread::scope(|s| {
        for n in 0..8 {
            let log = log.clone();
            s.spawn(move || block_on(task(log, n, 100)));
        }
    });
    check(&log, 8, 100);
}

/// A task that polls several futures at once is woken by the one that is ready first.
#[test]
fn cancelled_by_select() {
    let (_dir, log) = open(tight());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let data = vec![7; 3000];
    let mut submitted = 0;
    let mut cancelled = 0;
    runtime.block_on(async {
        for n in 0..2000u64 {
            let pause = tokio::time::sleep(Duration::from_micros(n % 300));
            tokio::select! {
                // Either this is cancelled before the record is accepted, or the record is accepted.
                permit = log.reserve(data.len()) => {
                    submitted += 1;
                    let handle = permit.unwrap().submit(&data, Policy::Force).unwrap();
                    tokio::select! {
                        done = handle => drop(done.unwrap()),
                        () = tokio::time::sleep(Duration::from_micros(n % 70)) => cancelled += 1,
                    }
                }
                () = pause => cancelled += 1,
            }
        }
    });
    log.force(log.tail_lsn()).unwrap();
    assert_eq!(read_all(&log).len(), submitted, "{cancelled} cancelled");
    assert!(submitted > 0);
}

#[test]
fn nothing_is_polled_and_it_becomes_durable_all_the_same() {
    let (_dir, log) = open(options());
    let within = Duration::from_millis(5);
    let policies = [
        Policy::Force,
        Policy::Write {
            force_within: within,
        },
        Policy::Interval { within },
    ];
    for policy in policies {
        let kept = log.submit(b"kept", policy).unwrap();
        let end = log.submit(b"dropped", policy).unwrap().end();
        until("not durable", || log.durable_lsn() >= end);
        until("not done", || kept.is_done());
        let done = kept.try_result().unwrap().unwrap();
        assert_eq!(done.guarantee, log.guarantee());
        // Awaits the handle much later and in another place.
        assert_eq!(block_on(kept).unwrap(), done);
    }
    // A reservation that is never polled reserves nothing.
    let before = log.tail_lsn();
    drop(log.reserve(5));
    drop(log.commit_async(b"never"));
    assert_eq!(log.tail_lsn(), before);
    let forced = log.append(b"appended").unwrap();
    drop(log.submit(Batch::new(), Policy::Force).unwrap());
    until("not forced", || log.durable_lsn() >= forced.end);
}

#[test]
fn a_replaced_waker_is_the_one_that_is_woken() {
    let (_dir, log) = open(options());
    let (old, new): (Arc<Count>, Arc<Count>) = Default::default();
    let mut pending = 0;
    for _ in 0..20 {
        log.append(b"later").unwrap();
        // The handle waits for the force of another commit.
        let mut forcing = log.submit(Batch::new(), Policy::Force).unwrap();
        let first = poll(&mut forcing, &old.clone().into());
        let (before, early) = (new.0.load(SeqCst), old.0.load(SeqCst));
        if first.is_ready() || poll(&mut forcing, &new.clone().into()).is_ready() {
            continue;
        }
        pending += 1;
        until("not woken", || new.0.load(SeqCst) > before);
        assert!(poll(&mut forcing, Waker::noop()).is_ready());
        assert!(old.0.load(SeqCst) <= early + 1);
    }
    println!("{pending} of 20 had to wait");
}

/// Handles are dropped before the first poll, after `Pending`, and when ready. None leaves a waker behind,
/// and all records are in the log.
#[test]
fn handles_dropped_in_every_state() {
    let (_dir, log) = open(options());
    let count: Arc<Count> = Arc::default();
    let waker: Waker = count.clone().into();
    let mut expected = 0;
    for n in 0..300 {
        let mut handle = log.submit(&record(n, 100), Policy::Force).unwrap();
        expected += 1;
        match n % 4 {
            0 => drop(handle),
            1 => drop(poll(&mut handle, &waker)),
            2 => {
                let _ = poll(&mut handle, &waker);
                until("not done", || handle.is_done());
                drop(handle);
            }
            _ => {
                let _ = poll(&mut handle, &waker);
                assert!(block_on(handle).is_ok());
            }
        }
    }
    log.force(log.tail_lsn()).unwrap();
    // A dropped future is not woken any more.
    let woken = count.0.load(SeqCst);
    assert!(woken <= expected, "{woken} wakes");
    log.commit(b"one more").unwrap();
    assert_eq!(count.0.load(SeqCst), woken);
    assert_holds_prefix(&log, expected as u64);
}

#[track_caller]
fn assert_holds_prefix(log: &Log, to: u64) {
    let found = read_all(log);
    for (n, data) in (0..to).zip(&found) {
        assert!(*data == record(n, 100), "record {n}");
    }
}

#[test]
fn no_room_now() {
    let (_dir, log) = open(tight());
    let data = vec![1; 1000];
    let mut accepted = 0;
    let refused = loop {
        match log
            .try_reserve(data.len())
            .and_then(|permit| permit.submit(&data, Policy::Force))
        {
            Ok(_) => accepted += 1,
            Err(e) => break e,
        }
        assert!(accepted < 1_000_000, "the log buffer has no end");
    };
    assert_eq!(refused.kind(), ErrorKind::WouldBlock, "{refused}");
    // The log has taken nothing of the refused record.
    log.force(log.tail_lsn()).unwrap();
    assert_eq!(read_all(&log).len(), accepted);
    // Under back-pressure every task makes progress; the records are complete and in order.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let task = |n: u64| {
            let log = log.clone();
            tokio::spawn(async move {
                for i in 0..20 {
                    let data = record(n * 100 + i, 5000);
                    let permit = log.reserve(data.len()).await.unwrap();
                    drop(permit.submit(data, Policy::Force).unwrap());
                }
            })
        };
        for joiner in (0..50).map(task).collect::<Vec<_>>() {
            joiner.await.unwrap();
        }
    });
    log.force(log.tail_lsn()).unwrap();
    assert_eq!(read_all(&log).len(), accepted + 1000);
}

#[test]
fn the_log_is_closed_with_handles_outstanding() {
    for how in ["closed", "dropped"] {
        let (dir, log) = open(options());
        log.append(b"staged").unwrap();
        let forcing = log.submit(Batch::new(), Policy::Force).unwrap();
        let handles: Vec<CommitHandle> = (0..100)
            .map(|n| log.submit(&record(n, 50), Policy::Force).unwrap())
            .collect();
        let reserving = log.reserve(8);
        let permit = block_on(log.reserve(8)).unwrap();
        let mut follower = log.follow_lsn(log.front_lsn()).unwrap();
        match how {
            "closed" => log.close().unwrap(),
            _ => drop(log),
        }
        // Accepted records are durable, and their handles report it although the log is closed.
        assert!(block_on(forcing).is_ok());
        for handle in handles {
            let done = handle.try_result().expect("closing waits for it").unwrap();
            assert!(done.guarantee >= Guarantee::ProcessCrash);
            assert_eq!(block_on(handle).unwrap(), done);
        }
        assert_error(block_on(reserving), ErrorKind::Closed, &[]);
        assert_error(
            permit.submit(b"too late", Policy::Force),
            ErrorKind::Closed,
            &[],
        );
        let mut followed = 0;
        while let Some(found) = block_on(follower.next()) {
            found.unwrap();
            followed += 1;
        }
        assert_eq!(followed, 101);
        assert!(block_on(follower.next()).is_none(), "{how}");
        let log = logforce::open_existing(dir.path(), options()).unwrap();
        assert_eq!(read_all(&log).len(), 101);
    }
}

#[test]
fn a_handle_is_polled_after_it_was_completed_elsewhere() {
    let (_dir, log) = open(options());
    let count: Arc<Count> = Arc::default();
    for n in 0..50 {
        let mut handle = log.submit(&record(n, 10), Policy::Force).unwrap();
        let _ = poll(&mut handle, &count.clone().into());
        // The force of another commit makes it durable.
        log.commit(b"another").unwrap();
        let Poll::Ready(done) = poll(&mut handle, Waker::noop()) else {
            panic!("its successor is durable");
        };
        assert!(done.unwrap().end <= log.durable_lsn());
        // A second poll after completion works, although the trait does not require it.
        assert!(poll(&mut handle, Waker::noop()).is_ready());
    }
}

/// A permit keeps its space while others wait. Using it (also in part) or dropping it returns the space.
#[test]
fn permits_hold_space() {
    // Disables idle stamps, because they move the end of the log, too.
    let (_dir, log) = open(tight().tuning(Tuning::new().idle_stamp(LONG)));
    let data = record(0, 1000);
    let before = log.tail_lsn();
    let mut permits = Vec::new();
    let mut waiting = loop {
        let mut next = log.reserve(data.len());
        match poll(&mut next, Waker::noop()) {
            Poll::Ready(permit) => permits.push(permit.unwrap()),
            Poll::Pending => break next,
        }
        assert!(permits.len() < 1_000_000, "the log buffer has no end");
    };
    assert!(permits.len() > 5, "{}", permits.len());
    assert_eq!(log.tail_lsn(), before, "nothing is appended by that");
    // No other call gets the reserved space.
    assert_error(
        log.try_reserve(data.len())
            .and_then(|permit| permit.submit(&data, Policy::Force)),
        ErrorKind::WouldBlock,
        &[],
    );
    assert!(poll(&mut waiting, Waker::noop()).is_pending());
    // Dropping a permit wakes a thread that waits.
    thread::scope(|scope| {
        let appending = scope.spawn(|| log.append(&data).unwrap());
        thread::sleep(Duration::from_millis(20));
        assert!(!appending.is_finished());
        permits.pop();
        permits.pop();
        appending.join().unwrap();
    });
    let mut appended = 1;
    // Submits with all permits: in the order of the calls, without waiting.
    let handles: Vec<_> = permits
        .into_iter()
        .map(|permit| permit.submit(&data, Policy::Force).unwrap())
        .collect();
    appended += handles.len();
    assert!(handles.is_sorted_by_key(CommitHandle::start));
    for handle in handles {
        handle.wait().unwrap();
    }
    let Poll::Ready(permit) = poll(&mut waiting, Waker::noop()) else {
        panic!("there is space again");
    };
    // A batch may be smaller than the reservation. A larger one appends nothing.
    let mut batch = Batch::of(&[b"a", b"b"]);
    permit
        .unwrap()
        .submit(&mut batch, Policy::Force)
        .unwrap()
        .wait()
        .unwrap();
    appended += batch.ranges().len();
    let permit = block_on(log.reserve(batch.reserved_bytes())).unwrap();
    let tail = log.tail_lsn();
    let longer = record(0, 60);
    assert_error(
        permit.submit(longer, Policy::Force),
        ErrorKind::InvalidInput,
        &[],
    );
    assert_eq!(log.tail_lsn(), tail);
    // A reservation larger than the buffer succeeds when the buffer is empty and no permit is held.
    let large = record(1, 300_000);
    let held = block_on(log.reserve(10)).unwrap();
    let mut reserving = log.reserve(large.len());
    assert!(poll(&mut reserving, Waker::noop()).is_pending());
    drop(held);
    let permit = block_on(reserving).unwrap();
    permit
        .submit(&large, Policy::Force)
        .unwrap()
        .wait()
        .unwrap();
    appended += 1;
    assert_error(
        block_on(log.reserve(Log::MAX_RECORD_LEN + 1)),
        ErrorKind::InvalidInput,
        &[],
    );
    assert_eq!(read_all(&log).len(), appended);
}

/// Polling a completed reservation again panics, because it must not reserve once more.
#[test]
fn a_reservation_polled_after_completion_panics() {
    let (_dir, log) = open(options());
    let mut reserving = log.reserve(10);
    assert!(poll(&mut reserving, Waker::noop()).is_ready());
    let again = catch_unwind(AssertUnwindSafe(|| {
        poll(&mut reserving, Waker::noop()).is_ready()
    }));
    let panic = again.expect_err("another poll panics, as std's futures do");
    let text = panic.downcast_ref::<&str>().expect("a message");
    assert!(text.contains("polled after completion"), "{text}");
    let mut refused = log.reserve(10);
    log.close().unwrap();
    let Poll::Ready(Err(e)) = poll(&mut refused, Waker::noop()) else {
        panic!("the log is closed");
    };
    assert_eq!(e.kind(), ErrorKind::Closed);
}

#[test]
fn other_futures_polled_after_completion_answer_again() {
    let (_dir, log) = open(options());
    let handle = log.submit(b"one", Policy::Force).unwrap();
    let mut forcing = log.submit(Batch::new(), Policy::Force).unwrap();
    until("not done", || handle.is_done());
    for _ in 0..3 {
        assert!(poll(&mut forcing, Waker::noop()).is_ready());
    }
    let mut follower = log.follow_lsn(log.front_lsn()).unwrap();
    {
        // For an `async fn` the compiler generates the panic.
        let mut next = Box::pin(follower.next());
        assert!(poll(&mut next, Waker::noop()).is_ready());
        let again = catch_unwind(AssertUnwindSafe(|| {
            poll(&mut next, Waker::noop()).is_ready()
        }));
        assert!(again.is_err());
    }
    log.close().unwrap();
    for _ in 0..3 {
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(
            Pin::new(&mut follower).poll_next(&mut context),
            Poll::Ready(None)
        ));
    }
}

#[test]
fn a_follower_is_awaited() {
    let (_dir, log) = open(options());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build();
    runtime.unwrap().block_on(async {
        let mut follower = log.follow_lsn(log.front_lsn()).unwrap();
        let follow = tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(found) = follower.next().await {
                seen.push(found.unwrap().data);
            }
            seen
        });
        // A follower whose future is cancelled repeatedly misses no record.
        let mut follower = log.follow_lsn(log.front_lsn()).unwrap();
        let mut seen = 0;
        for n in 0..500 {
            let permit = log.reserve(100).await.unwrap();
            let handle = permit.submit(record(n, 100), Policy::Force).unwrap();
            tokio::select! {
                biased;
                found = follower.next() => {
                    assert!(found.unwrap().unwrap().data == record(seen, 100));
                    seen += 1;
                }
                done = handle => drop(done.unwrap()),
            }
        }
        log.close().unwrap();
        while let Some(found) = follower.next().await {
            assert!(found.unwrap().data == record(seen, 100));
            seen += 1;
        }
        assert_eq!(seen, 500);
        let all: Vec<_> = (0..500).map(|n| record(n, 100)).collect();
        assert!(follow.await.unwrap() == all);
    });
}

#[test]
fn callbacks_are_called_once_in_order_and_a_panic_is_its_own() {
    let (_dir, log) = open(options());
    let called: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut last = None;
    for n in 0..1000 {
        let (called, watched) = (called.clone(), log.clone());
        let at = log.submit_then(&record(n, 40), Policy::Force, move |done| {
            let done = done.unwrap();
            assert!(watched.durable_lsn() >= done.end);
            called.lock().unwrap().push(n);
            assert_ne!(n, 500, "this one panics, as it is meant to");
        });
        last = Some(at.unwrap());
    }
    until("not all were called", || {
        called.lock().unwrap().len() == 1000
    });
    assert_eq!(*called.lock().unwrap(), (0..1000).collect::<Vec<_>>());
    assert!(log.durable_lsn() >= last.unwrap().end);
    // The log still works.
    log.commit(b"more").unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    log.submit_then(b"and another", Policy::Force, move |done| {
        sender.send(done.is_ok()).unwrap()
    })
    .unwrap();
    assert!(receiver.recv_timeout(LONG).unwrap());
    // Closing the log calls all outstanding callbacks.
    let (sender, receiver) = std::sync::mpsc::channel::<Result<(), Error>>();
    for _ in 0..100 {
        let sender = sender.clone();
        log.submit_then(b"last", Policy::Force, move |done| {
            sender.send(done.map(drop)).unwrap()
        })
        .unwrap();
    }
    drop(sender);
    // The callbacks and their clones are dropped, so this is the last clone.
    log.close().unwrap();
    let results: Vec<_> = receiver.iter().collect();
    assert_eq!(results.len(), 100);
    assert!(results.iter().all(|r| r.is_ok()));
}

/// Blocking calls run in another thread, so a runtime with one thread continues.
#[test]
fn calls_that_block_are_awaited() {
    let dir = temp();
    let path = dir.path().join("log");
    smol::block_on(async {
        let log = options().create_new(true).open_async(&path).await.unwrap();
        let again = options().create_new(true).open_async(&path).await;
        assert_error(again, ErrorKind::AlreadyExists, &[]);
        for n in 0..10 {
            log.commit_async(record(n, 100)).await.unwrap();
        }
        let mut batch = Batch::of(&[b"a", b"b"]);
        log.commit_async(&mut batch).await.unwrap();
        assert_eq!(batch.ranges().len(), 2);
        log.blocking(|log| log.set_meta(b"a vote")).await.unwrap();
        assert_eq!(log.meta().unwrap(), b"a vote");
        let from = batch.ranges()[0].start;
        log.blocking(move |log| log.truncate_back(from))
            .await
            .unwrap();
        let front = log
            .read_from(log.front_lsn())
            .unwrap()
            .nth(3)
            .unwrap()
            .unwrap()
            .start;
        log.blocking(move |log| log.truncate_front(front))
            .await
            .unwrap();
        assert_eq!(read_all(&log).len(), 7);
        let within = front.plus(8);
        log.blocking(move |log| log.truncate_front(within))
            .await
            .unwrap();
        assert_eq!(log.front_lsn(), front);
        let refused = log.blocking(move |log| log.read_at(within)).await;
        assert_error(refused, ErrorKind::InvalidInput, &[&*within.to_string()]);
        // A call that is dropped after its first poll is still executed.
        let mut setting = Box::pin(log.blocking(|log| log.set_meta(b"another")));
        assert!(poll(&mut setting, Waker::noop()).is_pending());
        drop(setting);
        until("not set", || log.meta().unwrap() == b"another");
        let other = log.clone();
        log.blocking(|log| log.close()).await.unwrap();
        assert_error(other.commit(b"x"), ErrorKind::Closed, &[]);
        let found = options().open_async(&path).await;
        assert_eq!(read_all(&found.unwrap()).len(), 7);
    });
}
