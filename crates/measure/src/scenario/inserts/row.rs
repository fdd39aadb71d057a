//! The row of a setting and a number of clients.

use super::phase::PhaseResult;
use super::{Policy, Setting};
use crate::MeasureError;
use crate::result::{Kind, Quantity, Row};
use crate::run::stats::spread;
use crate::run::{Ratio, Recorder};

impl Setting {
    /// Returns the name in one line.
    pub fn name(&self) -> String {
        format!("{} {}", self.system, self.settings)
    }
}

/// Returns the row of all phases of a ledger with a number of clients: the rounds of pairs, and the timed
/// run. Returns `None` without phases.
pub(super) fn row(
    setting: &Setting,
    clients: u32,
    pairs: &[PhaseResult],
    timed: Option<&PhaseResult>,
) -> Option<Row> {
    let all = || pairs.iter().chain(timed);
    all().next()?;
    let checked = || all().filter_map(|t| t.checked.as_ref());
    let mut row = Row {
        system: setting.system.clone(),
        system_version: setting.version.clone(),
        settings: setting.settings.clone(),
        policy: setting.policy.map(|p| p.number().into()),
        second_log: setting.second_log,
        usual: setting.usual,
        on_this_disk: setting.on_this_disk,
        clients: clients.into(),
        commits: Some(0),
        rows_checked: checked().map(|c| c.rows).reduce(|a, b| a + b),
        redone: checked().filter_map(|c| c.redone).reduce(|a, b| a + b),
        error: all().find_map(PhaseResult::problem),
        ..Row::of(Kind::Inserts)
    };
    if row.error.is_some() {
        return Some(row);
    }
    // A phase that was stopped has no recorder; the complete ones before it count.
    let Some(last) = all().filter_map(|t| t.recorder.as_ref()).next_back() else {
        row.error = Some(MeasureError::Interrupted.to_string());
        return Some(row);
    };
    row.each = pairs.iter().filter_map(PhaseResult::seconds).collect();
    row.rounds = (clients == 1).then_some(row.each.len() as u64);
    row.set(Quantity::PairsS, spread(&row.each));
    let commits: u64 = all().map(|t| t.acknowledged).sum();
    let forces = all().filter_map(|t| t.forces).reduce(|a, b| a + b);
    let forces = forces.filter(|_| commits > 0);
    row.forces_per_commit = forces.map(|n| n as f64 / commits as f64);
    row.set_worth(setting.worth.as_ref());
    fill(&mut row, last);
    Some(row)
}

/// Sets the figures of the last phase.
fn fill(row: &mut Row, part: &Recorder) {
    let (commits, seconds) = (part.commits(), part.time().as_secs_f64());
    row.commits = Some(commits);
    row.seconds = Some(seconds);
    row.commits_per_s = (seconds > 0.0).then(|| commits as f64 / seconds);
    row.set_latencies(part.latencies());
    row.set_cpu_wait(part.cpu_wait(), part.time());
    row.set_device(part.device().filter(|_| row.on_this_disk), commits);
}

/// Returns the policy of a row, if it is one of the three.
pub(super) fn policy(row: &Row) -> Option<Policy> {
    Policy::ALL
        .into_iter()
        .find(|p| Some(u64::from(p.number())) == row.policy)
}

/// Seconds of the pairs.
#[derive(Clone, Copy)]
pub(super) struct Rounds<'a> {
    /// Median of the rounds.
    pub median: f64,
    /// Seconds of each round.
    pub all: &'a [f64],
}

impl Rounds<'_> {
    /// Returns these seconds as a multiple of others.
    pub fn ratio(self, to: Rounds<'_>) -> Ratio {
        let rounds = self.all.iter().copied().zip(to.all.iter().copied());
        Ratio::of(self.median / to.median, rounds)
    }
}

/// Returns the times of the default row of a system's policy with one client; `None` if it has no
/// times.
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
            && self::policy(r) == Some(policy)
            && r.second_log.unwrap_or(false) == second_log
    };
    let row = rows.iter().find(is_it)?;
    Some(Rounds {
        median: row.pairs_s?,
        all: &row.each,
    })
}

/// Returns the systems, in the order of their rows.
pub(super) fn systems(rows: &[Row]) -> Vec<String> {
    let mut systems: Vec<String> = Vec::new();
    for row in rows {
        if !systems.contains(&row.system) {
            systems.push(row.system.clone());
        }
    }
    systems
}
