//! Calls of a page file in the callbacks of a page file.

use super::{Home, OnDrop, Once, assert_complete, public_functions, wait, within_limit};
use crate::common::*;
use logforce::pages::{self, CommitMode, ErrorKind, Options, PageFile, Transaction};
use logforce::replica::ReplicaOptions;
use logforce::{BackupOptions, Guarantee, Policy};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

type Call = (&'static str, fn(&PageFile, &Path));

/// Writes to a page in a transaction, then passes the transaction to `then`.
fn write(file: &PageFile, page: u64, then: impl FnOnce(Transaction)) {
    if let Ok(mut transaction) = file.begin() {
        transaction.page_mut(page).unwrap()[0] ^= 1;
        then(transaction);
    }
}

/// All public calls of a page file; their results do not matter. The path is a directory for copies.
const CALLS: &[Call] = &[
    ("begin", |file, _| drop(file.begin())),
    ("transact", |file, _| {
        let _ = file.transact(|transaction| {
            transaction.page_mut(1)?[0] ^= 1;
            Ok(())
        });
    }),
    ("snapshot", |file, _| drop(file.snapshot())),
    ("latest", |file, _| drop(file.latest())),
    ("page_size", |file, _| _ = file.page_size()),
    ("mode", |file, _| _ = file.mode()),
    ("has_checksums", |file, _| _ = file.has_checksums()),
    ("path", |file, _| _ = file.path().exists()),
    ("guarantee", |file, _| _ = file.guarantee()),
    ("checkpoint", |file, _| drop(file.checkpoint())),
    ("replicate", |file, _| {
        if let Ok(mut replica) = file.replicate(ReplicaOptions::new()) {
            let _ = replica.read(1 << 20);
            let _ = replica.confirm(replica.position());
        }
    }),
    ("stats", |file, _| _ = file.stats()),
    ("close", |file, _| drop(file.clone().close())),
    ("commit", |file, _| write(file, 1, |t| drop(t.commit()))),
    ("commit_with", |file, _| {
        for policy in POLICIES {
            write(file, 1, |t| drop(t.commit_with(policy)));
        }
    }),
    ("submit", |file, _| {
        write(file, 1, |t| drop(t.submit().map(|handle| handle.wait())));
    }),
    ("submit_with", |file, _| {
        for policy in POLICIES {
            write(file, 1, |t| _ = t.submit_with(policy).map(wait));
        }
    }),
    ("read", |file, _| {
        let mut page = vec![0; file.page_size() as usize];
        write(file, 1, |t| _ = t.read(2, &mut page));
        let _ = file.latest().map(|latest| latest.read(3, &mut page));
    }),
    ("page", |file, _| {
        write(file, 1, |t| drop(t.page(2)));
        let _ = file.latest().map(|latest| latest.page(3));
    }),
    ("write", |file, _| {
        let page = vec![7; file.page_size() as usize];
        write(file, 1, |mut t| {
            t.write(2, &page).unwrap();
            let _ = t.commit();
        });
    }),
    ("page_mut", |file, _| write(file, 1, |t| drop(t.submit()))),
    ("discard", |file, _| {
        write(file, 1, |mut t| {
            let _ = t.discard(2);
            let _ = t.commit();
        });
    }),
    ("set_page_count", |file, _| {
        write(file, 1, |mut t| {
            let _ = t.set_page_count(10);
            let _ = t.commit();
        });
    }),
    ("page_count", |file, _| {
        write(file, 1, |t| _ = t.page_count())
    }),
    ("backup", |file, copies| {
        let to = copies.join("called");
        let _ = file
            .latest()
            .map(|of| of.backup(to, BackupOptions::new().require(Guarantee::ProcessCrash)));
    }),
    ("backup, closed within", |file, copies| {
        let to = copies.join("called");
        let _ = file.latest().map(|of| {
            of.backup(
                to,
                BackupOptions::new()
                    .require(Guarantee::ProcessCrash)
                    .progress(|_, _| {
                        let _ = file.clone().close();
                    }),
            )
        });
    }),
    // Makes many commits, which cause a checkpoint and growth.
    ("many", |file, _| {
        (0..200).for_each(|n| write(file, n, |t| _ = t.commit_with(POLICIES[1])));
    }),
    ("open", |file, _| {
        let again = pages::open_existing(file.path(), Options::new());
        let kind = again.map(drop).map_err(|e| e.kind());
        // The opening succeeds only if a call has closed the file. It may require more than this machine
        // offers.
        let is_refused = matches!(kind, Err(ErrorKind::Locked | ErrorKind::Unsuitable));
        assert!(is_refused || kind.is_ok(), "{kind:?}");
    }),
    ("drop", |file, _| drop(file.clone())),
];

/// Names in `CALLS` that `the_table_is_complete` does not compare with public functions.
const OTHERS: [&str; 3] = ["many", "open", "drop"];

const POLICIES: [Policy; 3] = [
    Policy::Force,
    Policy::Write {
        force_within: Duration::from_millis(3),
    },
    Policy::Interval {
        within: Duration::from_millis(3),
    },
];

struct Subject {
    file: PageFile,
    dir: PathBuf,
}

impl Subject {
    fn awaits(&self, policy: Policy, once: &Arc<Once>, wakes: impl FnOnce(&PageFile)) {
        write(&self.file, 5, |transaction| {
            let mut handle = pin!(transaction.submit_with(policy).unwrap());
            let waker = Waker::from(once.clone());
            if handle
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
            {
                once.call();
            }
            wakes(&self.file);
        });
    }
}

/// A callback in which calls are made.
type Callback = (&'static str, fn(&Subject, Arc<Once>));

const CALLBACKS: &[Callback] = &[
    ("progress of a backup", |subject, once| {
        let snapshot = subject.file.snapshot().unwrap();
        let to = subject.dir.join("backup");
        let _ = snapshot.backup(
            to,
            BackupOptions::new()
                .require(Guarantee::ProcessCrash)
                .progress(|_, _| once.call()),
        );
    }),
    ("change of a transaction", |subject, once| {
        let _ = subject.file.transact(|transaction| {
            transaction.page_mut(5)?[0] ^= 1;
            once.call();
            Ok(())
        });
    }),
    ("visit of a walk", |subject, once| {
        let inspector = pages::inspect::open(subject.file.path()).unwrap();
        let _ = inspector.walk(&mut |_| {
            once.call();
            true
        });
    }),
    ("waker of a commit", |subject, once| {
        subject.awaits(POLICIES[0], &once, |file| {
            write(file, 6, |t| drop(t.commit()));
        });
    }),
    ("waker of a write", |subject, once| {
        subject.awaits(POLICIES[1], &once, |file| {
            write(file, 6, |t| drop(t.commit()));
        });
    }),
    ("waker of a checkpoint's force", |subject, once| {
        subject.awaits(POLICIES[0], &once, |file| drop(file.checkpoint()));
    }),
    ("waker that the background calls", |subject, once| {
        subject.awaits(POLICIES[0], &once, |_| {
            std::thread::sleep(Duration::from_millis(3));
        });
    }),
    ("waker of an end", |subject, once| {
        subject.awaits(POLICIES[0], &once, |file| drop(file.clone().close()));
    }),
    ("drop of a waker that is replaced", |subject, once| {
        write(&subject.file, 5, |transaction| {
            let mut handle = pin!(transaction.submit().unwrap());
            let waker = Waker::from(Arc::new(OnDrop(once)));
            let _ = handle.as_mut().poll(&mut Context::from_waker(&waker));
            drop(waker);
            let _ = handle
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
        });
    }),
    ("drop of a waker with its handle", |subject, once| {
        write(&subject.file, 5, |transaction| {
            let mut handle = Box::pin(transaction.submit().unwrap());
            let waker = Waker::from(Arc::new(OnDrop(once)));
            let _ = handle.as_mut().poll(&mut Context::from_waker(&waker));
            drop(waker);
            drop(handle);
        });
    }),
];

const MODES: [CommitMode; 2] = [CommitMode::Logged, CommitMode::CopyOnWrite];

/// Options with a small cache and checkpoint distance, so that checkpoints happen.
fn with(mode: CommitMode, log: logforce::Options) -> Options {
    Options::new()
        .mode(mode)
        .page_size(512)
        .require(Guarantee::ProcessCrash)
        .cache_size(64 << 10)
        .checkpoint_distance(32 << 10)
        .writers(2)
        .log(log)
}

/// Checks the file after the callback: it works or is closed, and can be opened again.
fn ends_well(file: PageFile, options: Options) {
    let commit = || {
        let mut transaction = file.begin()?;
        transaction.page_mut(9)?[0] ^= 1;
        transaction.commit().map(drop)
    };
    for answer in [commit(), file.clone().close()] {
        let kind = answer.map_err(|e| e.kind());
        assert!(matches!(kind, Ok(()) | Err(ErrorKind::Closed)), "{kind:?}");
    }
    let path = file.path().to_owned();
    drop(file);
    let file = pages::open_existing(path, options).unwrap();
    write(&file, 1, |t| _ = t.commit().unwrap());
    file.close().unwrap();
}

/// Options that wait for the lock, because another thread may be closing the file when it is opened again.
fn log_options() -> logforce::Options {
    let options = options().segment_size(64 << 10).max_batch_size(16 << 10);
    options
        .buffer_size(64 << 10)
        .wait_for_lock(Duration::from_secs(20))
}

/// Returns true if the call or the callback may close the file.
fn may_close(name: &str) -> bool {
    name == "close" || name.contains("closed within") || name.contains("an end")
}

#[test]
fn every_call_in_every_callback() {
    for mode in MODES {
        for (callback, trigger) in CALLBACKS {
            let home = Home::new();
            let mut open: Option<PageFile> = None;
            for (n, (call, make)) in CALLS.iter().enumerate() {
                let what = format!("{mode:?}: {call} in {callback}");
                let dir = home.path().join(n.to_string());
                let file = open.take();
                open = within_limit(&what, move || {
                    std::fs::create_dir(&dir).unwrap();
                    let options = with(mode, log_options());
                    let file = file.unwrap_or_else(|| {
                        pages::create_new(dir.join("file"), options.clone()).unwrap()
                    });
                    (0..20).for_each(|n| {
                        write(&file, n, |t| _ = t.commit_with(POLICIES[1]).unwrap());
                    });
                    let (own, copies) = (file.clone(), dir.clone());
                    let once = Once::new(move || make(&own, &copies));
                    let subject = Subject { file, dir };
                    trigger(&subject, once.clone());
                    once.call();
                    drop(once);
                    if may_close(call) || may_close(callback) {
                        ends_well(subject.file, options);
                        return None;
                    }
                    write(&subject.file, 9, |t| _ = t.commit().unwrap());
                    Some(subject.file)
                });
            }
        }
    }
}

#[test]
fn the_table_is_complete() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pages/src");
    let of = |file: &str, of: &str| public_functions(&pages.join(file), of);
    let mut there = of("page_file.rs", "PageFile");
    there.extend(of("transaction.rs", "Transaction"));
    there.extend(of("snapshot.rs", "Snapshot"));
    // Leaves out `open`, which this crate implements, and `commit`, which only returns a number.
    there.retain(|name| name != "open" && name != "commit");
    there.push("commit".to_owned());
    let table = CALLS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !OTHERS.contains(name));
    assert_complete(table, there);
}
