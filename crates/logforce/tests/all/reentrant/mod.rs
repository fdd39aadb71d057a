//! Each public call, made in each callback: none waits for itself. The calls are read from the sources,
//! so that a new one is among them.

mod logs;
mod page_files;

use crate::common::temp;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Runs one combination; one that hangs fails.
#[track_caller]
fn within_limit<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        let _ = done.send(body());
    });
    // A deadlock has all the time there is; a busy machine has its own time.
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: waits for itself"),
        Err(RecvTimeoutError::Disconnected) => panic!("{what}: panicked"),
    }
}

/// A directory in memory, if there is one: nothing here is about the disk, and thousands of commits are.
fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| temp())
}

/// A call that is made once, whoever makes it: a callback may come again.
struct Once(std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Once {
    fn new(call: impl FnOnce() + Send + 'static) -> std::sync::Arc<Once> {
        std::sync::Arc::new(Once(std::sync::Mutex::new(Some(Box::new(call)))))
    }

    fn call(&self) {
        let call = self.0.lock().unwrap().take();
        if let Some(call) = call {
            call();
        }
    }
}

thread_local! {
    /// The thread is in a call of a waker, which may wait for nothing.
    static IS_WAKER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Wake for Once {
    fn wake(self: std::sync::Arc<Self>) {
        IS_WAKER.set(true);
        self.call();
        IS_WAKER.set(false);
    }
}

/// Calls when it is dropped.
struct OnDrop(std::sync::Arc<Once>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.call();
    }
}

impl Wake for OnDrop {
    fn wake(self: std::sync::Arc<Self>) {}
}

/// Polls once: the future may be pending.
fn poll<F: Future>(future: F) {
    let mut future = std::pin::pin!(future);
    let _ = future
        .as_mut()
        .poll(&mut std::task::Context::from_waker(Waker::noop()));
}

/// Waits for a future in this thread; polls it once in a call of a waker.
fn wait<F: Future>(future: F) {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    if IS_WAKER.get() {
        return poll(future);
    }
    let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    while future.as_mut().poll(&mut context).is_pending() {
        std::thread::park();
    }
}

/// The public functions of a type that a file implements, but those that return it.
fn public_functions(source: &Path, of: &str) -> Vec<String> {
    let text = std::fs::read_to_string(source).unwrap();
    let mut found = Vec::new();
    let mut is_inside = false;
    let mut is_hidden = false;
    for line in text.lines() {
        if line.starts_with("impl") {
            is_inside = line == format!("impl {of} {{");
        }
        is_hidden |= line.contains("#[doc(hidden)]");
        let Some(rest) = line.strip_prefix("    pub ") else {
            continue;
        };
        let rest = rest.strip_prefix("async ").unwrap_or(rest);
        if let Some(rest) = rest.strip_prefix("fn ")
            && is_inside
            && !std::mem::take(&mut is_hidden)
        {
            let name = rest.split(['(', '<']).next().unwrap();
            found.push(name.to_owned());
        }
    }
    found
}

/// That the table has all of them, and none else.
#[track_caller]
fn assert_complete<'a>(table: impl Iterator<Item = &'a str>, mut there: Vec<String>) {
    // A row's name is the function, or that and a variant of the call: "backup, closed within".
    let function = |name: &'a str| name.split(", ").next().unwrap_or(name).to_owned();
    let mut table: Vec<String> = table.map(function).collect();
    table.sort();
    table.dedup();
    there.sort();
    there.dedup();
    assert_eq!(table, there);
}
