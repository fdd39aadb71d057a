//! The page of a crash test.

use super::table::table;
use super::{foot, frame};
use crate::chart::{Chart, Lane, Timeline, Width};
use crate::figure::Table;
use logforce_crashtest::explain::{Explanation, Least, MarkKind};
use logforce_crashtest::report::{Loss, Report, Verdict};
use maud::{Markup, html};

/// Rows of the timeline, from top to bottom.
const LANES: [(MarkKind, &str); 4] = [
    (MarkKind::Ack, "Acknowledgements"),
    (MarkKind::Write, "Writes"),
    (MarkKind::LostWrite, "Lost writes"),
    (MarkKind::Flush, "Flushes"),
];

/// Returns the page of a crash test.
pub fn crashtest(report: &Report) -> Markup {
    let program = report.plan.workload.to_string();
    let verdict = match report.verdict {
        Verdict::Survived => "Survived",
        Verdict::Lost => "Lost",
        Verdict::Inconclusive => "Proves nothing",
    };
    frame(
        &format!("Crash test: {program}"),
        html! {
            a.skip href="#content" { "Skip to the verdict" }
            header {
                h1 { "Crash test: " (verdict) }
                p { code { (program) } }
            }
            main id="content" {
                section.conclusion aria-label="Verdict" {
                    p { strong { (report.sentence) } }
                    @if let Some(found) = &report.explanation { p { (found.conclusion) } }
                }
                @for remark in report.reasons.iter().chain(&report.notes) { p.warning role="note" { (remark) "." } }
                section id="checks" {
                    h2 { "Checks" }
                    p { "The control ignores flushes: the check must notice what that loses. After " code { "kill -9" } " the disk keeps its power." }
                    (table(&checks(report), "Checks by filesystem"))
                }
                @if !report.losses.is_empty() {
                    section id="losses" {
                        h2 { "Losses" }
                        @for loss in &report.losses { (loss_of(loss)) }
                    }
                }
                @if let Some(found) = &report.explanation { (cause(found)) }
                section id="again" {
                    h2 { "To repeat it" }
                    pre { (report.plan.command) }
                    p { "The check:" }
                    pre { (report.plan.check) }
                    p.soft { "When the power goes depends on the machine too, so that another run has other cuts." }
                }
                section id="untested" {
                    h2 { "Not tested" }
                    ul { @for what in &report.untested { li { (what) "." } } }
                }
            }
            (foot())
        },
    )
}

fn checks(report: &Report) -> Table {
    let mut of = Table::new([
        "Filesystem",
        "Part",
        "Checks",
        "Acknowledged",
        "Lost",
        "Not opened",
        "Hung",
        "Filesystem lost",
    ]);
    for row in &report.rows {
        of.push([
            row.filesystem.to_string(),
            row.part.name().to_owned(),
            row.checks.to_string(),
            row.acknowledged.to_string(),
            row.lost.to_string(),
            row.unopened.to_string(),
            row.hung.to_string(),
            row.filesystem_lost.to_string(),
        ]);
    }
    of
}

fn loss_of(loss: &Loss) -> Markup {
    html! {
        h3 { (loss.message) }
        dl {
            dt { "Number of checks" } dd { (loss.cases) }
            dt { "Smallest case" } dd { (loss.filesystem) ", " (loss.part.name()) ", after " (loss.acked) " acknowledgements" }
            @if let Some(last) = &loss.last_acked { dt { "Last acknowledged" } dd { code { (last) } } }
            @if let Some(dir) = &loss.kept { dt { "To see it again" } dd { code { "sh " (dir) "/check.sh" } } }
        }
    }
}

fn cause(found: &Explanation) -> Markup {
    let mut experiments = Table::new([
        "One more sync before each acknowledgement",
        "Checks",
        "Failed",
    ]);
    for e in &found.experiments {
        let counts = [
            e.object.to_string(),
            e.checks.to_string(),
            e.failed.to_string(),
        ];
        experiments.push(counts);
    }
    if found.kills > 0 {
        let (kills, lost) = (found.kills.to_string(), found.lost_by_kill.to_string());
        experiments.push(["kill -9, no power cut".to_owned(), kills, lost]);
    }
    html! {
        section id="cause" {
            h2 { "The cause, on " (found.filesystem) }
            (table(&experiments, "Experiments"))
            @if found.examined > 0 {
                p {
                    @if found.dirty.is_empty() { "No file had unwritten contents at an acknowledgement." }
                    @for dirty in &found.dirty {
                        code { (dirty.name) } " was not on the disk at " (dirty.acks) " of " (found.examined) " acknowledgements. "
                    }
                }
            }
            @for stack in &found.stacks {
                p { "Last change before an acknowledgement, of what " em { (stack.object) } " would have made durable: " code { (stack.call) } }
                @if !stack.functions.is_empty() { pre { (stack.functions.join("\n")) } }
            }
            @if let Some(least) = &found.least { (smallest(least)) }
        }
    }
}

fn smallest(least: &Least) -> Markup {
    let timeline = timeline(least);
    let caption = "Events of the disk and acknowledgements in the last milliseconds before the cut, which is at 0.";
    html! {
        h3 { "The smallest loss" }
        p { (least.filesystem) ", after " (least.acked) " acknowledgements: " (least.message) }
        @if least.lost.is_empty() {
            p { "The check fails although everything survives that the disk was given: what is missing was not written to it." }
        } @else {
            ul { @for write in &least.lost { li { (write) } } }
        }
        @if !least.differences.is_empty() { p { "So " (least.differences.join(", ")) "." } }
        @if !least.timeline.is_empty() {
            figure id="timeline" aria-labelledby="timeline-t" {
                h3 id="timeline-t" { "Before the cut" }
                figcaption { (caption) }
                (timeline.element("Before the cut", caption, Width::Wide))
                (timeline.element("Before the cut", caption, Width::Narrow))
                details {
                    summary { "Show all " (least.timeline.len()) " events" }
                    (table(&events(least), "Events before the cut"))
                }
            }
        }
    }
}

fn timeline(least: &Least) -> Chart {
    let lane = |(kind, label): (MarkKind, &str)| Lane {
        label: label.to_owned(),
        times: least
            .timeline
            .iter()
            .filter(|mark| mark.kind == kind)
            .map(|mark| mark.before_cut as f64 / 1000.0)
            .collect(),
    };
    Chart::Timeline(Timeline {
        lanes: LANES.map(lane).into(),
        unit: "Milliseconds before the cut".to_owned(),
    })
}

fn events(least: &Least) -> Table {
    let mut of = Table::new(["Event", "Milliseconds before the cut"]);
    for mark in &least.timeline {
        let kind = LANES.iter().find(|(kind, _)| *kind == mark.kind);
        let name = kind.map_or("", |(_, name)| name).trim_end_matches('s');
        let time = format!("{:.3}", mark.before_cut as f64 / 1000.0);
        of.push([name.to_owned(), time]);
    }
    of
}
