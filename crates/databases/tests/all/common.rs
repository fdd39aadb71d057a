//! Helpers that measure ledgers on the disk of the build directory.

use logforce_databases::DatabaseSetup;
use logforce_measure::counters::NoCounters;
use logforce_measure::inserts::{MOST, Options, SalesLedger, facts, run};
use logforce_measure::space::Space;
use logforce_measure::{Interrupt, Row, Setup};
use logforce_terminal::progress::Silent;
use logforce_testkit::another_user;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Creates a directory that the user of a server can enter.
pub fn place() -> tempfile::TempDir {
    let on = another_user::directory(env!("CARGO_TARGET_TMPDIR"));
    let dir = tempfile::tempdir_in(on).unwrap();
    another_user::open(dir.path()).unwrap();
    dir
}

fn setup(dir: &Path) -> Setup {
    Setup {
        system: Arc::new(logforce_device_os::OsSystem::new()),
        path: dir.to_owned(),
        space: Space { free: 0, total: 0 },
        counters: Rc::new(NoCounters),
        interrupt: Interrupt::new(),
        progress: Rc::new(Silent),
    }
}

/// Returns the setup for databases in `dir`.
pub fn database_place(dir: &Path) -> DatabaseSetup {
    DatabaseSetup {
        path: dir.to_owned(),
        facts: facts(&setup(dir)).unwrap(),
        interrupt: Interrupt::new(),
        clients: 4,
    }
}

/// Measures each ledger with one client and with four. Returns the rows, none of which has an error.
pub fn measured(dir: &Path, ledgers: &[Box<dyn SalesLedger>]) -> Vec<Row> {
    let options = Options {
        pairs: 20,
        rounds: 2,
        clients: vec![1, 4],
        time: Duration::from_millis(30),
        most: MOST,
    };
    let setup = setup(dir);
    let facts = facts(&setup).unwrap();
    let rows = run(&options, &setup, facts, ledgers).unwrap().rows;
    assert_eq!(rows.len(), 2 * ledgers.len());
    for row in &rows {
        assert_eq!(row.error, None, "{row:?}");
        // Each client commits 5 rows before the clock starts.
        let one = row.clients == 1;
        let all = row.commits.unwrap() + if one { 2 * (20 + 5) + 5 } else { 4 * 5 };
        assert_eq!(
            (row.rows_checked, row.pairs_s.is_some()),
            (Some(all), one),
            "{row:?}"
        );
    }
    rows
}
