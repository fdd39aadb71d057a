//! Inserts that are committed one by one, as a till at a point of sale makes them: what durability
//! costs, and what a second log costs on top, on Logforce and on databases.
//!
//! A [`SalesLedger`] is one system under one setting. Each has an empty table, some clients insert into
//! it, and then everything is read back: a row whose acknowledged inserts are not all there exactly once
//! has an error and no numbers.

mod conclusion;
mod disk_budget;
mod ledger;
mod logs;
mod phase;
mod published;
mod row;
mod sale;
#[cfg(test)]
mod tests;
mod text;
mod two_logs;
mod verification;

pub use conclusion::conclude;
pub use disk_budget::Room;
pub use ledger::{Others, Policy, SalesLedger, Session, Setting, Table};
pub use logs::ledgers;
pub use published::{P5, PAIRS};
pub use sale::Sale;
pub use two_logs::bring_into_step;
pub use verification::{Checked, ReadBack};

use super::{Conclusion, Scenario, ScenarioOutcome};
use crate::MeasureError;
use crate::result::legend::warned;
use crate::result::machine::Machine;
use crate::result::plausible::Claim;
use crate::result::{Document, Kind, Row};
use crate::run::rounds::in_turn;
use crate::run::{Limit, Setup};
use logforce::disk::Facts;
use logforce_device::{Source, Verdict, WriteCache};
use phase::PhaseResult;
use std::time::Duration;

/// No phase makes more inserts than these: what is neither written nor forced is fast, and all of it
/// is kept and read back.
pub const MOST: u64 = 100_000;
/// Pairs that have taken so long together are not made again, seconds: what takes long is noisy least.
const ENOUGH_S: f64 = 4.0;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Inserts whose time is taken with one client.
    pub pairs: u64,
    /// How often that time is taken, at most.
    pub rounds: u32,
    /// How many clients insert at the same time, one row for each; one client has a row in any case.
    pub clients: Vec<u32>,
    /// How long each number of clients inserts.
    pub time: Duration,
    /// How many rows it inserts in that time, at most.
    pub most: u64,
}

/// The scenario: the log, and what is measured beside it.
pub struct Inserts<'a> {
    /// Options of the scenario.
    pub options: Options,
    /// Databases, as far as they are asked for.
    pub others: &'a dyn Others,
}

impl Scenario for Inserts<'_> {
    const KIND: Kind = Kind::Inserts;
    /// What the system tells of the disk.
    type More = Facts;

    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome<Facts>, MeasureError> {
        let facts = facts(setup)?;
        let (need, remedies) = self.others.need();
        let room = Room::on(setup.space, &facts, self.options.pairs, need, remedies)?;
        let options = Options {
            most: room.rows,
            ..self.options.clone()
        };
        let mut ledgers = ledgers(setup, &facts, room.segment_size)?;
        let mut notes = self.others.add(&mut ledgers, setup, &facts, &options)?;
        notes.extend(room.note());
        let outcome = run(&options, setup, facts, &ledgers)?;
        Ok(ScenarioOutcome { notes, ..outcome })
    }

    fn conclude(&self, outcome: &ScenarioOutcome<Facts>, _: &Machine) -> Conclusion {
        let text = conclude(&outcome.rows, self.options.pairs, &outcome.more);
        warned(&outcome.rows, text).into()
    }

    fn notes(&self, outcome: &ScenarioOutcome<Facts>) -> Vec<String> {
        text::notes(&outcome.rows, self.options.pairs, &outcome.notes)
    }

    fn text(&self, document: &Document, width: usize) -> String {
        text::text(document, self.options.pairs, width)
    }
}

/// What the system tells of the directory to measure in.
pub fn facts(setup: &Setup) -> Result<Facts, MeasureError> {
    let asking = || MeasureError::io("asking about the filesystem");
    let directory = setup.system.directory(&setup.path).map_err(asking())?;
    crate::run::library::facts(&*directory).map_err(asking())
}

/// Measures all `ledgers`: the pairs of all of them in each round, so that noise hits all alike, then
/// one after the other with each number of clients.
pub fn run(
    options: &Options,
    setup: &Setup,
    facts: Facts,
    ledgers: &[Box<dyn SalesLedger>],
) -> Result<ScenarioOutcome<Facts>, MeasureError> {
    let mut clients = options.clients.clone();
    clients.push(1);
    clients.sort_unstable();
    clients.dedup();
    let pairs = Limit {
        commits: options.pairs,
        time: None,
    };
    let timed = Limit {
        commits: options.most,
        time: Some(options.time),
    };
    let mut phases: Vec<(&dyn SalesLedger, Vec<PhaseResult>)> =
        ledgers.iter().map(|l| (&**l, Vec::new())).collect();
    // `None` once the user has interrupted.
    let phase = |ledger: &dyn SalesLedger, clients: u32, limit: &Limit| {
        let go = !setup.interrupt.is_raised();
        go.then(|| {
            setup.progress.doing(&ledger.setting().name());
            phase::run(ledger, clients, limit, setup)
        })
    };
    in_turn(
        options.rounds,
        &mut phases,
        &*setup.progress,
        |(ledger, taken), _| {
            let seconds: f64 = taken.iter().filter_map(PhaseResult::seconds).sum();
            let is_enough = seconds > ENOUGH_S || taken.iter().any(|t| t.problem().is_some());
            if !is_enough {
                // A phase counts by itself, also where the round is not whole.
                taken.extend(phase(*ledger, 1, &pairs));
            }
            Ok(Some(()))
        },
        |_, ()| {},
    )?;
    let mut rows: Vec<Row> = Vec::new();
    for (ledger, pairs) in &phases {
        for &clients in &clients {
            let is_wanted = options.clients.contains(&clients);
            let pairs = if clients == 1 { &pairs[..] } else { &[] };
            let timed = match is_wanted {
                true => phase(*ledger, clients, &timed),
                false => None,
            };
            if let Some(mut row) = row::row(ledger.setting(), clients, pairs, timed.as_ref()) {
                judge(&mut row, ledger.setting(), &facts);
                rows.push(row);
            }
        }
    }
    let interrupted = setup.interrupt.is_raised();
    if interrupted && rows.iter().all(|r| r.error.is_some()) {
        return Err(MeasureError::Interrupted);
    }
    Ok(ScenarioOutcome {
        rows,
        notes: Vec::new(),
        interrupted,
        more: facts,
    })
}

/// What is too good to be true is marked.
fn judge(row: &mut Row, setting: &Setting, facts: &Facts) {
    if row.error.is_some() || !setting.on_this_disk || row.verdict == Some(Verdict::Proven) {
        return;
    }
    let claim = Claim {
        guarantee: row.guarantee,
        p50_us: row.p50_us,
        threads: row.clients,
        commits: row.commits,
        flushes_per_commit: row.device_flushes_per_commit,
        by_fua: setting.by_fua,
    };
    if let Some(doubt) = claim.doubt(facts) {
        row.verdict = Some(Verdict::Implausible);
        row.evidence = Some(doubt);
    }
}

/// Returns the facts on which the durability of a write to the disk rests, in words.
fn rests_on(facts: &Facts) -> String {
    let Some(device) = &facts.device else {
        return Source::Device.by().to_owned();
    };
    let by = device.cache_source.by();
    match device.write_cache {
        WriteCache::Back => {
            format!("{by} (it has a volatile cache that is flushed or written through)")
        }
        WriteCache::Through => format!("{by} (it has no volatile cache)"),
        _ => Source::Device.by().to_owned(),
    }
}
