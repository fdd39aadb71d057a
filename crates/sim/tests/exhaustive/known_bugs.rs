//! Checks that each known bug of the list is caught, by running this same program with the bug.

use logforce_sim::known_bugs::EXHAUSTIVE;
use std::process::Command;

const BACKUP_CRASHES: &str = "backups::a_crash_at_every_operation";
const FAILED_SYNCS: &str = "page_file::failures::every_failing_operation_then_an_opening_and_a_cut";
const REPAIR_CRASHES: &str = "repairs::a_power_cut_in_a_repair_loses_nothing";
const REPAIRS_LATER: &str = "repairs::what_was_cut_stays_cut";

/// Test that must catch each bug. Other tests would only take time.
const SUSPECTS: [(&str, &str); 37] = [
    (
        "file-bound-not-kept",
        "bounds::commits_within_a_bound_wait_for_a_slow_device",
    ),
    (
        "file-through-goes-first",
        "bounds::durable_writes_let_a_submitted_commit_pass",
    ),
    (
        "header-checksum-ignored",
        "bits::every_bit_of_a_crashed_log",
    ),
    (
        "segment-header-checksum-ignored",
        "bits::every_bit_of_a_closed_log",
    ),
    ("metadata-checksum-ignored", "bits::every_bit_of_both_slots"),
    ("lost-metadata-is-none", "bits::every_bit_of_both_slots"),
    (
        "short-segment-accepted",
        "lengths::every_length_of_a_closed_log",
    ),
    ("epoch-not-announced", "bits::every_bit_of_a_crashed_log"),
    (
        "control-named-before-forced",
        "names::every_subset_of_names",
    ),
    ("tail-not-forced", "pairs::every_pair_of_crashes"),
    ("control-not-settled", "pairs::every_pair_of_crashes"),
    ("metadata-not-settled", "pairs::every_pair_of_crashes"),
    ("epoch-not-forced", "pairs::every_pair_of_crashes"),
    ("spare-of-two-names", "names::every_file_is_another_spare"),
    (
        "any-error-is-damage",
        "failing_calls::every_call_on_a_closed_log",
    ),
    (
        "one-look-at-the-medium",
        "failing_calls::every_call_on_a_closed_log",
    ),
    (
        "short-read-is-the-end",
        "failing_calls::every_call_on_a_crashed_log",
    ),
    (
        "control-slot-error-is-damage",
        "failing_calls::every_call_on_a_closed_log",
    ),
    (
        "header-error-is-damage",
        "failing_calls::every_call_on_a_closed_log",
    ),
    (
        "listing-believed",
        "failing_calls::every_call_on_a_closed_log",
    ),
    (
        "write-limit-unannounced",
        "limit::every_batch_of_a_crashed_log_is_lost",
    ),
    ("backup-begun-unsynced", BACKUP_CRASHES),
    ("backup-segment-unforced", BACKUP_CRASHES),
    ("backup-names-unsynced", BACKUP_CRASHES),
    ("backup-done-unsynced", BACKUP_CRASHES),
    ("backup-control-first", BACKUP_CRASHES),
    (
        "backup-of-what-was-truncated",
        "backups::a_truncation_at_every_step",
    ),
    (
        "checkpoint-in-one-write",
        "standbys::every_pair_of_crashes_of_a_standby",
    ),
    (
        "close-waits-for-its-caller",
        "backups::a_close_at_every_step",
    ),
    ("recovered-drop-believed", FAILED_SYNCS),
    ("cleared-page-believed", FAILED_SYNCS),
    ("copy-unforced", REPAIR_CRASHES),
    ("repair-begins-at-once", REPAIR_CRASHES),
    ("cut-is-left", REPAIRS_LATER),
    ("cut-end-unforced", REPAIRS_LATER),
    ("chunk-cut-short", "imports::every_length_of_every_chunk"),
    (
        "replica-behind-a-repair",
        "imports::a_repaired_log_and_the_chunks_from_before",
    ),
];

#[test]
fn planted_bugs_are_caught() {
    assert_eq!(SUSPECTS.map(|s| s.0).to_vec(), {
        let names: Vec<&str> = EXHAUSTIVE.iter().map(|p| p.name).collect();
        names
    });
    let mut missed = Vec::new();
    for (name, test) in SUSPECTS {
        let test = &format!("exhaustive::{test}");
        let program = std::env::current_exe().expect("a program knows where it is");
        let output = Command::new(program)
            .args(["--exact", test])
            .env("LOGFORCE_PLANTED", name)
            .output()
            .expect("the program starts again");
        let text = String::from_utf8_lossy(&output.stdout);
        // A failed start or a signal does not count as a failed test.
        let failed = text.contains(&format!("test {test} ... FAILED"));
        if failed && output.status.code() == Some(101) {
            println!("{name}: caught by {test}");
        } else {
            println!("{name}: NOT caught by {test}: {}", output.status);
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
