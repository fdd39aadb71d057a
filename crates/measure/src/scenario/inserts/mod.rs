//! The scenario `inserts`: inserts that are committed one by one, as the till of a shop makes them. It
//! measures the cost of durability and of a second log, for Logforce and for databases.
//!
//! A [`SalesLedger`] is one system under one setting. Clients insert into an empty table, and then
//! everything is read back. If an acknowledged insert is not there exactly once, the row has an error
//! and no numbers.

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
use crate::result::legend::{Shown, warned};
use crate::result::machine::Machine;
use crate::result::plausible::Claim;
use crate::result::{Document, Kind, Row};
use crate::run::rounds::in_turn;
use crate::run::{Limit, Setup};
use logforce::disk::Facts;
use logforce_device::{Source, Verdict, WriteCache};
use phase::PhaseResult;
use std::time::Duration;

/// Maximum number of inserts of a phase. Inserts that are neither written nor forced are fast, and all
/// of them are kept and read back.
pub const MOST: u64 = 100_000;
/// Total time of the pairs above which they are not repeated, seconds. Long measurements are the least
/// noisy.
const ENOUGH_S: f64 = 4.0;

/// Options of the scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of inserts by one client that are timed together.
    pub pairs: u64,
    /// Maximum number of repetitions of these inserts.
    pub rounds: u32,
    /// Numbers of concurrent clients, one row for each. One client always has a row.
    pub clients: Vec<u32>,
    /// Time for which each number of clients inserts.
    pub time: Duration,
    /// Maximum number of rows inserted in that time.
    pub most: u64,
}

/// The scenario: the log and other systems.
pub struct Inserts<'a> {
    /// Options of the scenario.
    pub options: Options,
    /// Databases, as far as they are requested.
    pub others: &'a dyn Others,
}

impl Scenario for Inserts<'_> {
    const KIND: Kind = Kind::Inserts;
    /// Facts of the disk.
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

    fn text(&self, document: &Document, shown: Shown, width: usize) -> String {
        text::text(document, self.options.pairs, shown, width)
    }
}

/// Returns the facts of the directory in which to measure.
pub fn facts(setup: &Setup) -> Result<Facts, MeasureError> {
    let asking = || MeasureError::io("asking about the filesystem");
    let directory = setup.system.directory(&setup.path).map_err(asking())?;
    crate::run::library::facts(&*directory).map_err(asking())
}

/// Measures all `ledgers`. First the pairs, in rounds over all ledgers, so that noise affects all alike;
/// then each ledger with each number of clients.
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
                // A complete phase counts even if the round is not complete.
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

/// Marks a row whose figures are implausible.
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
