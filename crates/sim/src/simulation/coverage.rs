//! Coverage of random runs, in numbers.

use super::replicas::Replicas;
use crate::workload::RecoveryTotals;
use logforce_core::RecoveryCase;
use logforce_testkit::{Failure, FaultCounts, FaultKind};
use std::collections::BTreeMap;
use std::fmt;

/// Counts over one run or many.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// Runs.
    pub runs: u64,
    /// Calls of the log.
    pub calls: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Crashes of the system and of the process.
    pub crashes: u64,
    /// Crashes inside an opening, before it returned.
    pub crashes_in_recovery: u64,
    /// Copies that were restored without their zeroes.
    pub sparse_copies: u64,
    /// Openings while calls failed for a while.
    pub openings_amid_failing_calls: u64,
    /// Openings while calls failed that succeeded.
    pub opened_amid_failing_calls: u64,
    /// Openings that returned, and were compared with the model.
    pub openings: u64,
    /// Runs that filled more than one segment.
    pub rolled_over: u64,
    /// Runs in which a truncation succeeded, at either end.
    pub truncated: u64,
    /// Corrupted copies that were opened, read or salvaged.
    pub corrupted_copies: u64,
    /// Corrupted copies that reported damage.
    pub damages: u64,
    /// Corrupted copies that were refused with another error.
    pub other_refusals: u64,
    /// Corrupted copies that showed everything nevertheless.
    pub unharmed: u64,
    /// Corrupted copies that showed fewer records, all missing ones above the highest stamp left.
    pub unprovable: u64,
    /// Corrupted copies whose log was truncated at the damage and on which the run continued.
    pub continued: u64,
    /// Followers that were refused because the log has another history.
    pub diverged: u64,
    /// Replicas that a reopened log has continued.
    pub replicas_continued: u64,
    /// Replicas that a reopened log has refused.
    pub replicas_refused: u64,
    /// Records that a replica had confirmed, and that were found in a restored log.
    pub restored: u64,
    /// Number of times that each row of the decision table was reached.
    pub cases: BTreeMap<RecoveryCase, u64>,
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

    pub(super) fn note_replicas(&mut self, counts: Replicas) {
        self.replicas_continued += counts.continued;
        self.replicas_refused += counts.refused;
        self.restored += counts.restored;
    }

    pub(super) fn note_case(&mut self, case: RecoveryCase) {
        *self.cases.entry(case).or_default() += 1;
    }

    pub(super) fn note_found(&mut self, found: &RecoveryTotals) {
        self.openings += found.openings;
        *self.cases.entry(RecoveryCase::Next).or_default() += found.batches;
        *self.cases.entry(RecoveryCase::Resumed).or_default() += found.resumed;
        for case in &found.ends {
            self.note_case(*case);
        }
    }

    pub(super) fn note_faults(&mut self, counts: &FaultCounts) {
        for kind in FaultKind::ALL {
            *self.faults.entry(kind).or_default() += counts.get(kind);
        }
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Coverage) {
        let pairs = [
            (&mut self.runs, other.runs),
            (&mut self.calls, other.calls),
            (&mut self.power_cuts, other.power_cuts),
            (&mut self.crashes, other.crashes),
            (&mut self.crashes_in_recovery, other.crashes_in_recovery),
            (&mut self.sparse_copies, other.sparse_copies),
            (
                &mut self.openings_amid_failing_calls,
                other.openings_amid_failing_calls,
            ),
            (
                &mut self.opened_amid_failing_calls,
                other.opened_amid_failing_calls,
            ),
            (&mut self.openings, other.openings),
            (&mut self.rolled_over, other.rolled_over),
            (&mut self.truncated, other.truncated),
            (&mut self.corrupted_copies, other.corrupted_copies),
            (&mut self.damages, other.damages),
            (&mut self.other_refusals, other.other_refusals),
            (&mut self.unharmed, other.unharmed),
            (&mut self.unprovable, other.unprovable),
            (&mut self.continued, other.continued),
            (&mut self.diverged, other.diverged),
            (&mut self.replicas_continued, other.replicas_continued),
            (&mut self.replicas_refused, other.replicas_refused),
            (&mut self.restored, other.restored),
        ];
        for (mine, others) in pairs {
            *mine += others;
        }
        for (case, count) in &other.cases {
            *self.cases.entry(*case).or_default() += count;
        }
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
    }

    /// Returns the cases that these runs should have covered and did not.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        for case in RecoveryCase::ALL {
            if self.cases.get(&case).copied().unwrap_or_default() == 0 {
                gaps.push(format!("row {} was never reached", case.label()));
            }
        }
        for kind in FaultKind::ALL {
            if self.faults.get(&kind).copied().unwrap_or_default() == 0 {
                gaps.push(format!("no {}", kind.label()));
            }
        }
        if self.diverged == 0 {
            gaps.push("no follower met another history".to_owned());
        }
        for (what, count) in [
            ("continued", self.replicas_continued),
            ("refused", self.replicas_refused),
        ] {
            if count * 10 < self.runs {
                gaps.push(format!("only {count} replicas were {what}"));
            }
        }
        for (what, count) in [
            ("filled more than one segment", self.rolled_over),
            ("truncated", self.truncated),
        ] {
            if count * 2 < self.runs {
                gaps.push(format!("only {count} of {} runs {what}", self.runs));
            }
        }
        gaps
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("runs", self.runs),
            ("  that filled more than one segment", self.rolled_over),
            ("  that truncated", self.truncated),
            ("calls of the log", self.calls),
            ("followers refused for another history", self.diverged),
            ("replicas continued", self.replicas_continued),
            ("replicas refused", self.replicas_refused),
            ("confirmed records that were restored", self.restored),
            ("power cuts", self.power_cuts),
            ("crashes of system or process", self.crashes),
            ("crashes inside an opening", self.crashes_in_recovery),
            ("restored as sparse copies", self.sparse_copies),
            (
                "openings while calls failed",
                self.openings_amid_failing_calls,
            ),
            ("  that succeeded", self.opened_amid_failing_calls),
            ("openings compared with the model", self.openings),
            ("corrupted copies examined", self.corrupted_copies),
            ("  that reported damage", self.damages),
            ("  that refused otherwise", self.other_refusals),
            ("  that showed everything", self.unharmed),
            (
                "  that showed less, above the highest stamp",
                self.unprovable,
            ),
            ("  that were truncated, the run continued", self.continued),
        ];
        for (what, count) in lines {
            writeln!(f, "{what:<44} {count:>12}")?;
        }
        writeln!(f, "rows of the decision table reached")?;
        for case in RecoveryCase::ALL {
            let count = self.cases.get(&case).copied().unwrap_or_default();
            writeln!(f, "  {:<42} {count:>12}", case.label())?;
        }
        writeln!(f, "faults that took effect")?;
        for kind in FaultKind::ALL {
            let count = self.faults.get(&kind).copied().unwrap_or_default();
            writeln!(f, "  {:<42} {count:>12}", kind.label())?;
        }
        Ok(())
    }
}
