//! Inserts that are committed one by one, as a till at a point of sale makes them: what durability
//! costs, and what a second log costs on top, on Logforce and on databases.
//!
//! A [`Ledger`] is one system under one setting. Each has an empty table, some clients insert into it,
//! and then everything is read back: a row whose acknowledged inserts are not all there exactly once
//! has an error and no numbers.

mod conclusion;
mod found;
mod in_step;
mod ledger;
mod logs;
mod phase;
mod published;
pub mod report;
mod room;
mod sale;
#[cfg(test)]
mod tests;

pub use conclusion::conclude;
pub use found::{Checked, Found};
pub use in_step::bring_into_step;
pub use ledger::{Ledger, Policy, Session, Setting, Table};
pub use logs::ledgers;
pub use published::{P5, PAIRS};
pub use room::Room;
pub use sale::Sale;

use crate::MeasureError;
use crate::group::Setup;
use crate::plausible::Claim;
use crate::recorder::Limit;
use logforce::disk::Facts;
use logforce_device::{Source, Verdict, WriteCache};
use phase::Taken;
use report::Row;
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

/// What came out.
pub struct Outcome {
    /// A row for each setting and number of clients.
    pub rows: Vec<Row>,
    /// Inserts whose time was taken.
    pub pairs: u64,
    /// What could not be measured, and what to do about it; how a system was measured.
    pub notes: Vec<String>,
    /// What the system tells of the disk.
    pub facts: Facts,
    /// Whether the user interrupted: the last row is not whole then.
    pub interrupted: bool,
}

/// What the system tells of the directory to measure in.
pub fn facts(setup: &Setup) -> Result<Facts, MeasureError> {
    let asking = || MeasureError::io("asking about the filesystem");
    let directory = setup.system.directory(&setup.path).map_err(asking())?;
    crate::library::facts(&*directory).map_err(asking())
}

/// Measures all `ledgers`: the pairs of all of them in each round, so that noise hits all alike, then
/// one after the other with each number of clients.
pub fn run(
    options: &Options,
    setup: &Setup,
    facts: Facts,
    ledgers: &[Box<dyn Ledger>],
) -> Result<Outcome, MeasureError> {
    let mut clients = options.clients.clone();
    clients.push(1);
    clients.sort_unstable();
    clients.dedup();
    let mut course = Course {
        setup,
        all: ledgers.len() * (options.rounds as usize + clients.len()),
        done: 0,
    };
    let pairs = Limit {
        commits: options.pairs,
        time: None,
    };
    let timed = Limit {
        commits: options.most,
        time: Some(options.time),
    };
    let mut taken: Vec<Vec<Taken>> = ledgers.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds {
        for (ledger, taken) in ledgers.iter().zip(&mut taken) {
            let seconds: f64 = taken.iter().filter_map(Taken::seconds).sum();
            let is_enough = seconds > ENOUGH_S || taken.iter().any(|t| t.problem().is_some());
            match is_enough {
                true => course.done += 1,
                false => taken.extend(course.phase(&**ledger, 1, &pairs)),
            }
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for (ledger, pairs) in ledgers.iter().zip(&taken) {
        for &clients in &clients {
            let is_wanted = options.clients.contains(&clients);
            let pairs = if clients == 1 { &pairs[..] } else { &[] };
            let timed = match is_wanted && !setup.interrupt.is_raised() {
                true => course.phase(&**ledger, clients, &timed),
                false => None,
            };
            if let Some(mut row) = Row::measured(ledger.setting(), clients, pairs, timed.as_ref()) {
                judge(&mut row, ledger.setting(), &facts);
                rows.push(row);
            }
        }
    }
    let interrupted = setup.interrupt.is_raised();
    if interrupted && rows.iter().all(|r| r.error.is_some()) {
        return Err(MeasureError::Interrupted);
    }
    Ok(Outcome {
        rows,
        pairs: options.pairs,
        notes: Vec::new(),
        facts,
        interrupted,
    })
}

/// How far it is.
struct Course<'a> {
    setup: &'a Setup,
    all: usize,
    done: usize,
}

impl Course<'_> {
    /// A phase; `None` once the user has interrupted.
    fn phase(&mut self, ledger: &dyn Ledger, clients: u32, limit: &Limit) -> Option<Taken> {
        let done = self.done as f64 / self.all as f64;
        self.done += 1;
        if self.setup.interrupt.is_raised() {
            return None;
        }
        self.setup.progress.doing(&ledger.setting().name());
        self.setup.progress.fraction(done);
        Some(phase::run(ledger, clients, limit, self.setup))
    }
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
        commits: Some(row.commits),
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
