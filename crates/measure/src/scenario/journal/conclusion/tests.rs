use super::*;
use crate::result::Name;
use crate::testing::row;
use logforce_device::FileState;

fn conclude(rows: &[Row]) -> Conclusion {
    super::conclude(rows, Platform::Linux)
}

use FileState::{Fallocated, Growing, Recycled, Zeroed};
use Method::{Buffered, Direct, DirectDsync, DirectFdatasync, Dsync, Fdatasync};

#[test]
fn a_clear_winner_is_named_with_its_worth() {
    let rows = [
        row(Buffered, Zeroed, 0.004),
        row(Direct, Zeroed, 0.05),
        row(Fdatasync, Zeroed, 0.10),
        row(Fdatasync, Recycled, 0.11),
        row(DirectDsync, Zeroed, 0.20),
        row(Fdatasync, Fallocated, 0.21),
    ];
    let c = conclude(&rows);
    assert_eq!(c.recommended, Some(Fdatasync));
    for part in [
        "Use fdatasync here",
        "0.105 ms",
        "declared",
        "fallocated file took 2.0 times",
        "os-crash",
        "process-crash",
    ] {
        assert!(c.text.contains(part), "'{part}' in: {}", c.text);
    }
}

#[test]
fn within_the_margin_the_default_is_kept() {
    let c = conclude(&[
        row(DirectFdatasync, Zeroed, 0.100),
        row(DirectDsync, Zeroed, 0.109),
    ]);
    assert_eq!(c.recommended, Some(DirectDsync));
    assert!(
        c.text.starts_with("Use direct+dsync here, the default")
            && c.text
                .contains("The same: direct+fdatasync (0.100 ms, 0.92 to 0.92 times)"),
        "{}",
        c.text
    );
    assert!(c.text.contains("default"));
}

/// The default measured slower, and the noise does not make it as fast.
#[test]
fn noise_recommends_no_slower_method() {
    let mut noisy = row(DirectFdatasync, Zeroed, 0.100);
    noisy.each = vec![0.05, 0.15, 0.05, 0.15];
    let c = conclude(&[noisy, row(DirectDsync, Zeroed, 0.140)]);
    assert_eq!(c.recommended, Some(DirectFdatasync));
    for part in [
        "Use direct+fdatasync here, the fastest measured: 0.100 ms",
        "Perhaps as fast: direct+dsync (0.140 ms, too noisy to tell (0.93 to 2.80)).",
    ] {
        assert!(c.text.contains(part), "'{part}' in: {}", c.text);
    }
    // The rows of a run beside builds: the default took 2.5 times as long as the first.
    let times: [(Method, f64, [f64; 4]); 3] = [
        (Fdatasync, 0.64, [0.3, 0.4, 3.9, 0.5]),
        (Dsync, 0.66, [0.4, 2.1, 0.3, 0.6]),
        (DirectDsync, 1.6, [0.2, 3.8, 3.6, 0.4]),
    ];
    let rows = times.map(|(method, ms, each)| Row {
        each: each.to_vec(),
        ..row(method, Zeroed, ms)
    });
    let c = conclude(&rows);
    assert_eq!(c.recommended, Some(Fdatasync), "{}", c.text);
    assert!(!c.text.contains("The same"), "{}", c.text);
    assert!(
        c.text.contains("too noisy to tell (0.67 to 9.50)"),
        "{}",
        c.text
    );
}

#[test]
fn filled_files_are_advised_only_beyond_the_noise() {
    let mut unfilled = row(DirectDsync, Fallocated, 0.2);
    let advised = |unfilled: &Row| {
        let text = conclude(&[row(DirectDsync, Zeroed, 0.1), unfilled.clone()]).text;
        text.contains("Fill files beforehand: the same on a fallocated file took 2.0 times as long (2.00 to 2.00)")
    };
    assert!(advised(&unfilled));
    unfilled.each = vec![0.05, 0.4, 0.2, 0.1];
    assert!(!advised(&unfilled));
}

#[test]
fn a_handful_of_commits_decides_nothing() {
    // A hundred times as fast, but measured with too few commits or slices.
    for (commits, slices) in [(1, 1), (2, 2), (1000, 1), (1000, 2), (19, 4), (0, 0)] {
        let mut hasty = row(Fdatasync, Zeroed, 0.001);
        (hasty.commits, hasty.each) = (Some(commits), vec![0.001; slices]);
        let mut slow = row(DirectDsync, Zeroed, 0.1);
        let c = conclude(&[hasty.clone(), slow.clone()]);
        assert_eq!(c.recommended, None, "{}", c.text);
        for part in [
            "it is unknown which",
            "too little was measured of fdatasync (",
            "--seconds",
            "the default is direct+dsync",
        ] {
            assert!(c.text.contains(part), "'{part}' in: {}", c.text);
        }
        // The same if the slower method was measured too little.
        (slow.commits, slow.each) = (Some(commits), vec![0.1; slices]);
        let c = conclude(&[row(Fdatasync, Zeroed, 0.001), slow.clone()]);
        assert_eq!(c.recommended, None, "{}", c.text);
        let c = conclude(&[hasty.clone(), slow]);
        let both = "measured of fdatasync and direct+dsync (";
        assert!(c.text.contains(both), "{}", c.text);
        // A single method needs no comparison.
        let c = conclude(&[hasty.clone()]);
        assert_eq!(c.recommended, Some(Fdatasync));
        assert!(c.text.contains("Too little was measured"), "{}", c.text);
        // Another file that was measured long enough is used instead.
        let long = row(Fdatasync, Recycled, 0.2);
        let c = conclude(&[hasty, long, row(DirectDsync, Zeroed, 0.1)]);
        assert_eq!(c.recommended, Some(DirectDsync), "{}", c.text);
        assert!(
            c.text.contains("against 0.200 ms by fdatasync"),
            "{}",
            c.text
        );
    }
    let mut enough = row(Fdatasync, Zeroed, 0.01);
    (enough.commits, enough.each) = (Some(20), vec![0.01; 3]);
    let c = conclude(&[enough, row(DirectDsync, Zeroed, 0.1)]);
    assert_eq!(c.recommended, Some(Fdatasync), "{}", c.text);
    assert!(!c.text.contains("--seconds"), "{}", c.text);
}

#[test]
fn evidence_that_cannot_be_read_is_why_nothing_is_safe() {
    let mut forced = row(Fdatasync, Zeroed, 0.1);
    (forced.guarantee, forced.verdict) = (Some(Guarantee::OsCrash), Some(Verdict::Unknown));
    forced.evidence = Some("cannot read /cache/verdicts".to_owned());
    let c = conclude(&[row(Buffered, Zeroed, 0.01), forced]);
    assert_eq!(c.recommended, None);
    assert!(c.text.contains("cannot read /cache/verdicts"), "{}", c.text);
}

#[test]
fn a_tie_of_others_takes_the_fastest() {
    let c = conclude(&[
        row(Fdatasync, Zeroed, 0.100),
        row(Dsync, Zeroed, 0.105),
        row(DirectDsync, Zeroed, 0.3),
    ]);
    assert_eq!(c.recommended, Some(Fdatasync));
    assert!(
        c.text
            .contains("The same: dsync (0.105 ms, 1.05 to 1.05 times)"),
        "{}",
        c.text
    );
}

#[test]
fn the_implausible_is_not_recommended() {
    let mut fast = row(Fdatasync, Zeroed, 0.01);
    (fast.verdict, fast.evidence) = (
        Some(Verdict::Implausible),
        Some("no flush reached it".to_owned()),
    );
    let c = conclude(&[fast.clone(), row(DirectDsync, Zeroed, 0.2)]);
    assert_eq!(c.recommended, Some(DirectDsync));
    assert!(
        c.text.contains("Implausible") && c.text.contains("no flush reached it"),
        "{}",
        c.text
    );
    let c = conclude(&[fast]);
    assert_eq!(c.recommended, None);
    assert!(
        c.text.starts_with("No row is safe here") && c.text.contains("Implausible"),
        "{}",
        c.text
    );
}

#[test]
fn nothing_safe_says_why() {
    let mut memory = row(Fdatasync, Zeroed, 0.001);
    (memory.guarantee, memory.verdict) =
        (Some(Guarantee::ProcessCrash), Some(Verdict::Contradicted));
    memory.evidence = Some("tmpfs keeps files in memory".to_owned());
    let c = conclude(&[memory]);
    assert_eq!(c.recommended, None);
    assert!(
        c.text.contains("No row is safe") && c.text.contains("tmpfs keeps files in memory"),
        "{}",
        c.text
    );
    assert_eq!(conclude(&[row(Buffered, Zeroed, 0.1)]).recommended, None);
    assert_eq!(conclude(&[]).recommended, None);
}

#[test]
fn without_filled_files_it_says_so() {
    let c = conclude(&[row(DirectDsync, Growing, 0.2)]);
    assert_eq!(c.recommended, Some(DirectDsync));
    assert!(c.text.contains("none was filled beforehand"));
}

#[test]
fn the_log_stands_beside_the_raw_row_of_its_method() {
    let log = |threads, bytes, ms: f64| Row {
        subject: SubjectKind::Logforce.into(),
        file_state: Name::default(),
        threads,
        bytes,
        file_bytes_per_commit: Some(20480.0),
        ..row(DirectDsync, Zeroed, ms)
    };
    let rows = [
        row(DirectDsync, Zeroed, 0.1),
        row(DirectDsync, Recycled, 0.1),
        row(DirectDsync, Fallocated, 9.0),
        log(1, 16384, 0.11),
        log(64, 128, 0.01),
    ];
    let text = conclude(&rows).text;
    for part in [
        "The log, by direct+dsync, took 1.1 times as long for 16 KiB",
        "20.0 KiB",
        "100000 commits of 128 B a second from 64 threads",
    ] {
        assert!(text.contains(part), "'{part}' in: {text}");
    }
    assert!(!conclude(&rows[..3]).text.contains("The log"));
}

#[test]
fn the_logs_figures_are_those_by_the_recommended_method() {
    let log = |method, ms| Row {
        subject: SubjectKind::Logforce.into(),
        file_state: Name::default(),
        threads: 64,
        ..row(method, Zeroed, ms)
    };
    let rows = [
        row(Fdatasync, Zeroed, 0.1),
        row(Buffered, Zeroed, 0.004),
        log(Buffered, 0.001),
        log(Fdatasync, 0.01),
    ];
    let text = conclude(&rows).text;
    assert!(
        text.contains("Highest rate of the log, by fdatasync: 100000 commits"),
        "{text}"
    );
    assert!(
        !text.contains("Highest rate of the log, by buffered"),
        "{text}"
    );
    // If the log was measured by another method only, that method is named.
    let text = conclude(&rows[..3]).text;
    assert!(
        text.contains("Highest rate of the log, by buffered: 1000000"),
        "{text}"
    );
}

#[test]
fn a_row_of_the_log_is_held_against_as_many_bytes_on_disk() {
    use crate::scenario::journal::row::reference;
    let log = Row {
        subject: SubjectKind::Logforce.into(),
        file_state: Name::default(),
        bytes: 128,
        file_bytes_per_commit: Some(4098.0),
        ..row(DirectDsync, Zeroed, 0.11)
    };
    let raw = Row {
        bytes: 4096,
        ..row(DirectDsync, Zeroed, 0.1)
    };
    let other = Row {
        bytes: 4096,
        ..row(Fdatasync, Zeroed, 0.05)
    };
    let rows = [raw, other, log];
    assert_eq!(reference(&rows, &rows[2]), Some(0.1));
    assert_eq!(reference(&rows, &rows[0]), Some(0.05));
    assert_eq!(reference(&rows[1..], &rows[2]), None);
}

/// Returns the rows of every method of Windows on one file. The flush is slower than the rest, and
/// `verdict` is the verdict on write-through.
fn windows(verdict: Verdict) -> Vec<Row> {
    let rows = Method::WINDOWS.map(|m| {
        let through = m.plan().force == ForceBy::Through;
        let mut row = row(m, Zeroed, if through { 0.1 } else { 0.4 });
        if through {
            row.verdict = Some(verdict);
            row.evidence = Some("so it says of write-through".to_owned());
        }
        row
    });
    rows.into()
}

#[test]
fn on_windows_a_write_through_is_named_only_if_somebody_vouches_for_it() {
    let c = super::conclude(&windows(Verdict::Declared), Platform::Windows);
    assert_eq!(c.recommended, Some(Method::WriteThrough), "{}", c.text);
    let c = super::conclude(&windows(Verdict::Unknown), Platform::Windows);
    assert_eq!(c.recommended, Some(Method::Flush), "{}", c.text);
    for part in [
        "The same: flush-data",
        "Use flush here, the default and the fastest",
        "Not preferred to a flush, however fast: no-buffering+write-through, write-through (so it says",
    ] {
        assert!(c.text.contains(part), "{part}: {}", c.text);
    }
    // The same on Linux, where a flush completes a write-through.
    let mut rows = [row(DirectDsync, Zeroed, 0.1), row(Fdatasync, Zeroed, 0.4)];
    rows[0].verdict = Some(Verdict::Unknown);
    assert_eq!(conclude(&rows).recommended, Some(DirectDsync));
}

#[test]
fn the_only_method_is_not_said_to_be_all_that_was_measured() {
    let mut through = row(Method::WriteThrough, Zeroed, 0.1);
    through.verdict = Some(Verdict::Unknown);
    let rows = [row(Method::Flush, Zeroed, 0.4), through];
    let of = |rows: &[Row]| super::conclude(rows, Platform::Windows).text;
    let words = "only method measured, beside those whose write-through is unknown, that survives";
    assert!(of(&rows).contains(words), "{}", of(&rows));
    assert!(of(&rows[..1]).contains("only method measured that survives"));
}

#[test]
fn a_write_through_alone_that_nobody_vouches_for_is_not_recommended() {
    let mut rows = windows(Verdict::Unknown);
    rows.retain(|r| method(r).unwrap().plan().force == ForceBy::Through);
    let c = super::conclude(&rows, Platform::Windows);
    assert_eq!(c.recommended, None);
    assert!(c.text.contains("so it says of write-through"), "{}", c.text);
}

#[test]
fn each_system_has_its_default_where_nothing_decides() {
    for platform in Platform::ALL {
        let rows: Vec<Row> = platform
            .methods()
            .iter()
            .map(|&m| row(m, Zeroed, 0.1))
            .collect();
        let c = super::conclude(&rows, platform);
        assert_eq!(c.recommended, Some(platform.first_choice()), "{}", c.text);
    }
}
