//! Known bugs that random runs hardly find, each with the test that catches it. The test runs in a child
//! process of this program, with the bug switched on.

use std::process::Command;

/// Known bugs (the list `PAGES_BY_TEST` of `sim/src/known_bugs/pages.rs`) and the tests that catch them.
const SUSPECTS: [(&str, &str); 27] = [
    (
        "page-map-checksum-ignored",
        "map_damage::a_rotten_sector_of_the_map_is_damage_and_never_an_empty_page",
    ),
    (
        "map-change-forgotten",
        "space::dropped_pages_stay_dropped_where_a_write_met_a_full_disk",
    ),
    (
        "lost-page-forgotten",
        "map_damage::a_snapshot_never_shows_a_damaged_page_as_zeroes",
    ),
    (
        "end-not-cleared",
        "map_damage::what_a_crash_left_at_the_end_of_the_data_file_is_no_damage",
    ),
    ("taken-page-conflicts", CONTENTION),
    ("taken-page-forgotten", CONTENTION),
    (
        "versions-kept",
        "space::older_versions_give_their_space_back_when_nobody_reads_them",
    ),
    (
        "table-checksum-unverified",
        "cow_damage::damage_is_told_with_the_page_and_never_served",
    ),
    ("cow-full-disk-wedges", FULL),
    ("cow-no-reserve", FULL),
    (
        "cow-standing-hold-outdated",
        "cow_basics::a_new_view_shows_every_commit_before_it",
    ),
    (
        "cow-standing-hold-kept",
        "cow_places::a_reader_that_has_ended_keeps_no_places",
    ),
    (
        "commit-without-room",
        "space::a_commit_without_room_in_the_data_file_is_refused",
    ),
    (
        "blocks-taken-again",
        "space::growth_leaves_pages_alone_that_are_being_written",
    ),
    ("inspected-table-believed", BESIDE_A_WRITER),
    ("inspected-map-believed", BESIDE_A_WRITER),
    (
        "cow-home-not-held",
        "backup::a_backup_of_a_state_that_was_not_durable_reads_no_later_place",
    ),
    ("backup-named-early", CUT_BACKUP),
    ("unfinished-backup-taken", CUT_BACKUP),
    (
        "old-copy-shown",
        "reading::a_page_that_is_read_again_and_again_shows_what_was_committed_last",
    ),
    (
        "cow-lost-node-ignored",
        "cow_damage::a_lost_node_takes_nothing_with_it",
    ),
    ("page-location-unchecked", TAKEN_AWAY),
    ("page-files-unwatched", TAKEN_AWAY),
    ("data-file-unlocked", LOCK_DELETED),
    ("control-unlocked", LOCK_DELETED),
    (
        "one-lane-asked",
        "reading::snapshots_of_many_threads_stay_as_they_are",
    ),
    (
        "doubt-accepted",
        "verdicts::what_nobody_answers_for_is_accepted_by_name_alone",
    ),
];

const FULL: &str = "cow_full::a_full_file_is_overwritten_and_emptied";
const LOCK_DELETED: &str = "displaced::a_deleted_lock_lets_no_second_opener_in";
const TAKEN_AWAY: &str = "displaced::noticed_within_a_second_of_commits";
const CONTENTION: &str = "contention::a_conflict_is_with_a_commit_that_a_new_transaction_sees";

const CUT_BACKUP: &str = "backup::a_cut_leaves_the_whole_backup_or_none";

const BESIDE_A_WRITER: &str = "inspect::beside_a_writer_nothing_is_called_damage_but_what_is";

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
