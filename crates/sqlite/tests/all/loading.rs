//! Registration, and the answers of connections that do not use the VFS.

use super::*;

#[test]
fn the_vfs_names_itself_and_the_one_below() {
    let dir = directory();
    let path = dir.path().join("x.db");
    let db = ours(&path, "");
    let name = field(&db, "logforce_durability('main')", "vfs");
    assert_eq!(name, format!("logforce/{STOCK}"));
    let name = field(&stock(&path), "logforce_durability()", "vfs");
    assert_eq!(name, STOCK);
}

#[test]
fn a_connection_without_the_vfs_raises() {
    logforce_sqlite::register().unwrap();
    logforce_sqlite::register().unwrap();
    let dir = directory();
    let other = stock(&dir.path().join("x.db"));
    for (db, words) in [
        (
            &other,
            format!("main was opened by the VFS {STOCK}, not by logforce"),
        ),
        (
            &Connection::open_in_memory().unwrap(),
            "main has no file".to_owned(),
        ),
    ] {
        let error = db
            .query_row("SELECT logforce_vfs_in_use()", (), |_| Ok(()))
            .unwrap_err();
        assert!(error.to_string().contains(&words), "{error}");
        assert!(
            db.query_row("SELECT logforce_stats()", (), |_| Ok(()))
                .is_err()
        );
    }
}
