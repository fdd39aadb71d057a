//! Decision from the repetitions of a measurement: is this directory fit for a system?

use super::Repetition;
use logforce_device::{Assessment, Guarantee, Verdict};
use logforce_systems::commit::{Part, Threshold};

/// Number of repetitions that have to agree before a directory is called too slow.
pub const REPETITIONS: usize = 3;
/// Number of commits that have to lie beyond a percentile, so that it means something.
pub const BEYOND: u64 = 10;

/// Answer to the question if a directory is fit for a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fitness {
    /// Commits are durable there, and fast enough.
    Fit,
    /// Commits are not durable there, or are too slow.
    Unfit,
    /// Neither can be said.
    Unclear,
}

impl Fitness {
    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Fitness::Fit => "fit",
            Fitness::Unfit => "not fit",
            Fitness::Unclear => "unclear",
        }
    }
}

/// Result of one repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// No more commits than permitted exceed the limit.
    Within,
    /// Too many commits exceed the limit.
    Above,
    /// Too few commits were made to say either.
    TooFew,
}

impl Finding {
    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Finding::Within => "within",
            Finding::Above => "above",
            Finding::TooFew => "too few commits",
        }
    }

    /// Compares `above` of `commits` commits with what a threshold permits.
    pub fn of(part: Part, commits: u64, above: u64) -> Finding {
        let is_above = above > part.may_exceed(commits);
        match part {
            // One commit is enough to break a limit for all of them.
            Part::All if is_above => Finding::Above,
            Part::P99 if is_above && above >= BEYOND => Finding::Above,
            _ if is_above || commits < 100 * BEYOND => Finding::TooFew,
            _ => Finding::Within,
        }
    }
}

/// Returns whether another repetition is needed after these. Only a first repetition above the limit leads
/// to more, and the third one is the last.
pub fn needs_more(findings: &[Finding]) -> bool {
    findings.first() == Some(&Finding::Above)
        && findings.len() < REPETITIONS
        && !findings.contains(&Finding::TooFew)
}

/// Part of the time, in percent, from which on waits for a processor explain latencies as well as the disk
/// does. A commit that has waited for a flush gets its processor back at the next tick of the scheduler.
const STARVED_PERCENT: f64 = 5.0;

/// Returns the reason, as the end of a sentence, why slow repetitions say nothing about the disk: the thread
/// waited for a processor.
pub fn starved(repetitions: &[Repetition]) -> Option<String> {
    let percents = repetitions.iter().filter_map(|r| r.cpu_wait_percent);
    let most = percents.max_by(f64::total_cmp)?;
    (most >= STARVED_PERCENT).then(|| {
        format!(
            ", but its thread waited {most:.0} % of the time for a processor: stop other programs and measure again"
        )
    })
}

/// Returns true if commits survive loss of power, or may do so.
pub fn is_durable(durability: &Assessment) -> bool {
    durability.guarantee == Guarantee::PowerLoss && durability.verdict >= Verdict::Unknown
}

/// Returns the answer, and its reason as the end of a sentence.
pub fn judge(
    title: &str,
    threshold: Option<&Threshold>,
    repetitions: &[Repetition],
    durability: &Assessment,
) -> (Fitness, String) {
    if !is_durable(durability) {
        let why = match durability.guarantee {
            Guarantee::PowerLoss => "its commits are not durable here".to_owned(),
            less => format!("its commits survive only {less} here"),
        };
        return (Fitness::Unfit, why);
    }
    let (fitness, why) = match threshold {
        Some(threshold) => speed(threshold, repetitions),
        None => (
            Fitness::Fit,
            format!("{title} publishes no threshold; its commits are durable here"),
        ),
    };
    if fitness == Fitness::Fit && durability.verdict == Verdict::Unknown {
        let why = "it is unknown if commits survive a power cut here".to_owned();
        return (Fitness::Unclear, why);
    }
    (fitness, why)
}

fn speed(threshold: &Threshold, repetitions: &[Repetition]) -> (Fitness, String) {
    let findings: Vec<Finding> = repetitions.iter().filter_map(|r| r.finding).collect();
    let above = findings.iter().filter(|f| **f == Finding::Above).count();
    let all = findings.len();
    let of = threshold.of.words();
    let by = threshold.by;
    if all == 0 || findings.contains(&Finding::TooFew) {
        let least = 100 * BEYOND;
        return (
            Fitness::Unclear,
            format!("too few commits were made: {of} needs {least} or more"),
        );
    }
    match above {
        0 => (Fitness::Fit, format!("{of} is within the limit of {by}")),
        n if n == REPETITIONS => (
            Fitness::Unfit,
            format!("{of} exceeds the limit of {by} in each of {n} repetitions"),
        ),
        1 if all == REPETITIONS => (
            Fitness::Fit,
            format!("{of} is within the limit of {by} in the last 2 of {all} repetitions"),
        ),
        n => (
            Fitness::Unclear,
            format!(
                "{of} exceeds the limit of {by} in {n} of {all} repetitions: another program may use the disk, \
                 measure again"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::Source;
    use logforce_systems::System;

    fn threshold() -> Threshold {
        System::Etcd.commit().unwrap().threshold.unwrap()
    }

    fn judged(findings: &[Finding], guarantee: Guarantee, verdict: Verdict) -> (Fitness, String) {
        let repetitions: Vec<Repetition> = findings
            .iter()
            .map(|f| Repetition {
                finding: Some(*f),
                ..Repetition::default()
            })
            .collect();
        let durability = Assessment::new(guarantee, verdict, Source::Device, "the device says so");
        judge("etcd", Some(&threshold()), &repetitions, &durability)
    }

    #[test]
    fn only_repetitions_that_agree_call_a_disk_too_slow() {
        use Finding::{Above, TooFew, Within};
        for (findings, fitness, words) in [
            (
                &[Within][..],
                Fitness::Fit,
                "p99 is within the limit of etcd's FAQ",
            ),
            (
                &[Above, Above, Above],
                Fitness::Unfit,
                "in each of 3 repetitions",
            ),
            (
                &[Above, Within, Within],
                Fitness::Fit,
                "in the last 2 of 3 repetitions",
            ),
            (
                &[Above, Within, Above],
                Fitness::Unclear,
                "in 2 of 3 repetitions",
            ),
            (
                &[Above, Above, Within],
                Fitness::Unclear,
                "in 2 of 3 repetitions",
            ),
            (&[TooFew], Fitness::Unclear, "p99 needs 1000 or more"),
            (&[], Fitness::Unclear, "too few commits"),
            // The user interrupted the repetitions.
            (&[Above], Fitness::Unclear, "in 1 of 1 repetitions"),
        ] {
            let (found, why) = judged(findings, Guarantee::PowerLoss, Verdict::Declared);
            assert_eq!(found, fitness, "{findings:?}: {why}");
            assert!(why.contains(words), "{findings:?}: {why}");
        }
    }

    #[test]
    fn more_repetitions_follow_only_a_first_one_above_the_limit() {
        use Finding::{Above, TooFew, Within};
        for (findings, more) in [
            (&[][..], false),
            (&[Within], false),
            (&[TooFew], false),
            (&[Above], true),
            (&[Above, Within], true),
            (&[Above, TooFew], false),
            (&[Above, Above, Above], false),
        ] {
            assert_eq!(needs_more(findings), more, "{findings:?}");
        }
    }

    #[test]
    fn commits_that_do_not_last_are_unfit_at_any_speed() {
        let fast = &[Finding::Within];
        for (guarantee, verdict, fitness, words) in [
            (
                Guarantee::ProcessCrash,
                Verdict::Contradicted,
                Fitness::Unfit,
                "survive only process-crash",
            ),
            (
                Guarantee::OsCrash,
                Verdict::Declared,
                Fitness::Unfit,
                "survive only os-crash",
            ),
            (
                Guarantee::PowerLoss,
                Verdict::Implausible,
                Fitness::Unfit,
                "not durable",
            ),
            (
                Guarantee::PowerLoss,
                Verdict::Unknown,
                Fitness::Unclear,
                "it is unknown",
            ),
            (
                Guarantee::PowerLoss,
                Verdict::Proven,
                Fitness::Fit,
                "within the limit",
            ),
        ] {
            let (found, why) = judged(fast, guarantee, verdict);
            assert_eq!(found, fitness, "{why}");
            assert!(why.contains(words), "{why}");
        }
        // A disk that is too slow stays unfit.
        let slow = [Finding::Above; 3];
        let (found, _) = judged(&slow, Guarantee::PowerLoss, Verdict::Unknown);
        assert_eq!(found, Fitness::Unfit);
    }

    #[test]
    fn waits_for_a_processor_are_no_fault_of_the_disk() {
        let with = |percents: &[Option<f64>]| {
            let of = |cpu_wait_percent| Repetition {
                cpu_wait_percent,
                ..Repetition::default()
            };
            starved(&percents.iter().copied().map(of).collect::<Vec<_>>())
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[None, Some(4.9), Some(0.0)]), None);
        let told = with(&[Some(0.1), Some(31.4), None]).unwrap();
        assert!(told.contains("waited 31 % of the time"), "{told}");
    }

    #[test]
    fn a_finding_rests_on_ten_commits_beyond_the_percentile() {
        for (part, commits, above, finding) in [
            (Part::P99, 1000, 10, Finding::Within),
            (Part::P99, 1000, 11, Finding::Above),
            (Part::P99, 999, 9, Finding::TooFew),
            (Part::P99, 50, 9, Finding::TooFew),
            (Part::P99, 50, 10, Finding::Above),
            (Part::P99, 10_000, 100, Finding::Within),
            (Part::All, 10_000, 0, Finding::Within),
            (Part::All, 1, 1, Finding::Above),
            (Part::All, 999, 0, Finding::TooFew),
        ] {
            assert_eq!(
                Finding::of(part, commits, above),
                finding,
                "{part}: {above} of {commits}"
            );
        }
    }
}
