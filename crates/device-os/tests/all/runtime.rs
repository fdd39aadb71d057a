//! Threads, waiting, time.

use logforce_device::System;
use logforce_device_os::{OsSystem, machine};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn time_goes_on_and_is_the_same_for_all() {
    let (a, b) = (OsSystem::new().runtime(), OsSystem::new().runtime());
    let first = a.now();
    std::thread::sleep(Duration::from_millis(5));
    let second = b.now();
    assert!(second >= first + Duration::from_millis(5));
    assert!(a.now() >= second);
}

#[test]
fn threads_have_names_and_are_joined() {
    let runtime = OsSystem::new().runtime();
    let (send, receive) = std::sync::mpsc::channel();
    let body = move || {
        send.send(std::thread::current().name().map(str::to_owned))
            .unwrap()
    };
    runtime
        .spawn("logforce-writer", Box::new(body))
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(receive.recv().unwrap().as_deref(), Some("logforce-writer"));
    assert!(
        runtime
            .spawn("bad\0name", Box::new(|| {}))
            .unwrap()
            .join()
            .is_ok()
    );
    let failing = runtime
        .spawn("panics", Box::new(|| panic!("on purpose")))
        .unwrap();
    assert!(failing.join().is_err());
}

#[test]
fn waiting_ends_by_a_change_a_wake_or_the_time() {
    let runtime = OsSystem::new().runtime();
    let word = Arc::new(AtomicU32::new(1));
    // It has changed already.
    runtime.wait(&word, 0, None);
    // The time is up.
    let before = runtime.now();
    runtime.wait(&word, 1, Some(Duration::from_millis(20)));
    assert!(runtime.now() - before < Duration::from_secs(10));
    runtime.wait(&word, 0, Some(Duration::MAX));

    // One thread is woken, then all.
    let woken = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (runtime2, word, woken) =
                (Arc::clone(&runtime), Arc::clone(&word), Arc::clone(&woken));
            let body = move || {
                while word.load(Ordering::Acquire) == 1 {
                    runtime2.wait(&word, 1, None);
                }
                woken.fetch_add(1, Ordering::Relaxed);
            };
            runtime.spawn("waits", Box::new(body)).unwrap()
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    word.store(2, Ordering::Release);
    runtime.wake_one(&word);
    runtime.wake_all(&word);
    for t in threads {
        t.join().unwrap();
    }
    assert_eq!(woken.load(Ordering::Relaxed), 8);
}

#[test]
fn random_bits_differ() {
    let runtime = OsSystem::new().runtime();
    let mut seen: Vec<u64> = (0..1000).map(|_| runtime.random()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 1000);
}

#[test]
fn the_machine_has_a_name() {
    let m = machine();
    assert!(m.system.starts_with(logforce_device::Platform::HERE.name()));
    assert!(
        !m.kernel.is_empty() && !m.architecture.is_empty() && m.cpus > 0,
        "{m:?}"
    );
}
