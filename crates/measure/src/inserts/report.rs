//! What was measured, for people and as data. Field names are kept compatible; see
//! `docs/bench-json.md`.

use super::published::{P5, SOURCE, ratios};
use super::{Outcome, Policy, Setting, Taken};
use crate::distribution::Distribution;
use crate::layout::{Column, empty_table, finish, fitted, sections, wrap};
use crate::numbers::{number, range, short};
use crate::report::as_name;
use crate::stats::spread;
use crate::survives::survives;
use crate::{MeasureError, Recorder, head, prose};
use logforce_device::{Guarantee, Verdict};
use serde::Serialize;

/// Value of `schema`.
pub const SCHEMA: &str = "logforce-inserts";
/// Value of `version`; grows only when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// One run of the command.
pub type Report = head::Report<Row>;

/// One setting and number of clients.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    /// The system.
    pub system: String,
    /// Its version; empty where it is this build's.
    pub system_version: String,
    /// Its settings, as its manual names them.
    pub settings: String,
    /// 1: forced at each commit, 2: written at each commit, 0: neither; `None` for none of these.
    pub policy: Option<u8>,
    /// Each transaction goes into a second log as well.
    pub second_log: Option<bool>,
    /// Ratios are of this one, where several rows have one policy.
    #[serde(skip)]
    pub usual: bool,
    /// The numbers of the device are those of its disk.
    #[serde(skip)]
    pub on_this_disk: bool,
    /// Clients that insert at the same time.
    pub clients: u32,
    /// Seconds of the pairs, in the order of the rounds.
    #[serde(skip)]
    pub all_pairs_s: Vec<f64>,
    /// How often the pairs were made.
    pub rounds: Option<u64>,
    /// Seconds of the pairs, median of the rounds.
    pub pairs_s: Option<f64>,
    /// A tenth of the rounds lies below.
    pub pairs_s_p10: Option<f64>,
    /// A tenth of the rounds lies above.
    pub pairs_s_p90: Option<f64>,
    /// Inserts from which the numbers below are.
    pub commits: u64,
    /// How long they took, seconds.
    pub seconds: Option<f64>,
    /// Inserts a second.
    pub commits_per_s: Option<f64>,
    /// Median latency, microseconds.
    pub p50_us: Option<f64>,
    /// 99 of 100 inserts took no longer, microseconds.
    pub p99_us: Option<f64>,
    /// The longest one, microseconds.
    pub max_us: Option<f64>,
    /// How the latencies of all commits are distributed.
    pub latencies_us: Option<Distribution>,
    /// Times that something was made durable, by inserts, as the system itself counts them.
    pub forces_per_commit: Option<f64>,
    /// Writes that the block device completed, by inserts; neighbours' count too.
    pub device_writes_per_commit: Option<f64>,
    /// Cache flushes likewise.
    pub device_flushes_per_commit: Option<f64>,
    /// Acknowledged rows that were read back, each exactly once.
    pub rows_checked: Option<u64>,
    /// Transactions that one of two logs lacked after the run, and that were redone from the other.
    pub redone: Option<u64>,
    /// What an acknowledged insert survives.
    #[serde(serialize_with = "as_name")]
    pub guarantee: Option<Guarantee>,
    /// How far that is to be believed.
    #[serde(serialize_with = "as_name")]
    pub verdict: Option<Verdict>,
    /// Why.
    pub evidence: Option<String>,
    /// Why there are no numbers.
    pub error: Option<String>,
}

impl Setting {
    /// In one line.
    pub fn name(&self) -> String {
        format!("{} {}", self.system, self.settings)
    }
}

impl Row {
    /// From all phases of a ledger with so many clients: rounds of pairs, and one by the clock. `None`
    /// where there are none.
    pub(super) fn measured(
        setting: &Setting,
        clients: u32,
        pairs: &[Taken],
        timed: Option<&Taken>,
    ) -> Option<Row> {
        let all = || pairs.iter().chain(timed);
        all().next()?;
        let checked = || all().filter_map(|t| t.checked.as_ref());
        let mut row = Row {
            system: setting.system.clone(),
            system_version: setting.version.clone(),
            settings: setting.settings.clone(),
            policy: setting.policy.map(Policy::number),
            second_log: setting.second_log,
            usual: setting.usual,
            on_this_disk: setting.on_this_disk,
            clients,
            rows_checked: checked().map(|c| c.rows).reduce(|a, b| a + b),
            redone: checked().filter_map(|c| c.redone).reduce(|a, b| a + b),
            error: all().find_map(Taken::problem),
            ..Row::default()
        };
        if row.error.is_some() {
            return Some(row);
        }
        // What was stopped is not whole; what came before it is.
        let Some(last) = all().filter_map(|t| t.recorder.as_ref()).next_back() else {
            row.error = Some(MeasureError::Interrupted.to_string());
            return Some(row);
        };
        let seconds: Vec<f64> = pairs.iter().filter_map(Taken::seconds).collect();
        let spread = spread(&seconds);
        row.rounds = (clients == 1).then_some(seconds.len() as u64);
        row.pairs_s = spread.map(|s| s.median);
        row.pairs_s_p10 = spread.map(|s| s.p10);
        row.pairs_s_p90 = spread.map(|s| s.p90);
        row.all_pairs_s = seconds;
        let commits: u64 = all().map(|t| t.acknowledged).sum();
        let forces = all().filter_map(|t| t.forces).reduce(|a, b| a + b);
        let forces = forces.filter(|_| commits > 0);
        row.forces_per_commit = forces.map(|n| n as f64 / commits as f64);
        row.guarantee = setting.worth.as_ref().map(|w| w.guarantee);
        row.verdict = setting.worth.as_ref().map(|w| w.verdict);
        row.evidence = setting.worth.as_ref().map(|w| w.evidence.clone());
        row.fill(last);
        Some(row)
    }

    fn fill(&mut self, part: &Recorder) {
        let (latencies, commits) = (part.latencies(), part.commits());
        let seconds = part.time().as_secs_f64();
        let by = |n: u64| (commits > 0).then(|| n as f64 / commits as f64);
        let device = part.device().filter(|_| self.on_this_disk);
        self.commits = commits;
        self.seconds = Some(seconds);
        self.commits_per_s = (seconds > 0.0).then(|| commits as f64 / seconds);
        self.p50_us = Some(latencies.quantile_us(0.5));
        self.p99_us = Some(latencies.quantile_us(0.99));
        self.max_us = Some(latencies.max_us());
        self.latencies_us = Distribution::of(latencies);
        self.device_writes_per_commit = device.and_then(|d| by(d.writes));
        self.device_flushes_per_commit = device.and_then(|d| d.flushes).and_then(by);
    }

    /// The policy, if it is one of the three.
    pub(super) fn policy(&self) -> Option<Policy> {
        Policy::ALL
            .into_iter()
            .find(|p| Some(p.number()) == self.policy)
    }

    fn title(&self) -> String {
        let space = if self.system_version.is_empty() {
            ""
        } else {
            " "
        };
        format!("{}{space}{}:", self.system, self.system_version)
    }

    fn survives(&self) -> String {
        survives(self.guarantee, self.verdict)
    }
}

const COLUMNS: [Column<Row>; 14] = [
    Column::text("settings", 0, |r| r.settings.clone()),
    Column::number("policy", 4, |r| {
        r.policy.map_or_else(|| "-".to_owned(), |p| p.to_string())
    }),
    Column::number("clients", 0, |r| r.clients.to_string()),
    Column::number("pairs\ns", 0, |r| match r.error {
        Some(_) => "n/a".to_owned(),
        None => number(r.pairs_s, 4),
    }),
    Column::number("8 of 10\nrounds", 7, |r| match r.pairs_s {
        Some(_) => range(r.pairs_s_p10, r.pairs_s_p90, 3),
        None => "-".to_owned(),
    }),
    Column::number("commits\nper s", 0, |r| number(r.commits_per_s, 1)),
    Column::number("p50\nµs", 0, |r| number(r.p50_us, 1)),
    Column::number("p99\nµs", 1, |r| number(r.p99_us, 1)),
    Column::number("max\nµs", 8, |r| number(r.max_us, 0)),
    Column::number("forces", 6, |r| number(r.forces_per_commit, 2)),
    Column::number("dev*\nwrites", 3, |r| number(r.device_writes_per_commit, 2)),
    Column::number("dev*\nflush", 2, |r| number(r.device_flushes_per_commit, 2)),
    Column::number("rows", 7, |r| number(r.rows_checked.map(|n| n as f64), 0)),
    Column::text("survives", 0, Row::survives),
];

/// How it was measured, and what the reader should know.
pub fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = vec![format!(
        "Each row: an empty table, lines of a sale of about {} bytes, each inserted and committed by \
         itself by clients that each have a connection of their own; then every acknowledged row is read \
         back and must be there exactly once. pairs: seconds for {} inserts by one client, median of the \
         rounds, in each of which every row has its turn; all else from one run by the clock after that, \
         where a neighbour that keeps the disk busy meets some rows and not others.",
        super::Sale::record_len(),
        outcome.pairs
    )];
    notes.extend(outcome.notes.iter().cloned());
    let redone: u64 = outcome.rows.iter().filter_map(|r| r.redone).sum();
    if outcome.rows.iter().any(|r| r.redone.is_some()) {
        let found = match redone {
            0 => "both held the same each time".to_owned(),
            n => format!("{n} in all that one of them lacked were redone from the other"),
        };
        notes.push(format!(
            "Second log: each transaction is a record of one log, then of the other; after each run both \
             were opened and brought into step: {found}."
        ));
    }
    notes.extend(worth(&outcome.rows));
    notes.extend(missing(&outcome.rows));
    notes
}

/// Why each guarantee is what it is: one sentence for each different reason.
fn worth(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows.iter().filter(|r| r.error.is_none()) {
        let Some(evidence) = &row.evidence else {
            continue;
        };
        let reason = format!("{}: {evidence}", row.survives());
        let name = format!("{} {}", row.system, row.settings);
        match reasons.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let sentence =
        |(reason, names): (String, Vec<String>)| format!("{reason} ({}).", names.join("; "));
    reasons.into_iter().map(sentence).collect()
}

/// Why rows have no numbers: one sentence for each different reason.
fn missing(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(error) = &row.error else { continue };
        let name = format!("{} {} × {}", row.system, row.settings, row.clients);
        match reasons.iter_mut().find(|(r, _)| r == error) {
            Some((_, names)) => names.push(name),
            None => reasons.push((error, vec![name])),
        }
    }
    let sentence =
        |(reason, names): (&str, Vec<String>)| format!("n/a: {}: {reason}.", names.join("; "));
    reasons.into_iter().map(sentence).collect()
}

/// Seconds of the pairs.
#[derive(Clone, Copy)]
pub(super) struct Rounds<'a> {
    /// Half the rounds took less.
    pub median: f64,
    /// Each round.
    pub all: &'a [f64],
}

/// The row of one client, without an error, that stands for a system's policy.
pub(super) fn usual<'a>(
    rows: &'a [Row],
    system: &str,
    policy: Policy,
    second_log: bool,
) -> Option<Rounds<'a>> {
    let is_it = |r: &&Row| {
        r.system == system
            && r.usual
            && r.clients == 1
            && r.policy() == Some(policy)
            && r.second_log.unwrap_or(false) == second_log
    };
    let row = rows.iter().find(is_it)?;
    Some(Rounds {
        median: row.pairs_s?,
        all: &row.all_pairs_s,
    })
}

/// The systems, in the order of their rows.
pub(super) fn systems(rows: &[Row]) -> Vec<String> {
    let mut systems: Vec<String> = Vec::new();
    for row in rows {
        if !systems.contains(&row.system) {
            systems.push(row.system.clone());
        }
    }
    systems
}

/// The published seconds and ours, and the ratios within each.
fn beside_published(rows: &[Row], pairs: u64) -> String {
    let systems = systems(rows);
    let mut seconds = empty_table();
    let mut header = [
        "policy",
        "second\nlog",
        "published\nWindows s",
        "published\nLinux s",
    ]
    .map(str::to_owned)
    .to_vec();
    header.extend(systems.iter().map(|s| format!("{s}\ns")));
    seconds.set_header(&header);
    for published in P5 {
        let mut cells = vec![
            published.policy.number().to_string(),
            if published.second_log { "on" } else { "off" }.to_owned(),
            short(published.windows_s, 1),
            short(published.linux_s, 1),
        ];
        let here = |s: &String| {
            number(
                seconds_of(rows, s, published.policy, published.second_log),
                4,
            )
        };
        cells.extend(systems.iter().map(here));
        seconds.add_row(cells);
    }
    let mut of_each = empty_table();
    let mut header = ["ratio", "published\nWindows", "published\nLinux"]
        .map(str::to_owned)
        .to_vec();
    header.extend(systems.iter().cloned());
    of_each.set_header(&header);
    let windows = ratios(|p, second| published_of(p, second).map(|p| p.windows_s));
    let linux = ratios(|p, second| published_of(p, second).map(|p| p.linux_s));
    let here: Vec<_> = systems
        .iter()
        .map(|s| ratios(|p, second| seconds_of(rows, s, p, second)))
        .collect();
    for (nth, (name, published)) in windows.iter().enumerate() {
        let mut cells = vec![
            (*name).to_owned(),
            number(*published, 2),
            number(linux[nth].1, 2),
        ];
        cells.extend(here.iter().map(|h| number(h[nth].1, 2)));
        of_each.add_row(cells);
    }
    let times = match pairs == super::PAIRS {
        true => format!("Seconds for {pairs} pairs"),
        false => format!(
            "Seconds for {pairs} pairs (published: for {}, so that ratios alone compare)",
            super::PAIRS
        ),
    };
    format!(
        "{times}:\n{}\nEach as a ratio of its own times:\n{}",
        finish(seconds, &[], 2),
        finish(of_each, &[0], 2)
    )
}

fn seconds_of(rows: &[Row], system: &str, policy: Policy, second_log: bool) -> Option<f64> {
    usual(rows, system, policy, second_log).map(|s| s.median)
}

fn published_of(policy: Policy, second_log: bool) -> Option<super::published::Published> {
    super::published::Published::of(policy, second_log)
}

/// All of it for a terminal of `width` characters.
pub fn text(report: &Report, pairs: u64, width: usize) -> String {
    let head = &report.head;
    let title = "Inserts that are committed one by one";
    let mut text = wrap(&format!("{title}; {}", head.machine), width, 0);
    if head.interrupted {
        text.push_str("Interrupted: this is what was measured until then, in whole rows.\n");
    }
    text.push('\n');
    let titled = report.rows.iter().map(|r| (r.title(), r.clone()));
    let (table, left_out) = fitted(&COLUMNS, &sections(titled), width);
    text.push_str(&table);
    text.push('\n');
    text.push_str(&wrap(
        "policy: 1 forced at each commit, 2 written, 0 neither. forces: by an insert, counted by the log itself. dev*: by the block device's own counters, by \
         an insert, what neighbours do to it included. rows: read back and found to be there once.",
        width,
        2,
    ));
    text.push_str(&prose::left_out(&left_out, width));
    text.push('\n');
    text.push_str(&beside_published(&report.rows, pairs));
    text.push_str(&wrap(&format!("published: {SOURCE}."), width, 2));
    text.push('\n');
    text.push_str(&prose::ending(
        &report.notes,
        &head.machine,
        &report.conclusion,
        width,
    ));
    text
}
