//! Verdict of a test.

use crate::parts::Part;
use crate::report::{Loss, Report, Row, Verdict};
use crate::testbed::Filesystem;
use std::time::Duration;

/// Checks that ran after an acknowledgement, as a share of all cases, below which the test proves nothing.
const ENOUGH: f64 = 0.5;

/// Adds the counts, the losses and the verdict to a report. A check that never succeeds proves nothing.
pub(crate) fn finished(
    mut report: Report,
    rows: Vec<Row>,
    mut losses: Vec<Loss>,
    check_is_broken: bool,
    duration: Duration,
) -> Report {
    report.reasons.extend(doubts(&rows));
    losses.sort_by_key(|l| std::cmp::Reverse(l.cases));
    let (verdict, sentence) = match check_is_broken {
        true => proves_nothing(),
        false => verdict(&rows, &report.reasons),
    };
    Report {
        verdict,
        sentence,
        rows,
        losses,
        seconds: duration.as_secs_f64(),
        ..report
    }
}

/// Returns why a test without losses proves nothing.
fn doubts(rows: &[Row]) -> Vec<String> {
    let mut doubts = Vec::new();
    for row in rows {
        let (filesystem, part) = (row.filesystem, row.part.name());
        // A failure with nothing acknowledged does not show that the check looks at what was acknowledged.
        if row.part == Part::Control && row.failed() == row.failed_without_acks {
            let which = match row.filesystem {
                Filesystem::Model => "states in which every sync was ignored",
                _ => "cuts of a disk that ignores flushes",
            };
            let early = match row.failed_without_acks {
                0 => String::new(),
                n => format!(
                    ". Its {n} failures came before the first acknowledgement; create the store with --setup"
                ),
            };
            doubts.push(format!(
                "{filesystem}: the check noticed nothing in {} {which}, after up to {} acknowledgements; either it does \
                 not look at what was acknowledged, or the workload writes past every cache. It has to fail if \
                 anything that was acknowledged is missing{early}",
                row.with_acks, row.most_acked
            ));
        }
        let share = row.with_acks as f64 / row.checks.max(1) as f64;
        if matches!(row.part, Part::Cuts | Part::States) && share < ENOUGH {
            doubts.push(format!(
                "{filesystem}: only {} of {} {part} count: before {} of them nothing had been acknowledged, and {} left a \
                 filesystem that cannot be mounted",
                row.with_acks,
                row.checks,
                row.ran() - row.with_acks,
                row.filesystem_lost
            ));
        }
    }
    doubts
}

fn proves_nothing() -> (Verdict, String) {
    let sentence = "This test proves nothing.".to_owned();
    (Verdict::Inconclusive, sentence)
}

/// Returns the verdict, and a sentence that says it.
fn verdict(rows: &[Row], reasons: &[String]) -> (Verdict, String) {
    let sum = |part, number: fn(&Row) -> u64| -> u64 {
        let rows = rows.iter().filter(|r| r.part == part);
        rows.map(number).sum()
    };
    let checks = |part| sum(part, Row::ran);
    let failed = |part| sum(part, Row::failed);
    let (cuts, states) = (checks(Part::Cuts), checks(Part::States));
    let (lost_by_kill, lost) = (
        failed(Part::Kill),
        (failed(Part::Cuts), failed(Part::States)),
    );
    let is_model = rows.iter().any(|r| r.filesystem == Filesystem::Model);
    if lost_by_kill + lost.0 + lost.1 > 0 {
        let kill = match lost_by_kill {
            0 => "",
            _ => ", and after kill -9 without a power cut",
        };
        let real = [Part::Kill, Part::Cuts, Part::States];
        let early: u64 = real
            .map(|part| sum(part, |r| r.failed_without_acks))
            .iter()
            .sum();
        let early = match early {
            0 => String::new(),
            n => format!(" Before {n} of these checks nothing had been acknowledged."),
        };
        let (in_cuts, in_states) = lost;
        let sentence = match is_model {
            true => format!(
                "The check failed in {in_states} of {states} states of a model (strict POSIX){kill}.{early}"
            ),
            false => format!(
                "The check failed after {in_cuts} of {cuts} power cuts and in {in_states} of {states} crash states{kill}.{early}"
            ),
        };
        return (Verdict::Lost, sentence);
    }
    if !reasons.is_empty() || cuts + states == 0 {
        return proves_nothing();
    }
    let sentence = match is_model {
        true => format!(
            "Nothing was lost in {states} states of a model (strict POSIX). No real disk was tested."
        ),
        false => {
            let lost = [Part::Cuts, Part::States].map(|part| sum(part, |r| r.filesystem_lost));
            let lost = match lost.iter().sum() {
                0_u64 => String::new(),
                n => format!(" {n} more left a filesystem that cannot be mounted."),
            };
            format!(
                "{cuts} power cuts and {states} crash states lost nothing that was acknowledged.{lost}"
            )
        }
    };
    (Verdict::Survived, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(part: Part, checks: u64, lost: u64) -> Row {
        Row {
            checks,
            with_acks: checks,
            lost,
            ..Row::new(Filesystem::Ext4, part)
        }
    }

    #[test]
    fn what_proves_nothing_is_not_a_success() {
        let of = |rows: &[Row]| verdict(rows, &doubts(rows)).0;
        let (cuts, control) = (row(Part::Cuts, 30, 0), row(Part::Control, 5, 4));
        assert_eq!(of(&[control.clone(), cuts.clone()]), Verdict::Survived);
        assert_eq!(
            of(&[row(Part::Control, 5, 0), cuts.clone()]),
            Verdict::Inconclusive,
            "blind"
        );
        let blind = Row {
            filesystem: Filesystem::Xfs,
            ..row(Part::Control, 5, 0)
        };
        assert_eq!(
            of(&[control.clone(), blind, cuts.clone()]),
            Verdict::Inconclusive,
            "blind on one of two"
        );
        let before_acks = |with_acks, failed_without_acks| Row {
            with_acks,
            failed_without_acks,
            ..control.clone()
        };
        assert_eq!(
            of(&[before_acks(2, 3), cuts.clone()]),
            Verdict::Survived,
            "one of the four failures came after an acknowledgement"
        );
        let creation = [before_acks(1, 4), cuts.clone()];
        assert_eq!(
            of(&creation),
            Verdict::Inconclusive,
            "blind behind creation"
        );
        assert!(doubts(&creation)[0].ends_with("create the store with --setup"));
        let early = Row {
            with_acks: 3,
            ..cuts.clone()
        };
        assert_eq!(
            of(&[control.clone(), early]),
            Verdict::Inconclusive,
            "too few"
        );
        let unmounted = |filesystem_lost| Row {
            filesystem_lost,
            with_acks: 30 - filesystem_lost,
            ..cuts.clone()
        };
        for filesystem_lost in [20, 30] {
            assert_eq!(
                of(&[control.clone(), unmounted(filesystem_lost)]),
                Verdict::Inconclusive,
                "{filesystem_lost} of 30 filesystems lost"
            );
        }
        let few = [control.clone(), unmounted(2)];
        assert_eq!(
            verdict(&few, &doubts(&few)),
            (
                Verdict::Survived,
                "28 power cuts and 0 crash states lost nothing that was acknowledged. 2 more left a filesystem that \
                 cannot be mounted."
                    .to_owned()
            )
        );
        assert_eq!(
            of(std::slice::from_ref(&control)),
            Verdict::Inconclusive,
            "no cut"
        );
        assert_eq!(
            of(&[control.clone(), row(Part::Cuts, 30, 1)]),
            Verdict::Lost
        );
        assert_eq!(of(&[row(Part::Kill, 1, 1), control, cuts]), Verdict::Lost);
    }
}
