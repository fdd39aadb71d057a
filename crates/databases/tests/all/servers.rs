//! Throw-away servers of the installed databases.

use crate::common::{database_place, measured, place};
use logforce_databases::{DatabaseSetup, Listed, mysql, postgres};
use logforce_measure::MeasureError;
use logforce_measure::inserts::SalesLedger;
use std::path::Path;

/// Reason for which a server is not available in a container with one user.
const ONE_USER: &str = "cannot become the user";

/// Returns the settings of a server. Prints a line and returns `None` if the server is not installed or has
/// no user.
pub fn ledgers(listed: Result<Listed, MeasureError>) -> Option<Vec<Box<dyn SalesLedger>>> {
    let why = match listed {
        Ok(Listed::Ledgers(ledgers)) => return Some(ledgers),
        Ok(Listed::Missing(why)) => why,
        Err(e) if e.to_string().contains(ONE_USER) => e.to_string(),
        Err(e) => panic!("{e}"),
    };
    logforce_testkit::skip!("{why}");
    None
}

/// Returns the command lines of servers and guards that contain `dir`.
#[cfg(target_os = "linux")]
fn processes_of(dir: &Path) -> Vec<String> {
    let name = dir.to_string_lossy().into_owned();
    let of = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&name).then_some(line)
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(of).collect()
}

#[cfg(not(target_os = "linux"))]
fn processes_of(_: &Path) -> Vec<String> {
    Vec::new()
}

fn assert_nothing_left(dir: &Path) {
    let left: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let processes = processes_of(dir);
    assert!(processes.is_empty(), "{processes:?}");
}

#[test]
fn postgresql_keeps_every_row_by_each_of_its_ways() {
    let dir = place();
    let Some(ledgers) = ledgers(postgres::of_server(&database_place(dir.path()))) else {
        return;
    };
    let rows = measured(dir.path(), &ledgers);
    #[cfg(target_os = "linux")]
    {
        assert!(!processes_of(dir.path()).is_empty());
        for way in ["fsync", "fdatasync", "open_sync", "open_datasync"] {
            let settings = format!("synchronous_commit=on, {way}");
            let row = rows.iter().find(|r| r.settings == settings).unwrap();
            assert_eq!(row.policy, Some(1));
        }
    }
    let off = rows.last().unwrap();
    assert!(
        off.settings.starts_with("synchronous_commit=off") && off.policy == Some(0),
        "{off:?}"
    );
    assert!(
        rows.iter()
            .all(|r| r.system == "PostgreSQL" && !r.system_version.is_empty())
    );
    drop(ledgers);
    assert_nothing_left(dir.path());
}

#[test]
fn mariadb_keeps_every_row_with_and_without_its_binary_log() {
    let dir = place();
    let Some(ledgers) = ledgers(mysql::of_server(&database_place(dir.path()))) else {
        return;
    };
    let rows = measured(dir.path(), &ledgers);
    for settings in [
        "trx_commit=1, no binlog",
        "trx_commit=2, no binlog",
        "trx_commit=0, no binlog",
        "trx_commit=1, sync_binlog=1",
        "trx_commit=0, sync_binlog=0",
    ] {
        let row = rows.iter().find(|r| r.settings == settings).unwrap();
        let policy = settings.as_bytes()["trx_commit=".len()] - b'0';
        assert_eq!(row.policy, Some(u64::from(policy)));
        assert_eq!(row.second_log, Some(!settings.contains("no binlog")));
    }
    drop(ledgers);
    assert_nothing_left(dir.path());
}

/// Rows inserted while the binary log is on are written to it.
#[test]
fn the_binary_log_is_really_written() {
    let dir = place();
    let Some(ledgers) = ledgers(mysql::of_server(&database_place(dir.path()))) else {
        return;
    };
    let size = || {
        let data = std::fs::read_dir(dir.path().join("mariadb/data"))
            .unwrap()
            .flatten();
        let logs = data.filter(|e| e.file_name().to_string_lossy().starts_with("binlog.0"));
        logs.map(|e| e.metadata().unwrap().len()).sum::<u64>()
    };
    let one = |binlog: bool| {
        let ledger = ledgers
            .iter()
            .find(|l| l.setting().second_log == Some(binlog))
            .unwrap();
        let table = ledger.open().unwrap();
        let mut session = table.session().unwrap();
        for id in 0..100 {
            session
                .insert_and_commit(&logforce_measure::inserts::Sale::new(id))
                .unwrap();
        }
    };
    one(false);
    assert_eq!(size(), 0);
    one(true);
    assert!(size() > 100 * 100, "{}", size());
}

#[test]
fn nothing_is_left_when_a_measurement_panics() {
    for (name, of_server) in [
        ("postgres", postgres::of_server as fn(&DatabaseSetup) -> _),
        ("mariadb", mysql::of_server),
    ] {
        let dir = place();
        let path = dir.path().to_owned();
        let missing = std::thread::spawn(move || {
            let Some(ledgers) = ledgers(of_server(&database_place(&path))) else {
                return;
            };
            let _table = ledgers[0].open().unwrap();
            assert!(path.join(name).is_dir());
            panic!("on purpose");
        });
        let panicked = missing.join().is_err();
        assert!(panicked || processes_of(dir.path()).is_empty());
        assert_nothing_left(dir.path());
    }
}

/// A server that cannot start says why, and leaves nothing.
#[test]
fn a_server_that_cannot_start_says_why() {
    let dir = place();
    let mut crowded = database_place(dir.path());
    crowded.clients = u32::MAX - 20;
    let Err(e) = postgres::of_server(&crowded) else {
        return logforce_testkit::skip!("PostgreSQL is not installed");
    };
    if e.to_string().contains(ONE_USER) {
        return logforce_testkit::skip!("{e}");
    }
    assert!(e.to_string().contains("max_connections"), "{e}");
    assert_nothing_left(dir.path());
}
