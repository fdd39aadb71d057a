//! Every public call in every callback: no call waits for itself. The tests read the names of the calls from
//! the sources, so that a new call cannot be missing.

mod files;
mod logs;
mod page_files;

use crate::common::temp;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Runs one combination. Fails if it hangs.
#[track_caller]
fn within_limit<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        let _ = done.send(body());
    });
    // The limit is long, because a busy machine is slow and a deadlock never ends.
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: waits for itself"),
        Err(RecvTimeoutError::Disconnected) => panic!("{what}: panicked"),
    }
}

/// A directory in memory, if there is one: these tests make thousands of commits and do not need a disk.
struct Home(std::path::PathBuf);

impl Home {
    fn new() -> Home {
        let home = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| temp());
        Home(home.keep())
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A log whose last clone was in a callback closes in its own thread, and may still write files.
        let removed = || match std::fs::remove_dir_all(&self.0) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
            _ => true,
        };
        let is_gone = (0..6000).any(|_| removed());
        assert!(is_gone || std::thread::panicking(), "{}", self.0.display());
    }
}

/// A call that is made once, although its callback may be called again.
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
    /// True while the thread is in a call of a waker, which must not wait.
    static IS_WAKER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Wake for Once {
    fn wake(self: std::sync::Arc<Self>) {
        IS_WAKER.set(true);
        self.call();
        IS_WAKER.set(false);
    }
}

/// Guard that makes the call when it is dropped.
struct OnDrop(std::sync::Arc<Once>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.call();
    }
}

impl Wake for OnDrop {
    fn wake(self: std::sync::Arc<Self>) {}
}

/// Polls a future once; it may be pending.
fn poll<F: Future>(future: F) {
    let mut future = std::pin::pin!(future);
    let _ = future
        .as_mut()
        .poll(&mut std::task::Context::from_waker(Waker::noop()));
}

/// Waits for a future in this thread. In a call of a waker, polls it once instead.
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

/// Returns the public functions of a type in a source file, except those that return the type.
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

/// Checks that the table contains exactly these functions.
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
