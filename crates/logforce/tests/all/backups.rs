//! Progress reports of a backup. The simulation and the guide's tests check its contents.

use crate::common::*;

/// Each byte counts twice, because the backup copies it and reads it back. Otherwise a progress bar would be
/// full after half of the time.
#[test]
fn a_backup_tells_how_far_it_is() {
    let home = temp();
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    for _ in 0..10 {
        log.commit(vec![7; 1 << 20]).unwrap();
    }
    let mut told = Vec::new();
    let made = log.backup(
        home.path().join("copy"),
        logforce::BackupOptions::new().progress(|done, all| told.push((done, all))),
    );
    let all = 2 * made.unwrap().bytes;
    assert!(
        told.is_sorted() && told.iter().all(|(_, of)| *of == all),
        "{told:?}"
    );
    assert_eq!(told.last(), Some(&(all, all)));
    let read_back = told.iter().filter(|(done, _)| *done > all / 2).count();
    assert!(read_back >= 5 && told.len() - read_back >= 5, "{told:?}");
}
