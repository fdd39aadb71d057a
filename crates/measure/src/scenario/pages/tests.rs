use super::text::{notes, text};
use super::*;
use crate::result::legend::EVERYTHING;
use crate::testing::{MemDirectory, document, facts, setup};
use logforce_device::Guarantee;
use std::sync::atomic::Ordering::Relaxed;

fn options() -> Options {
    Options {
        pages: vec![1, 5, 20],
        size: 1 << 20,
        rounds: 2,
        slice: Duration::from_micros(1),
        cached: false,
    }
}

#[test]
fn each_way_makes_the_writes_and_barriers_that_it_claims() {
    let dir = MemDirectory::new();
    let outcome = options().run(&setup(&dir)).unwrap();
    assert_eq!(outcome.rows.len(), 2 * 3 * 3);
    assert!(outcome.more && !outcome.interrupted);
    for row in &outcome.rows {
        assert_eq!((row.error.as_ref(), row.slices), (None, Some(2)), "{row:?}");
        let runs = match row.layout.known().unwrap() {
            Layout::Contiguous => 1.0,
            Layout::Scattered => row.pages as f64,
        };
        let (writes, through, barriers) = match row.way.known().unwrap() {
            Way::WriteThrough => (row.pages as f64, row.pages as f64 + 1.0, 0.0),
            Way::Gathered => (runs, runs + 1.0, 0.0),
            Way::Barrier => (runs, 0.0, 2.0),
        };
        assert_eq!(row.writes_per_commit, Some(writes + 1.0), "{row:?}");
        assert_eq!(row.through_per_commit, Some(through), "{row:?}");
        assert_eq!(row.barriers_per_commit, Some(barriers), "{row:?}");
        assert_eq!(row.guarantee, Some(Guarantee::PowerLoss));
        assert!(row.ratio.is_some());
    }
}

#[test]
fn what_the_system_does_not_have_is_said_and_not_imitated() {
    let mut macos = facts();
    macos.platform = Platform::Macos;
    let dir = MemDirectory::with_facts(macos);
    let outcome = options().run(&setup(&dir)).unwrap();
    for row in &outcome.rows {
        let is_barrier = row.way == Way::Barrier;
        assert_eq!(row.error.is_none(), is_barrier, "{row:?}");
    }
    let words = notes(&outcome).join(" ");
    assert!(
        words.contains("macOS has no write that is durable by itself"),
        "{words}"
    );
    assert!(conclude(&outcome.rows).contains("Nothing can be written through here"));
}

#[test]
fn a_disk_that_fails_is_told_in_its_rows() {
    let dir = MemDirectory::new();
    dir.shared.bad_through.store(true, Relaxed);
    let outcome = options().run(&setup(&dir)).unwrap();
    for row in &outcome.rows {
        let failed = row
            .error
            .as_ref()
            .is_some_and(|e| e.contains("planted write error"));
        assert_eq!(failed, row.way != Way::Barrier, "{row:?}");
    }
    let mut full = setup(&dir);
    full.space.free = 1 << 20;
    let Err(e) = options().run(&full) else {
        panic!("there is no space")
    };
    assert!(e.to_string().contains("not enough free space"), "{e}");
}

fn made_up(layout: Layout, way: Way, pages: u64, ratio: f64) -> Row {
    Row {
        commits_per_s: Some(1000.0 / ratio),
        ratio: Some(ratio),
        ratio_p10: Some(ratio * 0.95),
        ratio_p90: Some(ratio * 1.05),
        each: [0.95, 1.0, 1.05].map(|n| ratio * n).to_vec(),
        layout: layout.into(),
        way: way.into(),
        pages,
        ..Row::of(Kind::Pages)
    }
}

/// Returns rows with these ratios of write-through one by one at 1, 10 and 80 pages. Gathered writes have
/// half of them.
fn figures(contiguous: [f64; 3], scattered: [f64; 3]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (layout, ratios) in [
        (Layout::Contiguous, contiguous),
        (Layout::Scattered, scattered),
    ] {
        for (pages, ratio) in [1, 10, 80].into_iter().zip(ratios) {
            rows.push(made_up(layout, Way::WriteThrough, pages, ratio));
            rows.push(made_up(layout, Way::Gathered, pages, ratio / 2.0));
            rows.push(Row {
                each: vec![1.0; 3],
                ..made_up(layout, Way::Barrier, pages, 1.0)
            });
        }
    }
    rows
}

#[test]
fn the_conclusion_flips_with_the_figures() {
    let words = conclude(&figures([0.5, 0.8, 1.5], [2.0, 3.0, 9.0]));
    for part in [
        "Contiguous pages, written through one by one, beside one barrier: cheaper from 1 to 10 pages; more expensive at 80 pages (1.50 times the barrier's time at 80).",
        "Contiguous pages, gathered and written through, beside one barrier: cheaper from 1 to 80 pages (0.75 times the barrier's time at 80).",
        "Scattered pages, written through one by one, beside one barrier: more expensive from 1 to 80 pages (9.00 times",
        "Scattered pages, gathered and written through, beside one barrier: the same at 1 page; more expensive from 10 to 80 pages (4.50 times",
        "Published: they cross between 40 and 80 pages.",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
    let words = conclude(&figures([2.0, 3.0, 9.0], [0.5, 0.8, 1.5]));
    for part in [
        "Contiguous pages, written through one by one, beside one barrier: more expensive from 1",
        "Scattered pages, written through one by one, beside one barrier: cheaper from 1 to 10",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
    assert!(conclude(&[]).starts_with("Nothing can be written through"));
}

/// The ratio is 35 in some rounds, so nothing may be called the same.
#[test]
fn noise_is_not_called_the_same() {
    let mut rows = figures([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]);
    for row in rows.iter_mut().filter(|r| r.way == Way::WriteThrough) {
        row.each = vec![0.6, 1.0, 35.0, 0.9];
    }
    let words = conclude(&rows);
    let part = "written through one by one, beside one barrier: too noisy to tell (0.60 to 35.0) from 1 to 80 pages.";
    assert!(words.contains(part), "{words}");
    assert!(!words.contains("the same"), "{words}");
    // Two rounds are too few for any result.
    rows.iter_mut().for_each(|r| r.each.truncate(2));
    let words = conclude(&rows);
    assert!(
        words.contains("too little was measured to tell from 1 to 80 pages"),
        "{words}"
    );
}

#[test]
fn the_table_has_the_published_figures_beside_ours() {
    let rows = figures([0.5, 0.8, 1.5], [2.0, 3.0, 9.0]);
    let mut report = document(Kind::Pages);
    report.conclusion = conclude(&rows);
    report.rows = rows;
    let words = text(&report, EVERYTHING, 120);
    assert!(words.lines().all(|l| l.chars().count() <= 120), "{words}");
    let line = |from: &str, start: &str| {
        let (_, behind) = words.split_once(from).unwrap();
        let mut lines = behind.lines().map(str::trim);
        lines.find(|l| l.starts_with(start)).unwrap().to_owned()
    };
    let contiguous = line("contiguous:", "80 ");
    assert!(
        contiguous.ends_with("14         17       1.21"),
        "{contiguous}"
    );
    let scattered = line("scattered:", "80 ");
    assert!(scattered.ends_with('-'), "{scattered}");
    assert!(text(&report, EVERYTHING, 60).contains("left out on this narrow terminal"));
}
