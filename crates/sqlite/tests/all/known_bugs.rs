//! Known bugs of the VFS, each with the test that catches it. The test runs in a child process of this
//! program, with the bug switched on. Power cuts catch the others: see the list in `crates/powercut`.

use std::process::Command;

const CRASH: &str = "journals::a_crash_within_a_transaction_is_undone_by_stock";

const SUSPECTS: [(&str, &str); 7] = [
    (
        "sqlite-rolled-back-frames-kept",
        "logs::what_was_rolled_back_replaces_no_commit",
    ),
    (
        "sqlite-visible-before-written",
        "logs::stock_sees_each_commit_at_once",
    ),
    (
        "sqlite-group-not-waited-for",
        "logs::connections_share_syncs_of_group_commits",
    ),
    (
        "sqlite-journal-identity-unchecked",
        "journals::a_journal_that_stock_has_deleted_is_made_anew",
    ),
    ("sqlite-database-before-journal", CRASH),
    (
        "sqlite-super-journal-kept",
        "journals::a_transaction_of_two_files_leaves_no_name_behind",
    ),
    (
        "sqlite-second-descriptor",
        "logs::another_process_is_kept_out",
    ),
];

#[test]
fn planted_bugs_are_caught() {
    let mut missed = Vec::new();
    for (name, test) in SUSPECTS {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("LOGFORCE_PLANTED", name)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        // A child process that does not start, or ends by a signal, does not count as a failed test.
        if text.contains(&format!("test {test} ... FAILED")) {
            println!("{name}: caught by {test}");
        } else {
            println!("{name}: NOT caught by {test}: {}", output.status);
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
