//! A disk that is full at each write of a commit.

use super::*;
use logforce_testkit::loopfs::LoopFs;
use rusqlite::ErrorCode;
use std::fs::File;
use std::io::Write;

/// Bytes by which the free space grows from one attempt to the next.
const STEP: usize = 4096;

/// Makes a file that leaves about `free` bytes of the filesystem.
fn fill(path: &Path, free: usize) {
    let mut file = File::create(path).unwrap();
    for piece in [1 << 20, 64 << 10, 4096] {
        while file.write_all(&vec![1; piece]).is_ok() {}
    }
    file.sync_all().ok();
    let len = file.metadata().unwrap().len();
    file.set_len(len.saturating_sub(free as u64)).unwrap();
    file.sync_all().unwrap();
}

/// Commits until the disk is full, at ten sizes of the free space. Every commit that was answered is there, and
/// the database goes on once there is space.
fn commits_until_full(dir: &Path, mode: &str, synchronous: &str, parameters: &str) {
    let what = format!("{mode} {synchronous} {parameters}");
    let path = dir.join("x.db");
    let db = ours(&path, parameters);
    set_up(&db, mode, synchronous);
    db.execute_batch("PRAGMA cache_size=10").unwrap();
    insert(&db, 3, 10);
    let mut rows = 3;
    let ballast = dir.join("ballast");
    for attempt in 0..10 {
        fill(&ballast, attempt * STEP);
        let refused = (0..2000).find_map(|_| {
            match db.execute("INSERT INTO t(b) VALUES (randomblob(9000))", ()) {
                Ok(_) => {
                    rows += 1;
                    None
                }
                Err(e) => Some(e),
            }
        });
        let refused = refused.unwrap_or_else(|| panic!("{what}: never full"));
        assert_eq!(
            refused.sqlite_error_code(),
            Some(ErrorCode::DiskFull),
            "{what}: {refused}"
        );
        std::fs::remove_file(&ballast).unwrap();
        insert(&db, 1, 3000);
        rows += 1;
        check(&stock(&path), rows);
    }
    drop(db);
    check(&stock(&path), rows);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        std::fs::remove_file(dir.join(format!("x.db{suffix}"))).ok();
    }
}

/// A transaction that has spilled meets a full disk. It can be rolled back, and the database be read, while there
/// is no space.
fn spills_until_full(dir: &Path, mode: &str, synchronous: &str) {
    let what = format!("{mode} {synchronous}");
    let path = dir.join("x.db");
    let db = ours(&path, "");
    set_up(&db, mode, synchronous);
    db.execute_batch("PRAGMA cache_size=10; BEGIN").unwrap();
    insert(&db, 300, 900);
    db.execute_batch("COMMIT").unwrap();
    let ballast = dir.join("ballast");
    for attempt in 0..10 {
        fill(&ballast, attempt * STEP);
        let refused = db
            .execute_batch("BEGIN; UPDATE t SET b = randomblob(900)")
            .unwrap_err();
        assert_eq!(
            refused.sqlite_error_code(),
            Some(ErrorCode::DiskFull),
            "{what}: {refused}"
        );
        let _ = db.execute_batch("ROLLBACK");
        // The first statement afterwards may have to finish what the rollback could not.
        let read = |db: &Connection| {
            db.query_row("SELECT count(*) FROM t", (), |row| row.get::<_, i64>(0))
        };
        let rows = read(&db).or_else(|_| read(&db));
        assert_eq!(
            rows.unwrap_or_else(|e| panic!("{what}, attempt {attempt}: {e}")),
            300
        );
        std::fs::remove_file(&ballast).unwrap();
        check(&db, 300);
        check(&stock(&path), 300);
    }
    drop(db);
    std::fs::remove_file(path).unwrap();
}

/// A connection that has committed beside an open statement keeps its journal open, and closes it on a full disk.
/// The records of another connection's transaction stay, so that a crash can undo it.
fn reads_until_full(dir: &Path, mode: &str) {
    let path = dir.join("x.db");
    let db = ours(&path, "");
    set_up(&db, mode, "FULL");
    db.execute_batch("BEGIN").unwrap();
    insert(&db, 100, 900);
    db.execute_batch("COMMIT").unwrap();
    let reader = ours(&path, "");
    set_up(&reader, mode, "FULL");
    let mut statement = reader.prepare("SELECT b FROM t").unwrap();
    let mut rows = statement.query(()).unwrap();
    rows.next().unwrap();
    insert(&reader, 1, 10);
    let sums = |db: &Connection| -> String { value(db, "SELECT group_concat(hex(b)) FROM t") };
    let before = sums(&db);
    db.execute_batch("BEGIN; UPDATE t SET b = zeroblob(900)")
        .unwrap();
    let ballast = dir.join("ballast");
    fill(&ballast, 0);
    drop(rows);
    std::fs::remove_file(&ballast).unwrap();
    let committed = std::fs::read(&path).unwrap();
    db.execute_batch("PRAGMA cache_size=10; INSERT INTO t(b) SELECT randomblob(900) FROM t")
        .unwrap();
    assert!(
        std::fs::read(&path).unwrap() != committed,
        "{mode}: no page was written"
    );
    let after = directory();
    let copy = crashed(&path, after.path());
    let copy = stock(&copy);
    check(&copy, 101);
    assert!(
        sums(&copy) == before,
        "{mode}: a part of a transaction stays"
    );
    db.execute_batch("ROLLBACK").unwrap();
    assert!(sums(&db) == before, "{mode}: a part of a transaction stays");
    std::fs::remove_file(path).unwrap();
}

/// A full disk below another file ends a commit between its phases. SQLite ignores errors of the second phase if the
/// main database is a file. So the log is synced in the first one, also if that file is of another VFS.
fn commits_several_files_until_full(full: &Path, vfs: &str, parameters: &str, synced: u64) {
    let dir = directory();
    let db = open(&dir.path().join("main.db"), vfs, parameters).unwrap();
    for (name, dir, mode) in [("x", dir.path(), "WAL"), ("y", full, "DELETE")] {
        let file = dir.join(format!("{name}.db"));
        let file = file.display();
        db.execute_batch(&format!(
            "ATTACH 'file:{file}?vfs=logforce&logforce_group_commit=1' AS {name}; PRAGMA {name}.journal_mode={mode}; \
             PRAGMA {name}.synchronous=FULL; CREATE TABLE {name}.{name}(b)"
        ))
        .unwrap();
    }
    db.execute_batch(
        "CREATE TABLE t(b); BEGIN; INSERT INTO t VALUES (1); INSERT INTO x VALUES (1); \
         INSERT INTO y VALUES (zeroblob(1000000))",
    )
    .unwrap();
    let syncs = || field(&db, "logforce_stats('x')", "syncs").as_u64().unwrap();
    let before = syncs();
    let ballast = full.join("ballast");
    fill(&ballast, 0);
    let refused = db.execute_batch("COMMIT").unwrap_err();
    assert_eq!(
        refused.sqlite_error_code(),
        Some(ErrorCode::DiskFull),
        "{vfs}: {refused}"
    );
    assert_eq!(
        syncs(),
        before + synced,
        "{vfs}{parameters}: syncs of the first phase"
    );
    std::fs::remove_file(&ballast).unwrap();
    db.execute_batch("ROLLBACK").ok();
    drop(db);
    std::fs::remove_file(full.join("y.db")).unwrap();
}

#[test]
fn a_full_disk_refuses_commits_and_loses_none() {
    for kind in ["ext4", "xfs"] {
        let size = if kind == "xfs" { 300 } else { 16 };
        let home = directory();
        let filesystem = match LoopFs::new(kind, size, home.path()) {
            Ok(filesystem) => filesystem,
            Err(skip) => {
                logforce_testkit::skip!("{skip}");
                continue;
            }
        };
        logforce_sqlite::register().unwrap();
        for (vfs, parameters, synced) in [
            (STOCK, "", 1),
            (logforce_sqlite::VFS, "", 1),
            (STOCK, "&mode=memory", 0),
        ] {
            commits_several_files_until_full(filesystem.path(), vfs, parameters, synced);
        }
        for (mode, synchronous, parameters) in [
            ("DELETE", "FULL", ""),
            ("TRUNCATE", "FULL", ""),
            ("PERSIST", "NORMAL", ""),
            ("WAL", "FULL", ""),
            ("WAL", "FULL", "&logforce_group_commit=1"),
            ("WAL", "NORMAL", "&logforce_force_within=20"),
        ] {
            commits_until_full(filesystem.path(), mode, synchronous, parameters);
            if kind == "ext4" && mode != "WAL" {
                spills_until_full(filesystem.path(), mode, synchronous);
                reads_until_full(filesystem.path(), mode);
            }
        }
    }
}
