//! `PRAGMA logforce_force_within`: the bound of what a power cut may take.

use super::*;

fn answer(db: &Connection, name: &str) -> serde_json::Value {
    field(db, "logforce_durability('main')", name)
}

#[test]
fn the_pragma_and_the_parameter_set_the_bound_and_refuse_nonsense() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "&logforce_force_within=35");
    assert_eq!(value::<String>(&db, "PRAGMA logforce_force_within"), "35");
    assert_eq!(
        value::<String>(&db, "PRAGMA main.logforce_force_within=20"),
        "20"
    );
    for wrong in ["-1", "x", "60001", "1.5"] {
        let error = db
            .execute_batch(&format!("PRAGMA logforce_force_within='{wrong}'"))
            .unwrap_err();
        let message = format!(
            "logforce_force_within: '{wrong}' is not a number of milliseconds from 0 to 60000"
        );
        assert!(error.to_string().contains(&message), "{error}");
    }
    assert!(db.execute_batch("PRAGMA logforce_group_commit=2").is_err());
    assert_eq!(value::<String>(&db, "PRAGMA logforce_force_within"), "20");
    assert!(open(&path, logforce_sqlite::VFS, "&logforce_force_within=x").is_err());
}

/// The commit returns unsynced, and the background syncs within the bound.
#[test]
fn commits_are_synced_in_the_background() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "");
    set_up(&db, "WAL", "NORMAL");
    value::<String>(&db, "PRAGMA logforce_force_within=200");
    insert(&db, 20, 10);
    let syncs = || {
        field(&db, "logforce_stats()", "log_syncs")
            .as_u64()
            .unwrap()
    };
    let by_then = syncs();
    assert!(by_then < 20, "each commit was synced");
    insert(&db, 1, 10);
    let began = std::time::Instant::now();
    while syncs() == by_then {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "no sync in the background"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let syncs = syncs();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(
        field(&db, "logforce_stats()", "log_syncs"),
        syncs,
        "syncs without commits"
    );
}

#[test]
fn durability_tells_the_truth_of_each_setting() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "");
    set_up(&db, "WAL", "FULL");
    // The storage may be the weakest part, on the machine of this test.
    let storage = answer(&db, "guarantee");
    for (mode, synchronous, own, stocks) in [
        ("DELETE", "FULL", "power-loss", "process-crash"),
        ("DELETE", "EXTRA", "power-loss", "power-loss"),
        ("TRUNCATE", "FULL", "power-loss", "power-loss"),
        ("PERSIST", "FULL", "power-loss", "power-loss"),
        ("DELETE", "NORMAL", "process-crash", "process-crash"),
        ("MEMORY", "FULL", "nothing", "nothing"),
        ("OFF", "FULL", "nothing", "nothing"),
        ("WAL", "FULL", "power-loss", "power-loss"),
        ("WAL", "NORMAL", "process-crash", "process-crash"),
        ("WAL", "OFF", "process-crash", "process-crash"),
    ] {
        for (is_own, expected) in [(true, own), (false, stocks)] {
            if is_own && mode == "DELETE" && !cfg!(unix) {
                continue;
            }
            let dir = directory();
            let path = dir.path().join("x.db");
            let db = match is_own {
                true => ours(&path, ""),
                false => stock(&path),
            };
            set_up(&db, mode, synchronous);
            match expected {
                "power-loss" => {
                    assert_eq!(answer(&db, "guarantee"), storage, "{mode} {synchronous}")
                }
                weaker => assert_eq!(answer(&db, "guarantee"), weaker, "{mode} {synchronous}"),
            }
        }
    }
    set_up(&db, "WAL", "NORMAL");
    let unbounded = answer(&db, "may_lose");
    assert!(
        unbounded.as_str().unwrap().contains("any number"),
        "{unbounded}"
    );
    value::<String>(&db, "PRAGMA logforce_force_within=20");
    let bounded = answer(&db, "may_lose");
    assert!(
        bounded.as_str().unwrap().contains("last 20 ms"),
        "{bounded}"
    );
    assert_eq!(answer(&db, "force_within_ms"), 20);
    let memory = Connection::open_in_memory().unwrap();
    assert_eq!(answer(&memory, "guarantee"), "nothing");
    assert!(
        memory
            .query_row("SELECT logforce_durability('none')", (), |_| Ok(()))
            .is_err()
    );
}

/// `logforce::file` opens only names in UTF-8. Without a bound, SQLite's own VFS syncs the log.
#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf8_has_no_bound() {
    let dir = directory();
    let db = ours(&dir.path().join("%ff.db"), "&logforce_group_commit=1");
    set_up(&db, "WAL", "FULL");
    insert(&db, 40, 10);
    assert_eq!(field(&db, "logforce_stats()", "log_syncs"), 0);
    value::<String>(&db, "PRAGMA logforce_force_within=20");
    let refused = db.execute("INSERT INTO t(b) VALUES (1)", ()).unwrap_err();
    let code = refused.sqlite_error_code();
    assert_eq!(code, Some(rusqlite::ErrorCode::CannotOpen), "{refused}");
    value::<String>(&db, "PRAGMA logforce_force_within=0");
    insert(&db, 1, 10);
    check(&db, 41);
}
