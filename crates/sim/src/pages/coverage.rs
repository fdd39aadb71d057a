//! Coverage of random runs of page files, in numbers.

use logforce_testkit::{Failure, FaultCounts, FaultKind};
use std::collections::BTreeMap;
use std::fmt;

/// Counts over one run or many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Runs.
    pub runs: u64,
    /// Runs with a logged file.
    pub logged: u64,
    /// Calls of the page file.
    pub calls: u64,
    /// Commits whose numbers are known.
    pub commits: u64,
    /// Transactions that lost a conflict.
    pub conflicts: u64,
    /// Commits that were refused for lack of space.
    pub refused: u64,
    /// Commits that dropped pages right after a refused commit.
    pub shrunk: u64,
    /// Transactions whose outcome was unknown when the boot ended.
    pub unknown: u64,
    /// Snapshots that were compared with the model.
    pub snapshots: u64,
    /// Openings that were compared with the model.
    pub openings: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Crashes of the system and of the process.
    pub crashes: u64,
    /// Crashes inside an opening, before it returned.
    pub crashes_in_recovery: u64,
    /// Openings while calls failed for a while.
    pub openings_amid_failing_calls: u64,
    /// Corrupted copies that were opened.
    pub corrupted_copies: u64,
    /// Corrupted copies on which damage was reported.
    pub damages: u64,
    /// Number of times that each kind of fault took effect.
    pub faults: BTreeMap<FaultKind, u64>,
}

impl Coverage {
    pub(super) fn note_crash(&mut self, failure: Failure) {
        match failure {
            Failure::Power => self.power_cuts += 1,
            _ => self.crashes += 1,
        }
    }

    pub(super) fn note_faults(&mut self, counts: &FaultCounts) {
        for kind in FaultKind::ALL {
            *self.faults.entry(kind).or_default() += counts.get(kind);
        }
    }

    fn counts(&mut self) -> [(&'static str, &mut u64); 16] {
        [
            ("runs", &mut self.runs),
            ("of logged files", &mut self.logged),
            ("calls", &mut self.calls),
            ("commits", &mut self.commits),
            ("conflicts", &mut self.conflicts),
            ("commits without space", &mut self.refused),
            ("pages dropped on a full disk", &mut self.shrunk),
            ("outcomes unknown", &mut self.unknown),
            ("snapshots compared", &mut self.snapshots),
            ("openings compared", &mut self.openings),
            ("power cuts", &mut self.power_cuts),
            ("other crashes", &mut self.crashes),
            ("crashes in an opening", &mut self.crashes_in_recovery),
            (
                "openings amid failing calls",
                &mut self.openings_amid_failing_calls,
            ),
            ("corrupted copies", &mut self.corrupted_copies),
            ("of them reported damage", &mut self.damages),
        ]
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Coverage) {
        let mut other = other.clone();
        for ((_, mine), (_, others)) in self.counts().into_iter().zip(other.counts()) {
            *mine += *others;
        }
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
    }

    /// Returns the cases that a large batch of runs should have met and did not.
    pub fn gaps(&self) -> Vec<String> {
        let mut all = self.clone();
        let missing = all.counts().into_iter().filter(|(_, n)| **n == 0);
        let mut gaps: Vec<String> = missing.map(|(what, _)| format!("no {what}")).collect();
        let rare = [
            FaultKind::Panic,
            FaultKind::StaleRead,
            FaultKind::MisdirectedRead,
            FaultKind::Forged,
        ];
        let kinds = FaultKind::ALL.into_iter().filter(|k| !rare.contains(k));
        let never = kinds.filter(|k| self.faults.get(k).is_none_or(|n| *n == 0));
        gaps.extend(never.map(|k| format!("no {}", k.label())));
        gaps
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.clone();
        for (what, count) in all.counts() {
            writeln!(f, "{what:<34} {count:>10}")?;
        }
        for (kind, count) in self.faults.iter().filter(|(_, n)| **n > 0) {
            writeln!(f, "{:<34} {count:>10}", kind.label())?;
        }
        Ok(())
    }
}
