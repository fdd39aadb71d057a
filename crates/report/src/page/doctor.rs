//! The page of an examination by `logforce doctor`.

use super::prose::prose;
use super::table::table;
use super::{foot, frame};
use crate::figure::Table;
use logforce_measure::doctor::{Doctor, Severity};
use maud::{Markup, html};

/// Returns the page.
pub fn doctor(doctor: &Doctor) -> Markup {
    let verdict = match doctor.conclusion.severity {
        Severity::Safe => "survives loss of power",
        Severity::Unknown => "unknown whether it survives loss of power",
        Severity::Unsafe => "does not survive loss of power",
    };
    let m = &doctor.machine;
    frame(
        &format!("Durability of {} on {}: {verdict}", m.directory, m.host),
        html! {
            a.skip href="#content" { "Skip to the verdict" }
            header {
                h1 { "A commit in " code { (m.directory) } ": " (verdict) }
                p.soft { (m.host) ": " (m.os) " " (m.kernel) ", " (m.arch) ", " (m.cpus) " cpus" }
            }
            main id="content" {
                section.conclusion aria-label="Verdict" {
                    p { strong { (doctor.conclusion.sentence) } }
                    @for advice in &doctor.conclusion.advice { p { (prose(advice)) } }
                }
                @for note in &m.notes { p.warning role="note" { (note) } }
                section id="stack" {
                    h2 { "The stack, from the filesystem down" }
                    p { "Each line has the verdict of that layer alone. The weakest one counts." }
                    (table(&stack(doctor), "Layers"))
                    h2 { "Readings" }
                    (table(&readings(doctor), "Properties, and where they were read"))
                    p { (doctor.fua) }
                    p { (doctor.atomic) }
                    p { (doctor.protection) }
                    p { (doctor.zeroes) }
                }
                section id="tests" {
                    h2 { "Tests" }
                    @match &doctor.untested {
                        Some(why) => p { "None: " (why) "." },
                        None => (table(&tests(doctor), "Short tests in the directory")),
                    }
                }
                section id="methods" {
                    h2 { "Commit methods" }
                    (table(&methods(doctor), "Guarantee of a force, on a file that was filled beforehand"))
                    p { (doctor.next.sentences()) }
                }
            }
            (foot())
        },
    )
}

fn stack(doctor: &Doctor) -> Table {
    let mut of = Table::new(["Layer", "Kind", "Survives", "Verdict", "Source", "Evidence"]);
    for layer in &doctor.stack {
        let branch = match layer.level {
            0 => String::new(),
            level => format!("{}└ ", "\u{2003}".repeat(level as usize - 1)),
        };
        of.push([
            format!("{branch}{}", layer.name),
            layer.about.clone(),
            layer.survives.to_owned(),
            layer.verdict.to_owned(),
            layer.source.to_owned(),
            layer.evidence.clone(),
        ]);
    }
    of
}

fn readings(doctor: &Doctor) -> Table {
    let mut of = Table::new(["Layer", "Property", "Value", "Read from"]);
    for layer in &doctor.stack {
        for read in &layer.readings {
            of.push([
                layer.name.clone(),
                read.what.clone(),
                read.value.clone(),
                read.from.clone(),
            ]);
        }
    }
    of
}

fn tests(doctor: &Doctor) -> Table {
    let mut of = Table::new(["Question", "Result", "Finding"]);
    for test in &doctor.tests {
        let result = match test.passed {
            Some(true) => "as declared",
            Some(false) => "contradicts",
            None => "",
        };
        of.push([
            test.question.clone(),
            result.to_owned(),
            test.finding.clone(),
        ]);
    }
    of
}

fn methods(doctor: &Doctor) -> Table {
    let mut of = Table::new(["Method", "Survives", "Verdict", "Evidence"]);
    for method in &doctor.methods {
        let text = |value: Option<&str>| value.unwrap_or("–").to_owned();
        of.push([
            method.method.to_owned(),
            text(method.guarantee),
            text(method.verdict),
            text(method.evidence.as_deref().or(method.why_not.as_deref())),
        ]);
    }
    of
}
