//! Coverage of random runs of durable files, in numbers.

use logforce_testkit::{Failure, FaultCounts, FaultKind};
use std::collections::BTreeMap;
use std::fmt;

/// Kinds of faults that these runs do not cause.
const NOT_CAUSED: [FaultKind; 9] = [
    FaultKind::ReadError,
    FaultKind::ShortRead,
    FaultKind::ShortListing,
    FaultKind::Panic,
    FaultKind::BitRot,
    FaultKind::Unreadable,
    FaultKind::StaleRead,
    FaultKind::MisdirectedRead,
    FaultKind::Forged,
];

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident $label:literal,)+) => {
        /// Counts over one run or many.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Coverage {
            $($(#[$doc])* pub $name: u64,)+
            /// Number of times that each kind of fault took effect.
            pub faults: BTreeMap<FaultKind, u64>,
        }

        impl Coverage {
            fn counts(&mut self) -> Vec<(&'static str, &mut u64)> {
                vec![$(($label, &mut self.$name),)+]
            }
        }
    };
}

counts! {
    /// Runs.
    runs "runs",
    /// Runs with aligned writes.
    aligned "of aligned files",
    /// Calls of the library.
    calls "calls",
    /// Commits that waited and were acknowledged.
    commits "commits",
    /// Durable writes that were acknowledged.
    write_commits "durable writes",
    /// Durable writes that were made by a write-through.
    through_writes "of them by write-through",
    /// Commits that shared a sync with another one.
    shared "commits that shared a sync",
    /// Submissions whose handle was waited for in a thread.
    waited "handles waited for",
    /// Submissions that were awaited, and asynchronous commits.
    awaited "commits awaited",
    /// Handles that were dropped.
    dropped "handles dropped",
    /// Handles that had their result after the file was dropped.
    late "handles taken after the file",
    /// Ranges that were prepared.
    prepared "ranges prepared",
    /// Ranges that were not prepared, for lack of space.
    no_space "ranges without space",
    /// Reads that were compared with the last write.
    reads "reads compared",
    /// Calls on names that were acknowledged.
    names "names made durable",
    /// Files that failed.
    poisoned "files that failed",
    /// Calls of failed files, all of which were refused.
    refused "calls of failed files",
    /// Sectors that a failing write-back lost.
    lost_sectors "sectors lost by write-backs",
    /// Syncs by another open file that got the report of a failed write-back.
    reported_elsewhere "errors reported to other openings",
    /// Second openings that were refused by the lock.
    locked "second openings locked out",
    /// Openings that were refused because the method guarantees too little.
    unavailable "methods refused",
    /// Openings that were compared with the model.
    openings "openings compared",
    /// Openings that a failure or a power cut ended.
    failed_openings "openings that failed",
    /// Slots that had their newest version.
    newest "slots found newest",
    /// Slots that had an older version, which was allowed.
    older "slots found older",
    /// Slots that were torn, which was allowed.
    torn "slots found torn",
    /// Power cuts.
    power_cuts "power cuts",
    /// Crashes of the system and of the process.
    crashes "other crashes",
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
        let kinds = FaultKind::ALL
            .into_iter()
            .filter(|k| !NOT_CAUSED.contains(k));
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
