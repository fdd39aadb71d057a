//! Calls of a durable file in the wakers that its thread calls.

use super::{Home, Once, assert_complete, public_functions, wait, within_limit};
use logforce::Guarantee;
use logforce::file::{ErrorKind, File, Prepare};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::time::Duration;

type Call = (&'static str, fn(&File));

/// All public calls of a file; their results do not matter.
const CALLS: &[Call] = &[
    ("write_at", |file| drop(file.write_at(b"x", 1))),
    ("writev_at", |file| drop(file.writev_at(&[b"x", b"y"], 1))),
    ("commit", |file| drop(file.commit())),
    ("write_commit", |file| drop(file.write_commit(b"x", 1))),
    ("writev_commit", |file| drop(file.writev_commit(&[b"x"], 1))),
    ("submit", |file| {
        let _ = file.submit(b"x", 1).map(|handle| handle.wait());
    }),
    ("commit_async", |file| {
        let _ = file.write_at(b"x", 1);
        wait(async { drop(file.commit_async().await) });
    }),
    ("commit_within", |file| {
        drop(file.commit_within(Duration::from_millis(1)))
    }),
    ("count_write", |file| file.count_write()),
    ("failure", |file| drop(file.failure())),
    ("overwrites_in_place", |file| _ = file.overwrites_in_place()),
    ("read_at", |file| drop(file.read_at(&mut [0; 9], 0))),
    ("read_medium_at", |file| {
        drop(file.read_medium_at(&mut [0; 9], 0))
    }),
    ("len", |file| drop(file.len())),
    ("is_empty", |file| drop(file.is_empty())),
    ("prepare", |file| {
        drop(file.prepare(0..9999, Prepare::Written))
    }),
    ("guarantee", |file| _ = file.guarantee()),
    ("verdict", |file| _ = file.verdict()),
    ("evidence", |file| _ = file.evidence().len()),
    ("method", |file| _ = file.method()),
    ("write_unit", |file| _ = file.write_unit()),
    ("path", |file| _ = file.path().exists()),
    ("stats", |file| _ = file.stats().commits_per_force()),
];

fn open(dir: &Path) -> File {
    let options = File::options().require(Guarantee::ProcessCrash);
    let options = options.calibrate(false).create(true).lock(true);
    // The thread that closed the file last time may hold the lock for a moment longer.
    loop {
        match options.clone().open(dir.join("f")) {
            Err(e) if e.kind() == ErrorKind::Locked => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn the_table_is_complete() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../commit/src/file/mod.rs");
    let names = CALLS.iter().map(|(name, _)| *name);
    // `close` takes the file, and has a separate test.
    assert_complete(names.chain(["close"]), public_functions(&source, "File"));
}

/// Makes the call with the file in the waker of a submission, which the file's thread calls.
fn in_a_waker(dir: &Path, call: impl Fn(Arc<File>) + Clone + Send + 'static) {
    let (said, heard) = channel();
    // The thread may be faster than the first poll, and then calls no waker.
    let mut is_pending = false;
    while !is_pending {
        let file = Arc::new(open(dir));
        let (call, said, own) = (call.clone(), said.clone(), file.clone());
        let waker = Waker::from(Once::new(move || {
            call(own);
            said.send(()).unwrap();
        }));
        file.write_at(b"y", 0).unwrap();
        let mut submitted = pin!(file.submit(b"z", 2).unwrap());
        drop(file);
        let mut context = Context::from_waker(&waker);
        is_pending = submitted.as_mut().poll(&mut context).is_pending();
        if is_pending {
            heard.recv().unwrap();
        }
    }
}

#[test]
fn no_call_in_a_waker_waits_for_itself() {
    let home = Home::new();
    for &(name, call) in CALLS {
        let dir = home.path().to_owned();
        within_limit(name, move || {
            for _ in 0..20 {
                in_a_waker(&dir, move |file| call(&file));
            }
        });
    }
}

#[test]
fn a_file_is_dropped_and_closed_in_a_waker() {
    let home = Home::new();
    let dir = home.path().to_owned();
    within_limit("drop and close", move || {
        for n in 0..60 {
            in_a_waker(&dir, move |file| match n % 2 {
                0 => drop(file),
                _ => drop(Arc::into_inner(file).map(File::close)),
            });
        }
    });
}

#[test]
fn what_waits_is_refused_in_a_waker() {
    let home = Home::new();
    let dir = home.path().to_owned();
    within_limit("refused", move || {
        in_a_waker(&dir, |file| {
            assert_eq!(file.commit().unwrap_err().kind(), ErrorKind::InvalidInput);
        });
    });
}
