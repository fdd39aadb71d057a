use super::row::policy;
use super::text::{notes, text};
use super::*;
use crate::result::legend::EVERYTHING;
use crate::testing::{MemDirectory, document, facts as disk, setup};
use logforce_device::{Assessment, Guarantee};
use logforce_terminal::layout::widest;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A database in memory that loses, doubles or refuses rows on request.
#[derive(Clone)]
struct Fake {
    setting: Setting,
    rows: Arc<Mutex<Vec<Sale>>>,
    inserts: Arc<AtomicU64>,
    loses: Option<u64>,
    doubles: Option<u64>,
    fails_at: Option<u64>,
    interrupts_at: Option<(u64, crate::Interrupt)>,
}

fn fake(policy: Policy, second_log: bool) -> Fake {
    Fake {
        setting: Setting {
            system: "Fake".to_owned(),
            version: "1.0".to_owned(),
            settings: format!("policy {}, {second_log}", policy.number()),
            policy: Some(policy),
            second_log: Some(second_log),
            usual: true,
            worth: Some(Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Declared,
                Source::Device,
                "it says so",
            )),
            on_this_disk: true,
            by_fua: false,
        },
        rows: Arc::default(),
        inserts: Arc::default(),
        loses: None,
        doubles: None,
        fails_at: None,
        interrupts_at: None,
    }
}

impl SalesLedger for Fake {
    fn setting(&self) -> &Setting {
        &self.setting
    }
    fn open(&self) -> Result<Box<dyn Table>, MeasureError> {
        self.rows.lock().unwrap().clear();
        self.inserts.store(0, Relaxed);
        Ok(Box::new(self.clone()))
    }
    fn read_back(&self, found: &mut ReadBack) -> Result<(), MeasureError> {
        for sale in &*self.rows.lock().unwrap() {
            for _ in 0..1 + u8::from(self.doubles == Some(sale.id)) {
                found.see(Some(sale));
            }
        }
        Ok(())
    }
}

impl Table for Fake {
    fn session(&self) -> Result<Box<dyn Session>, MeasureError> {
        Ok(Box::new(self.clone()))
    }
    fn forces(&self) -> Option<u64> {
        Some(self.inserts.load(Relaxed))
    }
}

impl Session for Fake {
    fn insert_and_commit(&mut self, sale: &Sale) -> Result<(), MeasureError> {
        let nth = self.inserts.fetch_add(1, Relaxed);
        if Some(nth) == self.fails_at {
            return Err(MeasureError::NotOffered("planted".to_owned()));
        }
        if let Some((at, interrupt)) = &self.interrupts_at
            && nth == *at
        {
            interrupt.raise();
        }
        if self.loses != Some(sale.id) {
            self.rows.lock().unwrap().push(sale.clone());
        }
        Ok(())
    }
}

fn options() -> Options {
    Options {
        pairs: 20,
        rounds: 3,
        clients: vec![4, 1],
        time: Duration::from_micros(1),
        most: MOST,
    }
}

fn measured(fakes: Vec<Fake>) -> ScenarioOutcome<Facts> {
    let ledgers: Vec<Box<dyn SalesLedger>> = fakes.into_iter().map(|f| Box::new(f) as _).collect();
    run(&options(), &setup(&MemDirectory::new()), disk(), &ledgers).unwrap()
}

#[test]
fn one_client_makes_the_pairs_and_every_row_is_read_back() {
    let outcome = measured(vec![fake(Policy::Force, false)]);
    let clients: Vec<u64> = outcome.rows.iter().map(|r| r.clients).collect();
    assert_eq!(clients, [1, 4]);
    for row in &outcome.rows {
        assert_eq!(row.error, None);
        assert_eq!(row.pairs_s.is_some(), row.clients == 1);
        assert_eq!(row.forces_per_commit, Some(1.0));
        // Some inserts are made before the clock starts.
        let pairs = if row.clients == 1 { 3 * 20 } else { 0 };
        assert_eq!(row.rounds, (row.clients == 1).then_some(3));
        assert!(
            row.commits >= Some(1) && row.rows_checked > row.commits.map(|n| n + pairs),
            "{row:?}"
        );
    }
    let alone = Options {
        clients: vec![2],
        ..options()
    };
    let ledgers: Vec<Box<dyn SalesLedger>> = vec![Box::new(fake(Policy::Force, false))];
    let outcome = run(&alone, &setup(&MemDirectory::new()), disk(), &ledgers).unwrap();
    assert_eq!(
        (outcome.rows[0].clients, outcome.rows[0].commits),
        (1, Some(20))
    );
}

#[test]
fn a_row_that_is_not_there_once_has_no_numbers() {
    let (mut lost, mut twice, mut fails) = (
        fake(Policy::Force, false),
        fake(Policy::Write, false),
        fake(Policy::Later, false),
    );
    lost.loses = Some(7);
    twice.doubles = Some(7);
    fails.fails_at = Some(9);
    let outcome = measured(vec![lost, twice, fails, fake(Policy::Force, true)]);
    for (row, words) in outcome.rows.iter().step_by(2).zip([
        Some("1 acknowledged row missing, the first is number 7"),
        Some("1 row more than once"),
        Some("planted"),
        None,
    ]) {
        let error = row.error.as_deref();
        assert_eq!(error.is_some(), words.is_some(), "{row:?}");
        assert!(
            error
                .unwrap_or_default()
                .contains(words.unwrap_or_default()),
            "{row:?}"
        );
        assert_eq!(
            row.pairs_s.is_none() && row.guarantee.is_none(),
            words.is_some()
        );
    }
    let words = notes(&outcome.rows, PAIRS, &[]).join(" ");
    assert!(words.contains("n/a: Fake policy 1, false × 1"), "{words}");
}

#[test]
fn an_interrupted_row_is_no_whole_one_and_is_read_back_all_the_same() {
    let base = setup(&MemDirectory::new());
    let mut second = fake(Policy::Write, false);
    second.interrupts_at = Some((10, base.interrupt.clone()));
    let ledgers: Vec<Box<dyn SalesLedger>> =
        vec![Box::new(fake(Policy::Force, false)), Box::new(second)];
    let outcome = run(&options(), &base, disk(), &ledgers).unwrap();
    assert!(outcome.interrupted);
    // The first round of the first ledger is complete.
    assert_eq!(outcome.rows.len(), 2);
    assert_eq!(
        (outcome.rows[0].rounds, &outcome.rows[0].error),
        (Some(1), &None)
    );
    let last = &outcome.rows[1];
    assert_eq!(last.error.as_deref(), Some("interrupted"));
    assert_eq!((last.pairs_s, last.rows_checked), (None, Some(11)));
    let again = run(&options(), &base, disk(), &ledgers);
    assert!(matches!(again, Err(MeasureError::Interrupted)));
}

#[test]
fn what_overlaps_is_not_told_apart() {
    let mut outcome = published();
    for row in &mut outcome.rows {
        if row.policy != Some(1) || row.second_log == Some(false) {
            // Half of the rounds are as long as those of the row in the comparison.
            row.each = [0.6, 12.0, 21.0, 30.0].to_vec();
        }
    }
    let words = concluded(&outcome);
    for part in [
        "compared with inserts that are forced later (policy 2) too noisy to tell (1.00 to 20.0) and compared with",
        "a second log that is forced as well may take longer or not: too noisy to tell (0.70 to 31.5)",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
    // The gain of one log is unknown here too.
    assert!(!words.contains("would halve it"), "{words}");
}

#[test]
fn a_second_log_that_takes_as_long_halves_nothing() {
    let mut outcome = published();
    let one = outcome.rows[0].each.clone();
    for row in outcome.rows.iter_mut().filter(|r| r.policy == Some(1)) {
        row.each.clone_from(&one);
        row.pairs_s = row.pairs_s.map(|_| 12.0);
    }
    let words = concluded(&outcome);
    let part = "a second log that is forced as well takes as long as one (1.00 to 1.00 times)";
    assert!(words.contains(part), "{part}\n{words}");
    assert!(!words.contains("would halve it"), "{words}");
}

fn concluded(outcome: &ScenarioOutcome<Facts>) -> String {
    conclude(&outcome.rows, PAIRS, &outcome.more)
}

/// Returns rows with the published seconds of Linux.
fn published() -> ScenarioOutcome<Facts> {
    let mut outcome = measured(
        [false, true]
            .into_iter()
            .flat_map(|second| Policy::ALL.map(|policy| fake(policy, second)))
            .collect(),
    );
    for row in &mut outcome.rows {
        let policy = policy(row).unwrap();
        let of = published::Published::of(policy, row.second_log.unwrap()).unwrap();
        if row.clients == 1 {
            row.pairs_s = Some(of.linux_s);
            row.each = [0.9, 1.0, 1.1, 1.0, 100.0].map(|n| of.linux_s * n).to_vec();
        }
        row.commits_per_s = Some(500.0 / of.linux_s);
        row.verdict = Some(Verdict::Declared);
        row.evidence = Some("it says so".to_owned());
    }
    outcome
}

#[test]
fn figures_like_the_published_ones_say_what_was_paid_for() {
    let outcome = published();
    let words = concluded(&outcome);
    for part in [
        "Fake: 500 inserts that are each forced take 12.00 s, 20 times as long as inserts that are forced later \
         (policy 2) and 20 times",
        "Published: 14 s on Windows and 12 s on Linux, which is 3.5 and 20 times as long as policy 2.",
        "a second log that is forced as well makes that 1.8 times as long (published: 2.3 and 1.8 times)",
        "one log in the place of two would halve it",
        "42 durable inserts a second, one after the other. A hard disk of 7200 rpm could make up to 120,",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
}

#[test]
fn a_disk_that_is_faster_than_a_platter_is_said_to_be_none() {
    let mut outcome = published();
    for row in &mut outcome.rows {
        row.pairs_s = row.pairs_s.map(|s| s / 100.0);
        row.commits_per_s = row.commits_per_s.map(|n| n * 100.0);
    }
    let words = concluded(&outcome);
    assert!(
        words.contains("needs 4.2 s for 500 forced inserts; this one makes 4167 a second"),
        "{words}"
    );
    assert!(
        words.contains("they are so by the device's word"),
        "{words}"
    );
    for row in &mut outcome.rows {
        row.verdict = Some(Verdict::Proven);
    }
    assert!(concluded(&outcome).contains("Power cuts have shown"));
    outcome.rows[0].verdict = Some(Verdict::Implausible);
    assert!(concluded(&outcome).contains("Not all of these inserts can have been durable"));
    // Rows without a force do not count.
    outcome.rows.retain(|r| r.policy != Some(1));
    assert!(concluded(&outcome).contains("Too little was measured"));
}

#[test]
fn commits_that_reach_no_disk_are_not_believed() {
    let mut row = published().rows[0].clone();
    let setting = fake(Policy::Force, false).setting;
    (row.commits, row.p50_us) = (Some(100), Some(500.0));
    row.device_flushes_per_commit = Some(1.0);
    judge(&mut row, &setting, &disk());
    assert_eq!(row.verdict, Some(Verdict::Declared));
    row.device_flushes_per_commit = Some(0.01);
    judge(&mut row, &setting, &disk());
    assert_eq!(row.verdict, Some(Verdict::Implausible));
    assert!(row.evidence.unwrap().contains("0.01 flushes per commit"));
}

#[test]
fn the_text_has_the_published_seconds_beside_ours_and_fits() {
    let outcome = published();
    let mut report = document(Kind::Inserts);
    report.conclusion = concluded(&outcome);
    report.notes = notes(&outcome.rows, PAIRS, &[]);
    report.rows = outcome.rows;
    for width in [120, 80] {
        let text = text(&report, PAIRS, EVERYTHING, width);
        assert!(widest(&text) <= width, "{text}");
        let line = |begins: &str| {
            let line = text
                .lines()
                .find(|l| l.trim_start().starts_with(begins))
                .unwrap();
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(line("1     off"), ["1", "off", "14", "12", "12.000"]);
        assert_eq!(
            line("policy 1 : 2, two logs")[6..],
            ["8.00", "23.3", "23.3"]
        );
        assert_eq!(
            line("two logs : one, policy 1")[6..],
            ["2.29", "1.75", "1.75"]
        );
        assert!(
            text.contains("power-loss: it says so (Fake policy 1, false;"),
            "{text}"
        );
    }
}
