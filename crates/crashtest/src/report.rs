//! The result of a test.

use crate::explain::Explanation;
use crate::parts::{Part, Rehearsal};
use crate::plan::Plan;
use crate::stage::Checked;
pub use crate::stage::Failure;
use crate::testbed::Filesystem;
use serde::Serialize;

/// Verdict of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing acknowledged was lost, and the check noticed the losses of a disk that ignores flushes.
    Survived,
    /// Something acknowledged was lost, or what survived does not open.
    Lost,
    /// The test proves nothing; the report says why.
    Inconclusive,
}

/// Counts of one part on one filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The filesystem.
    pub filesystem: Filesystem,
    /// The part.
    pub part: Part,
    /// Number of cases, with those in `filesystem_lost`.
    pub checks: u64,
    /// Checks that ran and before which something was acknowledged.
    pub with_acks: u64,
    /// Acknowledged lines, summed over the checks that ran.
    pub acknowledged: u64,
    /// Checks that reported a loss.
    pub lost: u64,
    /// Checks that ended in another way, so that the program does not open what survived.
    pub unopened: u64,
    /// Checks that did not end.
    pub hung: u64,
    /// Failed checks of these three kinds before which nothing was acknowledged: the program does not open what a cut left
    /// of its creation.
    pub failed_without_acks: u64,
    /// Filesystems that could not be mounted, so that no check ran. They say nothing about the program.
    pub filesystem_lost: u64,
    /// Longest list of acknowledged lines that a check compared.
    pub most_acked: u64,
}

impl Row {
    pub(crate) fn new(filesystem: Filesystem, part: Part) -> Row {
        Row {
            filesystem,
            part,
            checks: 0,
            with_acks: 0,
            acknowledged: 0,
            lost: 0,
            unopened: 0,
            hung: 0,
            failed_without_acks: 0,
            filesystem_lost: 0,
            most_acked: 0,
        }
    }

    /// Adds a check. `acked` is the number of acknowledged lines.
    pub(crate) fn add(&mut self, acked: usize, checked: &Checked) {
        self.checks += 1;
        if let Checked::FilesystemLost(_) = checked {
            self.filesystem_lost += 1;
            return;
        }
        let acked = acked as u64;
        self.with_acks += u64::from(acked > 0);
        self.acknowledged += acked;
        self.most_acked = self.most_acked.max(acked);
        let failed = matches!(checked, Checked::Failed(..));
        self.failed_without_acks += u64::from(failed && acked == 0);
        match checked {
            Checked::Survived | Checked::FilesystemLost(_) => {}
            Checked::Failed(Failure::Lost, _) => self.lost += 1,
            Checked::Failed(Failure::Unopened, _) => self.unopened += 1,
            Checked::Failed(Failure::Hung, _) => self.hung += 1,
        }
    }

    /// Returns the number of checks that ran.
    pub fn ran(&self) -> u64 {
        self.checks - self.filesystem_lost
    }

    /// Returns the number of checks that failed.
    pub fn failed(&self) -> u64 {
        self.lost + self.unopened + self.hung
    }
}

/// Losses with alike messages, and the smallest of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Filesystem of the smallest case.
    pub filesystem: Filesystem,
    /// Part of the smallest case.
    pub part: Part,
    /// Class of the failure.
    pub failure: Failure,
    /// Last line of the check, of the smallest case.
    pub message: String,
    /// Number of such losses.
    pub cases: u64,
    /// Acknowledged lines of the smallest case.
    pub acked: u64,
    /// The last acknowledged line of the smallest case.
    pub last_acked: Option<String>,
    /// Directory with its image, if cases are kept.
    pub kept: Option<String>,
}

impl Loss {
    pub(crate) fn new(
        filesystem: Filesystem,
        part: Part,
        failure: Failure,
        message: &str,
        acked: &[String],
    ) -> Loss {
        Loss {
            filesystem,
            part,
            failure,
            message: message.to_owned(),
            cases: 1,
            acked: acked.len() as u64,
            last_acked: acked.last().cloned(),
            kept: None,
        }
    }

    /// Returns true if both have one cause, as far as their messages show.
    pub(crate) fn is_like(&self, other: &Loss) -> bool {
        self.failure == other.failure && class(&self.message) == class(&other.message)
    }
}

/// Returns the message without its numbers, in which alike messages differ.
fn class(message: &str) -> String {
    let is_number = |word: &str| word.chars().any(|c| c.is_ascii_digit());
    let words = message.split_whitespace();
    let words = words.map(|word| if is_number(word) { "#" } else { word });
    words.take(12).collect::<Vec<_>>().join(" ")
}

/// The whole result.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `logforce-crashtest`.
    pub schema: &'static str,
    /// Version of the schema.
    pub version: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict in one sentence.
    pub sentence: String,
    /// The plan.
    pub plan: Plan,
    /// Runs without a cut.
    pub rehearsals: Vec<Rehearsal>,
    /// Counts.
    pub rows: Vec<Row>,
    /// Losses, the most frequent first.
    pub losses: Vec<Loss>,
    /// Findings about the cause of the losses.
    pub explanation: Option<Explanation>,
    /// Remarks on what weakens the test: a full disk, a workload that failed by itself.
    pub notes: Vec<String>,
    /// Reasons why the test proves nothing; empty otherwise.
    pub reasons: Vec<String>,
    /// Cases that the test does not cover, each in a few words.
    pub untested: Vec<String>,
    /// Duration, seconds.
    pub seconds: f64,
}

impl Report {
    /// Returns the report of a test that has not begun.
    pub(crate) fn new(plan: &Plan) -> Report {
        Report {
            schema: "logforce-crashtest",
            version: 1,
            verdict: Verdict::Inconclusive,
            sentence: String::new(),
            plan: plan.clone(),
            rehearsals: Vec::new(),
            rows: Vec::new(),
            losses: Vec::new(),
            explanation: None,
            notes: Vec::new(),
            reasons: Vec::new(),
            untested: match *plan.filesystems {
                [Filesystem::Model] => untested_by_model(plan),
                _ => untested(plan),
            },
            seconds: 0.0,
        }
    }
}

/// Returns what the model does not cover.
fn untested_by_model(plan: &Plan) -> Vec<String> {
    let share = (plan.states / 3).max(1);
    vec![
        "Real filesystems and their kernel: order within an fsync, torn metadata, mounts, kernel faults".to_owned(),
        "Writes through memory (mmap) and by asynchronous I/O".to_owned(),
        "Recovery that is interrupted by another cut; the program is started once".to_owned(),
        "Anything that the workload does not do".to_owned(),
        "Disks that lie about flushes, bit rot, and damage by other programs".to_owned(),
        format!("Losses that show in fewer than about one of {share} states"),
    ]
}

/// Returns what a test with this plan does not cover.
fn untested(plan: &Plan) -> Vec<String> {
    let names: Vec<&str> = plan.filesystems.iter().map(|f| f.name()).collect();
    let mut untested = vec![
        format!("Other filesystems than {}", names.join(" and ")),
        "Anything that the workload does not do".to_owned(),
        "Disks that lie about flushes, bit rot, and damage by other programs".to_owned(),
    ];
    // With n checks, what shows in 3/n of them is missed with a probability of 5 %.
    for (checks, what) in [(plan.cuts, "power cuts"), (plan.states, "crash states")] {
        untested.push(match checks {
            0 => format!("Anything by {what}"),
            _ => format!(
                "Losses that show in fewer than about one of {} {what} on a filesystem",
                (checks / 3).max(1)
            ),
        });
    }
    if !plan.noise {
        untested.push(
            "Writeback by the kernel and by other programs meanwhile (--noise none)".to_owned(),
        );
    }
    if !plan.kill {
        untested.push(
            "A crash of the program alone, a restart, and a power cut soon after (--kill)"
                .to_owned(),
        );
    }
    untested
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_that_is_lost_is_not_a_check() {
        let mut row = Row::new(Filesystem::Ext4, Part::Cuts);
        row.add(3, &Checked::FilesystemLost("no superblock".to_owned()));
        row.add(2, &Checked::Survived);
        row.add(0, &Checked::Failed(Failure::Lost, "gone".to_owned()));
        assert_eq!((row.checks, row.filesystem_lost, row.ran()), (3, 1, 2));
        assert_eq!((row.with_acks, row.acknowledged, row.most_acked), (1, 2, 2));
        assert_eq!((row.failed(), row.failed_without_acks), (1, 1));
    }

    #[test]
    fn messages_that_differ_in_numbers_are_alike() {
        assert_eq!(
            class("key 12 of 0x3f is missing"),
            class("key 7 of 12 is missing")
        );
        assert_ne!(class("key 12 is missing"), class("key 12 is torn"));
    }
}
