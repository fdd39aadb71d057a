//! Write-ahead logs.

use super::*;
use std::process::Command;
use std::sync::Barrier;

fn log(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Readers of other VFSs read the file, which must have each frame before it is published.
#[test]
fn stock_sees_each_commit_at_once() {
    for synchronous in ["NORMAL", "FULL"] {
        let dir = directory();
        let path = dir.path().join("x.db");
        let db = ours(&path, "");
        set_up(&db, "WAL", synchronous);
        let other = stock(&path);
        let newest = "SELECT length(b) FROM t ORDER BY id DESC";
        for round in 1..=100 {
            insert(&db, 1, 50 * round);
            assert_eq!(count(&other), round);
            assert_eq!(value::<i64>(&other, newest), 50 * round);
        }
    }
}

/// A transaction that does not fit into the cache writes pages, and writes some again. SQLite then repeats the
/// checksums of what it wrote before.
#[test]
fn large_transactions_are_recovered_by_stock() {
    for synchronous in ["NORMAL", "FULL"] {
        let dir = directory();
        let path = dir.path().join("x.db");
        let db = ours(&path, "&logforce_force_within=20");
        set_up(&db, "WAL", synchronous);
        db.execute_batch("PRAGMA cache_size=10; PRAGMA wal_autocheckpoint=0")
            .unwrap();
        insert(&db, 3, 100);
        for round in 1..=4 {
            db.execute_batch("BEGIN").unwrap();
            insert(&db, 100, 1000);
            db.execute_batch("UPDATE t SET b = randomblob(900); SAVEPOINT s; DELETE FROM t WHERE id % 2; ROLLBACK TO s; COMMIT")
                .unwrap();
            insert(&db, 1, 10);
            let after = directory();
            let copy = crashed(&path, after.path());
            check(&stock(&copy), 3 + 101 * round);
            check(&stock(&path), 3 + 101 * round);
            db.execute_batch("BEGIN; DELETE FROM t; ROLLBACK").unwrap();
            if round == 2 {
                db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
            }
        }
    }
}

/// After some commits the log is longer than its frames, so that commits overwrite. SQLite without the
/// VFS finds the end of the frames.
#[test]
fn the_log_is_extended_with_zeroes() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "");
    set_up(&db, "WAL", "FULL");
    insert(&db, 40, 10);
    let len = std::fs::metadata(log(&path)).unwrap().len();
    insert(&db, 5, 10);
    if cfg!(unix) {
        assert_eq!(len % (64 << 10), 0, "{len}");
        assert_eq!(std::fs::metadata(log(&path)).unwrap().len(), len);
    }
    let after = directory();
    check(&stock(&crashed(&path, after.path())), 45);
}

#[test]
fn a_normal_connection_without_a_bound_extends_nothing() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "");
    set_up(&db, "WAL", "NORMAL");
    insert(&db, 10, 10);
    let len = std::fs::metadata(log(&path)).unwrap().len();
    assert_eq!((len - 32) % (4096 + 24), 0, "{len}");
}

/// With group commit each connection's commit is synced before it returns, and connections share the syncs.
#[test]
fn connections_share_syncs_of_group_commits() {
    const THREADS: u64 = 8;
    const COMMITS: u64 = 40;
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "");
    set_up(&db, "WAL", "FULL");
    insert(&db, 2, 10);
    let syncs = |db: &Connection| field(db, "logforce_stats()", "log_syncs").as_u64().unwrap();
    let before = syncs(&db);
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let db = ours(&path, "&logforce_group_commit=1");
                db.execute_batch("PRAGMA synchronous=FULL").unwrap();
                start.wait();
                for _ in 0..COMMITS {
                    db.execute_batch("BEGIN IMMEDIATE").unwrap();
                    insert(&db, 1, 10);
                    let earlier = syncs(&db);
                    db.execute_batch("COMMIT").unwrap();
                    assert!(syncs(&db) > earlier, "the commit was not synced");
                }
            });
        }
    });
    check(&db, 2 + (THREADS * COMMITS) as i64);
    let made = syncs(&db) - before;
    assert!(made < THREADS * COMMITS, "{made} syncs: none was shared");
}

/// A second descriptor of the database would release the locks of the process when it is closed.
#[test]
fn another_process_is_kept_out() {
    if let Some(path) = std::env::var_os("LOGFORCE_TEST_LOCKED") {
        let db = stock(Path::new(&path));
        db.busy_timeout(Duration::ZERO).unwrap();
        // Without the lock of the other process this connection could remove its log.
        let locked = db.execute_batch("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE");
        println!("{locked:?}");
        std::process::exit(i32::from(locked.is_ok()));
    }
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "");
    set_up(&db, "WAL", "FULL");
    insert(&db, 40, 10);
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "logs::another_process_is_kept_out"])
        .env("LOGFORCE_TEST_LOCKED", &path)
        .status()
        .unwrap();
    assert!(ended.success(), "another process took the log away");
    insert(&db, 5, 10);
    check(&db, 45);
}

/// A log stays longer than its frames also when it is long, as without checkpoints.
#[test]
fn a_long_log_is_extended_by_a_mebibyte() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "");
    set_up(&db, "WAL", "FULL");
    db.execute_batch("PRAGMA wal_autocheckpoint=0; BEGIN")
        .unwrap();
    insert(&db, 100, 60_000);
    db.execute_batch("COMMIT").unwrap();
    insert(&db, 40, 10);
    let len = std::fs::metadata(log(&path)).unwrap().len();
    insert(&db, 60, 10);
    let grown = std::fs::metadata(log(&path)).unwrap().len() - len;
    assert!(cfg!(not(unix)) || grown.is_multiple_of(64 << 10), "{grown}");
    check(&stock(&path), 200);
}

/// Frames that a rolled-back transaction had spilled are gone with it: another connection has written there.
#[test]
fn what_was_rolled_back_replaces_no_commit() {
    for locking in ["NORMAL", "EXCLUSIVE"] {
        let dir = directory();
        let path = dir.path().join("x.db");
        let db = ours(&path, "");
        set_up(&db, "WAL", "FULL");
        db.execute_batch("PRAGMA cache_size=10").unwrap();
        insert(&db, 3, 10);
        for round in 1..=4 {
            db.execute_batch(&format!("PRAGMA locking_mode={locking}; BEGIN IMMEDIATE"))
                .unwrap();
            insert(&db, 200, 700);
            db.execute_batch("ROLLBACK; PRAGMA locking_mode=NORMAL; SELECT * FROM t")
                .unwrap();
            let other = ours(&path, "");
            insert(&other, 10, 900);
            match round % 2 {
                0 => insert(&db, 1, 10),
                _ => db.execute_batch("PRAGMA wal_checkpoint").unwrap(),
            }
            check(&other, 3 + 10 * round + round / 2);
            check(&stock(&path), 3 + 10 * round + round / 2);
        }
    }
}
