//! SQLite.

use crate::common::{database_place, measured, place};
use logforce_databases::sqlite::ledgers;
use logforce_device::Guarantee;

#[test]
fn each_journal_keeps_every_row_and_leaves_no_file() {
    let dir = place();
    let rows = measured(dir.path(), &ledgers(&database_place(dir.path())));
    let of = |settings: &str| rows.iter().find(|r| r.settings == settings).unwrap();
    // A power cut can undo a commit if the directory or the log was not synced.
    for (settings, policy, is_safe) in [
        ("DELETE, synchronous=EXTRA", Some(1), true),
        ("DELETE, synchronous=FULL", None, false),
        ("DELETE, synchronous=NORMAL", None, false),
        ("WAL, synchronous=FULL", Some(1), true),
        ("WAL, synchronous=NORMAL", Some(2), false),
    ] {
        let row = of(settings);
        assert_eq!(row.policy, policy, "{row:?}");
        if !is_safe {
            assert_eq!(row.guarantee, Some(Guarantee::ProcessCrash), "{row:?}");
        }
        let full = of("WAL, synchronous=FULL").guarantee;
        assert_eq!(row.guarantee == full, is_safe, "{row:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
