//! Running servers, given by URL: their settings are kept, and the table is removed.

use crate::common::{database_place, measured, place};
use crate::servers::ledgers;
use ::mysql::prelude::Queryable;
use logforce_databases::{mysql, postgres};
use logforce_device::Verdict;
use logforce_measure::Row;

/// Asserts that no guarantee is claimed for an unknown disk.
fn assert_elsewhere(rows: &[Row]) {
    assert!(
        rows.iter().all(|r| r.system.ends_with(" by URL")),
        "{rows:?}"
    );
    for row in rows.iter().filter(|r| r.policy == Some(1)) {
        assert_eq!(row.verdict, Some(Verdict::Unknown), "{row:?}");
        assert_eq!(row.device_writes_per_commit, None, "{row:?}");
    }
}

/// Returns the path encoded for a URL.
fn encoded(path: &std::path::Path) -> String {
    path.to_string_lossy().replace('/', "%2F")
}

#[test]
fn a_postgresql_by_url() {
    let dir = place();
    let place = database_place(dir.path());
    let Some(own) = ledgers(postgres::of_server(&place)) else {
        return;
    };
    // The throw-away server stands in for a running one. Its socket is beside its files if the path is
    // short enough; otherwise `postmaster.pid` has the directory.
    drop(own[0].open().unwrap());
    let home = std::fs::canonicalize(dir.path()).unwrap().join("postgres");
    let pid_file = std::fs::read_to_string(home.join("data/postmaster.pid")).unwrap();
    let sockets = pid_file.lines().nth(4).unwrap();
    let url = format!("postgres://till@{}/postgres", encoded(sockets.as_ref()));
    let by_url = ledgers(postgres::of_url(&url, &place)).unwrap();
    let rows = measured(dir.path(), &by_url);
    let settings: Vec<&str> = rows.iter().step_by(2).map(|r| &*r.settings).collect();
    assert_eq!(settings.len(), 2, "{settings:?}");
    assert_elsewhere(&rows);
    // A table that is still open when the run ends is removed as well.
    drop(by_url[0].open().unwrap());
    drop(by_url);
    let mut client = ::postgres::Client::connect(&url, ::postgres::NoTls).unwrap();
    let count = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'logforce%'";
    // The one left is the throw-away ledger's: it was opened above.
    let left: i64 = client.query_one(count, &[]).unwrap().get(0);
    assert_eq!(left, 1);
}

#[test]
fn a_mariadb_by_url() {
    let dir = place();
    let place = database_place(dir.path());
    let Some(own) = ledgers(mysql::of_server(&place)) else {
        return;
    };
    let binlog_on = own
        .iter()
        .find(|l| l.setting().settings == "trx_commit=2, sync_binlog=0")
        .unwrap();
    drop(binlog_on.open().unwrap());
    let home = std::fs::canonicalize(dir.path()).unwrap().join("mariadb");
    let beside = home.join("socket");
    if !beside.exists() {
        return logforce_testkit::skip!("the path of {} is too long for a socket", home.display());
    }
    let url = format!("mysql://root@localhost/till?socket={}", encoded(&beside));
    let by_url = ledgers(mysql::of_url(&url, &place)).unwrap();
    let rows = measured(dir.path(), &by_url);
    // The settings are the server's.
    assert_eq!(rows[0].settings, "trx_commit=2, sync_binlog=0");
    assert_eq!((rows[0].policy, rows[0].second_log), (Some(2), Some(true)));
    drop(by_url[0].open().unwrap());
    drop(by_url);
    let mut conn = ::mysql::Conn::new(::mysql::Opts::from_url(&url).unwrap()).unwrap();
    let left: Vec<String> = conn.query("SHOW TABLES LIKE 'logforce%'").unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_server_that_is_not_there_is_an_error_with_a_reason() {
    let dir = place();
    let place = database_place(dir.path());
    let Err(e) = postgres::of_url("postgres://till@%2Fnosuch/postgres", &place) else {
        panic!("connected to a missing server");
    };
    assert!(e.to_string().contains("PostgreSQL: connecting"), "{e}");
    let Err(e) = mysql::of_url("mysql://root@localhost/till?socket=%2Fnosuch", &place) else {
        panic!("connected to a missing server");
    };
    assert!(e.to_string().contains("MariaDB: connecting"), "{e}");
    for bad in ["", "nonsense", "http://x"] {
        assert!(
            mysql::of_url(bad, &place).is_err() && postgres::of_url(bad, &place).is_err(),
            "{bad}"
        );
    }
}
