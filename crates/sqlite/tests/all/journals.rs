//! Rollback journals that are kept.

use super::*;

fn journal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

/// Returns a database in this mode with `rows` rows of 1,000 bytes, and a cache so small that a transaction
/// writes to the file before it ends.
fn prepared(path: &Path, mode: &str, synchronous: &str, rows: usize) -> Connection {
    let db = ours(path, "");
    set_up(&db, mode, synchronous);
    db.execute_batch("PRAGMA cache_size=10").unwrap();
    db.execute_batch("BEGIN").unwrap();
    insert(&db, rows, 1000);
    db.execute_batch("COMMIT").unwrap();
    db
}

#[test]
fn every_mode_commits_and_rolls_back_and_shares_with_stock() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        for synchronous in ["OFF", "NORMAL", "FULL", "EXTRA"] {
            let dir = directory();
            let path = dir.path().join("x.db");
            let db = prepared(&path, mode, synchronous, 100);
            let other = stock(&path);
            for round in 0..5 {
                insert(&db, 3, 100);
                db.execute_batch("BEGIN; DELETE FROM t; ROLLBACK").unwrap();
                check(&other, 103 + 4 * round);
                insert(&other, 1, 100);
                check(&db, 104 + 4 * round);
            }
            drop(db);
            check(&other, 120);
        }
    }
}

#[test]
fn the_last_connection_leaves_what_the_mode_says() {
    for (mode, left) in [
        ("DELETE", None),
        ("TRUNCATE", Some(true)),
        ("PERSIST", Some(false)),
    ] {
        let dir = directory();
        let path = dir.path().join("x.db");
        let db = prepared(&path, mode, "FULL", 1);
        let other = ours(&path, "");
        set_up(&other, mode, "FULL");
        insert(&db, 2, 100);
        insert(&other, 2, 100);
        drop(db);
        insert(&other, 2, 100);
        if cfg!(unix) {
            assert!(
                std::fs::metadata(journal(&path)).unwrap().len() > 0,
                "{mode} keeps none"
            );
        }
        drop(other);
        let size = std::fs::metadata(journal(&path)).ok().map(|m| m.len() == 0);
        assert_eq!(size, left, "{mode}");
    }
}

/// A transaction whose journal is in a kept file is undone by SQLite without the VFS.
#[test]
fn a_crash_within_a_transaction_is_undone_by_stock() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST"] {
        for synchronous in ["OFF", "NORMAL", "FULL"] {
            let dir = directory();
            let path = dir.path().join("x.db");
            let db = prepared(&path, mode, synchronous, 200);
            // The last transaction was longer than this one, and left its records in the file.
            db.execute_batch("BEGIN; UPDATE t SET b = randomblob(1000) WHERE id <= 150")
                .unwrap();
            let after = directory();
            let copy = crashed(&path, after.path());
            assert_ne!(
                std::fs::read(&copy).unwrap(),
                std::fs::read(crashed_before(&db, &path)).unwrap(),
                "the transaction has not reached the file: the test tests nothing"
            );
            check(&stock(&copy), 200);
            let sums = |db: &Connection| -> String {
                value(db, "SELECT group_concat(hex(substr(b, 1, 4))) FROM t")
            };
            db.execute_batch("ROLLBACK").unwrap();
            assert_eq!(sums(&stock(&copy)), sums(&db), "{mode} {synchronous}");
        }
    }
}

/// Rolls back, copies the database, and returns the copy.
fn crashed_before(db: &Connection, path: &Path) -> PathBuf {
    db.execute_batch("ROLLBACK").unwrap();
    let copy = path.with_file_name("before.db");
    std::fs::copy(path, &copy).unwrap();
    db.execute_batch("BEGIN").unwrap();
    copy
}

/// SQLite without the VFS deletes the journal at the end of its transactions.
#[test]
fn a_journal_that_stock_has_deleted_is_made_anew() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = prepared(&path, "DELETE", "FULL", 200);
    let other = stock(&path);
    insert(&other, 1, 100);
    db.execute_batch("BEGIN; UPDATE t SET b = randomblob(1000)")
        .unwrap();
    let after = directory();
    let copy = crashed(&path, after.path());
    assert!(journal(&copy).exists());
    check(&stock(&copy), 201);
    db.execute_batch("ROLLBACK").unwrap();
    check(&other, 201);
}

/// The name of a super-journal at the end of a kept file would make SQLite take a later journal for a part of
/// that transaction, and not undo it.
#[test]
fn a_transaction_of_two_files_leaves_no_name_behind() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = prepared(&path, "DELETE", "FULL", 200);
    let second = dir.path().join("y.db");
    db.execute_batch(&format!(
        "ATTACH 'file:{}?vfs=logforce' AS y; CREATE TABLE y.u(b)",
        second.display()
    ))
    .unwrap();
    db.execute_batch("BEGIN; UPDATE t SET b = randomblob(1000); INSERT INTO u VALUES (1); COMMIT")
        .unwrap();
    let names: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(
        !names.iter().any(|n| n.to_string_lossy().contains("-mj")),
        "{names:?}"
    );
    db.execute_batch("BEGIN; UPDATE t SET b = zeroblob(1000) WHERE id <= 60")
        .unwrap();
    let after = directory();
    let copy = crashed(&path, after.path());
    let zeroes = "SELECT count(*) FROM t WHERE b = zeroblob(1000)";
    let stock = stock(&copy);
    check(&stock, 200);
    assert_eq!(value::<i64>(&stock, zeroes), 0);
}

/// The counts of the files' syncs: the journal's records, its header, the database, the journal's end.
#[test]
fn a_commit_makes_four_syncs_with_full_and_none_with_off() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST"] {
        for (synchronous, syncs) in [("FULL", 4), ("OFF", 0)] {
            let dir = directory();
            let path = dir.path().join("x.db");
            let db = prepared(&path, mode, synchronous, 10);
            let stat = || field(&db, "logforce_stats()", "syncs").as_u64().unwrap();
            let before = stat();
            insert(&db, 10, 10);
            assert_eq!(stat() - before, 10 * syncs, "{mode} {synchronous}");
        }
    }
}

/// A transaction that spills syncs its journal more than once, also with NORMAL. The zeroed header must be durable
/// before the next transaction overwrites the records: a power cut could undo a part otherwise. SQLite syncs the end
/// only with FULL.
#[test]
fn the_end_is_synced_with_normal_too() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST"] {
        let dir = directory();
        let path = dir.path().join("x.db");
        let db = prepared(&path, mode, "NORMAL", 200);
        let syncs = || field(&db, "logforce_stats()", "syncs").as_u64().unwrap();
        let before = syncs();
        insert(&db, 1, 10);
        // The journal, the database, the end.
        assert_eq!(syncs() - before, 3, "{mode}");
        db.execute_batch("BEGIN; UPDATE t SET b = randomblob(1000)")
            .unwrap();
        let spilled = syncs();
        db.execute_batch("COMMIT").unwrap();
        assert!(syncs() - spilled >= 3, "{mode}: the end is not synced");
    }
}

/// A connection in rollback mode sees the log that another one begins, although its own journal is kept.
#[test]
fn a_log_beside_a_kept_journal_is_found() {
    for mode in ["DELETE", "TRUNCATE"] {
        let dir = directory();
        let path = dir.path().join("x.db");
        let db = prepared(&path, mode, "FULL", 3);
        insert(&db, 1, 10);
        let other = stock(&path);
        set_up(&other, "WAL", "FULL");
        insert(&other, 5, 10);
        check(&db, 9);
        insert(&db, 1, 10);
        insert(&other, 1, 10);
        check(&db, 11);
        check(&other, 11);
    }
}
