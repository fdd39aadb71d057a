//! Files that SQLite must not believe: both VFSs have to do the same with them.

use super::*;

/// Contents of a directory with a database `x.db`, made by SQLite's own VFS.
struct Case {
    what: &'static str,
    make: fn(&Path),
}

fn database(dir: &Path, name: &str, page_size: u32, mode: &str) -> Connection {
    let db = stock(&dir.join(name));
    db.execute_batch(&format!("PRAGMA page_size={page_size}"))
        .unwrap();
    set_up(&db, mode, "FULL");
    insert(&db, 20, 500);
    db
}

/// Leaves the files of a crash within a transaction.
fn hot(dir: &Path, name: &str, page_size: u32, mode: &str) {
    let work = directory();
    let db = database(work.path(), name, page_size, mode);
    db.execute_batch("PRAGMA cache_size=5; BEGIN; UPDATE t SET b = randomblob(700)")
        .unwrap();
    crashed(&work.path().join(name), dir);
}

const CASES: [Case; 10] = [
    Case {
        what: "a hot journal",
        make: |dir| hot(dir, "x.db", 4096, "DELETE"),
    },
    Case {
        what: "a journal of another database",
        make: |dir| {
            drop(database(dir, "x.db", 4096, "DELETE"));
            hot(dir, "y.db", 1024, "DELETE");
            std::fs::rename(dir.join("y.db-journal"), dir.join("x.db-journal")).unwrap();
        },
    },
    Case {
        what: "a journal that ends within a record",
        make: |dir| {
            hot(dir, "x.db", 4096, "PERSIST");
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(dir.join("x.db-journal"))
                .unwrap();
            file.set_len(5000).unwrap();
        },
    },
    Case {
        what: "a journal of noise",
        make: |dir| {
            drop(database(dir, "x.db", 4096, "DELETE"));
            std::fs::write(dir.join("x.db-journal"), [0xd9; 3000]).unwrap();
        },
    },
    Case {
        what: "a journal that names a super-journal which is gone",
        make: |dir| {
            hot(dir, "x.db", 4096, "DELETE");
            let mut journal = std::fs::read(dir.join("x.db-journal")).unwrap();
            let name = b"/nowhere/x.db-mj123";
            let sum: u32 = name.iter().map(|b| u32::from(*b)).sum();
            journal.resize(journal.len().next_multiple_of(512), 0);
            journal.extend(0x4000_0001_u32.to_be_bytes());
            journal.extend(name);
            journal.extend((name.len() as u32).to_be_bytes());
            journal.extend(sum.to_be_bytes());
            journal.extend([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
            std::fs::write(dir.join("x.db-journal"), journal).unwrap();
        },
    },
    Case {
        what: "a log of a crash",
        make: |dir| hot(dir, "x.db", 4096, "WAL"),
    },
    Case {
        what: "a log of another page size",
        make: |dir| {
            hot(dir, "y.db", 1024, "WAL");
            let db = database(dir, "x.db", 4096, "WAL");
            drop(db);
            std::fs::rename(dir.join("y.db-wal"), dir.join("x.db-wal")).unwrap();
        },
    },
    Case {
        what: "a log that ends within a frame",
        make: |dir| {
            hot(dir, "x.db", 4096, "WAL");
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(dir.join("x.db-wal"))
                .unwrap();
            file.set_len(file.metadata().unwrap().len() - 1000).unwrap();
        },
    },
    Case {
        what: "a log of noise",
        make: |dir| {
            drop(database(dir, "x.db", 4096, "WAL"));
            std::fs::write(dir.join("x.db-wal"), [0x37; 9000]).unwrap();
        },
    },
    Case {
        what: "a database of noise",
        make: |dir| std::fs::write(dir.join("x.db"), [0x37; 9000]).unwrap(),
    },
];

/// Uses the database in several ways. Returns the answers and errors, in words.
fn used(db: &Connection) -> Vec<String> {
    let ask = |sql: &str| match db.query_row(sql, (), |row| row.get::<_, rusqlite::types::Value>(0))
    {
        Ok(value) => format!("{sql}: {value:?}"),
        Err(e) => format!("{sql}: {e:?}"),
    };
    vec![
        ask("SELECT group_concat(hex(b)) FROM t"),
        ask("PRAGMA integrity_check"),
        ask("PRAGMA journal_mode"),
        ask("INSERT INTO t(b) VALUES (1) RETURNING id"),
        ask("PRAGMA wal_checkpoint"),
        ask("PRAGMA journal_mode=DELETE"),
        ask("DELETE FROM t WHERE id = 3 RETURNING id"),
        ask("PRAGMA journal_mode=WAL"),
        ask("INSERT INTO t(b) VALUES (2) RETURNING id"),
        ask("SELECT count(*) FROM t"),
    ]
}

#[test]
fn damaged_and_foreign_files_are_treated_as_by_stock() {
    for case in &CASES {
        let made = directory();
        (case.make)(made.path());
        let answers = [false, true].map(|own| {
            let dir = directory();
            for entry in std::fs::read_dir(made.path()).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
            }
            let path = dir.path().join("x.db");
            let first = match own {
                true => {
                    logforce_sqlite::register().unwrap();
                    let parameters = "&logforce_group_commit=1";
                    used(&open(&path, logforce_sqlite::VFS, parameters).unwrap())
                }
                false => used(&stock(&path)),
            };
            // The state that is left, by the same eyes.
            (first, used(&stock(&path)))
        });
        assert_eq!(answers[0], answers[1], "{}", case.what);
    }
}

#[test]
fn read_only_openings_are_treated_as_by_stock() {
    for mode in ["DELETE", "WAL"] {
        let dir = directory();
        let path = dir.path().join("x.db");
        let kept = database(dir.path(), "x.db", 4096, mode);
        logforce_sqlite::register().unwrap();
        for parameters in ["&mode=ro", "&immutable=1"] {
            let own = used(&open(&path, logforce_sqlite::VFS, parameters).unwrap());
            let stocks = used(&open(&path, STOCK, parameters).unwrap());
            assert_eq!(own, stocks, "{mode} {parameters}");
        }
        drop(kept);
        let missing = dir.path().join("none").join("x.db");
        let own = open(&missing, logforce_sqlite::VFS, "").unwrap_err();
        let stocks = open(&missing, STOCK, "").unwrap_err();
        assert_eq!(own.sqlite_error_code(), stocks.sqlite_error_code());
    }
}
