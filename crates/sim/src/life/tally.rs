//! What happened in lives, in numbers.

use crate::work::Found;
use logforce_core::RecoveryCase;
use logforce_testkit::{Failure, FaultCounts, FaultKind};
use std::collections::BTreeMap;
use std::fmt;

/// Counts over one life or many.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Lives.
    pub lives: u64,
    /// Calls of the log.
    pub calls: u64,
    /// Losses of power.
    pub cuts: u64,
    /// Crashes of the system and of the process.
    pub crashes: u64,
    /// Crashes that hit an opening before it returned.
    pub cut_in_recovery: u64,
    /// Openings while calls failed for a while,
    pub in_trouble: u64,
    /// and those of them that succeeded.
    pub opened_in_trouble: u64,
    /// Openings that returned, and were compared with the model.
    pub openings: u64,
    /// Lives that filled more than one segment.
    pub rolled_over: u64,
    /// Lives in which a truncation succeeded, at either end.
    pub truncated: u64,
    /// Looks at a damaged copy.
    pub trips: u64,
    /// Openings and readings of them that reported damage,
    pub damages: u64,
    /// that refused with another error,
    pub other_refusals: u64,
    /// and that showed everything all the same.
    pub unharmed: u64,
    /// Those that showed less, all of it above the highest stamp that was left.
    pub unprovable: u64,
    /// Those that were truncated at the damage, and lived on.
    pub lived_on: u64,
    /// How often each row of the decision table was reached.
    pub cases: BTreeMap<RecoveryCase, u64>,
    /// How often each kind of fault took effect.
    pub faults: BTreeMap<FaultKind, u64>,
}

impl Tally {
    pub(super) fn note_crash(&mut self, failure: Failure) {
        match failure {
            Failure::Power => self.cuts += 1,
            _ => self.crashes += 1,
        }
    }

    pub(super) fn note_case(&mut self, case: RecoveryCase) {
        *self.cases.entry(case).or_default() += 1;
    }

    pub(super) fn note_found(&mut self, found: &Found) {
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

    /// Adds another's counts.
    pub fn add(&mut self, other: &Tally) {
        let pairs = [
            (&mut self.lives, other.lives),
            (&mut self.calls, other.calls),
            (&mut self.cuts, other.cuts),
            (&mut self.crashes, other.crashes),
            (&mut self.cut_in_recovery, other.cut_in_recovery),
            (&mut self.in_trouble, other.in_trouble),
            (&mut self.opened_in_trouble, other.opened_in_trouble),
            (&mut self.openings, other.openings),
            (&mut self.rolled_over, other.rolled_over),
            (&mut self.truncated, other.truncated),
            (&mut self.trips, other.trips),
            (&mut self.damages, other.damages),
            (&mut self.other_refusals, other.other_refusals),
            (&mut self.unharmed, other.unharmed),
            (&mut self.unprovable, other.unprovable),
            (&mut self.lived_on, other.lived_on),
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

    /// What so many lives must have had, and have not: then they prove less than they claim.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        for case in RecoveryCase::ALL {
            if self.cases.get(&case).copied().unwrap_or_default() == 0 {
                lacks.push(format!("row {} was never reached", case.label()));
            }
        }
        for kind in FaultKind::ALL {
            if self.faults.get(&kind).copied().unwrap_or_default() == 0 {
                lacks.push(format!("no {}", kind.label()));
            }
        }
        for (what, count) in [
            ("filled more than one segment", self.rolled_over),
            ("truncated", self.truncated),
        ] {
            if count * 2 < self.lives {
                lacks.push(format!("only {count} of {} lives {what}", self.lives));
            }
        }
        lacks
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("lives", self.lives),
            ("  that filled more than one segment", self.rolled_over),
            ("  that truncated", self.truncated),
            ("calls of the log", self.calls),
            ("losses of power", self.cuts),
            ("crashes of system or process", self.crashes),
            ("crashes inside an opening", self.cut_in_recovery),
            ("openings in trouble", self.in_trouble),
            ("  that succeeded", self.opened_in_trouble),
            ("openings compared with the model", self.openings),
            ("looks at a damaged copy", self.trips),
            ("  that reported damage", self.damages),
            ("  that refused otherwise", self.other_refusals),
            ("  that showed everything", self.unharmed),
            (
                "  that showed less, above the highest stamp",
                self.unprovable,
            ),
            ("  that were truncated, and lived on", self.lived_on),
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
