//! Output of `logforce advise` as text: the settings in force, and the snippet to paste.

use super::judge::answer;
use super::report::{Advice, AdviceReport, Cost, InForce, Survives};
use logforce_systems::settings::{Answer, Snippet};
use logforce_terminal::layout::wrap;
use logforce_terminal::numbers::{count, short};

/// Column at which the explanation of a setting begins.
const INDENT: usize = 10;
/// Narrowest text.
const NARROWEST: usize = 60;

/// Returns the report on the settings in force.
pub fn in_force(report: &AdviceReport, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut text = wrap(&report.sentence, width, 0);
    text.push('\n');
    for line in report.in_force.iter().flatten() {
        text.push_str(&setting(line, width));
    }
    for (title, sentences) in [
        ("Not understood:", &report.unread),
        ("Notes:", &report.notes),
    ] {
        if !sentences.is_empty() {
            text.push_str(&format!("\n{title}\n"));
            for sentence in sentences {
                text.push_str(&wrap(&format!("- {sentence}"), width, 2));
            }
        }
    }
    text
}

fn setting(line: &InForce, width: usize) -> String {
    let mark = match answer(line.answer) {
        Answer::Below => "BELOW",
        Answer::Doubtful => "unclear",
        Answer::Enough => "ok",
    };
    let value = match line.value.as_str() {
        "" => "(unset)",
        value => value,
    };
    let place = line.place.as_deref().unwrap_or("default");
    let mut text = format!("{mark:<INDENT$}{} = {value}   {place}\n", line.name);
    let mut add = |words: &str| {
        for line in wrap(words, width - INDENT, 0).lines() {
            text.push_str(&format!("{:INDENT$}{line}\n", ""));
        }
    };
    if let Some(note) = &line.note {
        add(&format!("{note}."));
    }
    let survives = line.survives.as_ref();
    if let Some(survives) = survives.filter(|_| answer(line.answer) != Answer::Enough) {
        add(&format!("{}.", survived(survives)));
        // The evidence is of interest where the disk, and not the setting, is the reason.
        let is_of_disk = survives.guarantee != survives.promised;
        if let Some(evidence) = survives.evidence.as_ref().filter(|_| is_of_disk) {
            add(&format!("{evidence}."));
        }
    }
    match &line.change {
        Some(change) => add(&format!("change to: {change}")),
        None if line.remove => add("remove the line: the default gives more"),
        None => return text,
    }
    add(line.manual);
    text
}

/// Returns the words for what is survived, without a full stop.
fn survived(survives: &Survives) -> String {
    let (mut words, failure) = match survives.guarantee {
        "nothing" => ("survives no crash for certain".to_owned(), "a crash"),
        guarantee => (format!("survives {guarantee}"), "a stronger failure"),
    };
    match (survives.beyond, survives.beyond_words) {
        (Some("damages"), Some(what)) => {
            words.push_str(&format!("; {failure} may damage the data: {what}"));
        }
        (Some(_), Some(what)) => words.push_str(&format!("; {failure} loses {what}")),
        _ => {}
    }
    words
}

/// Returns the text to paste: a comment and a line for each setting.
pub fn snippet(head: &[String], advice: &[Advice], form: &Snippet, width: usize) -> String {
    let mut text = String::new();
    let width = width.max(NARROWEST);
    for sentence in head {
        text.push_str(&comment(sentence, form, width));
    }
    for line in form.before {
        text.push_str(&format!("{line}\n"));
    }
    for advised in advice {
        text.push('\n');
        text.push_str(&comment(&about(advised), form, width));
        text.push_str(&comment(advised.manual, form, width));
        match &advised.line {
            Some(line) => text.push_str(&format!("{line}\n")),
            None => text.push_str(&comment(
                &format!("leave {} unset", advised.name),
                form,
                width,
            )),
        }
    }
    for line in form.after {
        text.push_str(&format!("{line}\n"));
    }
    text
}

/// Returns the text as comment lines.
fn comment(words: &str, form: &Snippet, width: usize) -> String {
    let mark = form.comment;
    let lines = wrap(words, width - mark.len() - 1, 0);
    lines
        .lines()
        .map(|line| format!("{mark} {line}\n"))
        .collect()
}

/// Returns what a setting survives and costs, and its default.
fn about(advised: &Advice) -> String {
    let mut words = survived(&advised.survives);
    if let Some(cost) = cost(&advised.cost) {
        words.push_str(&format!("; {cost}"));
    }
    if let Some(why) = &advised.why {
        words.push_str(&format!("; {why}"));
    }
    let default = match advised.default {
        "" => "unset",
        default => default,
    };
    words.push_str(&format!("; default: {default}"));
    words
}

fn cost(cost: &Cost) -> Option<String> {
    if let Some(words) = cost.words {
        return Some(format!("costs: {words}"));
    }
    if cost.forces_per_commit == 0 {
        return None;
    }
    let forces = count(cost.forces_per_commit, "force");
    let force = match &cost.force {
        Some(force) => format!("{forces} a commit ({force})"),
        None => format!("{forces} a commit"),
    };
    let ms = |value: f64| short(value, 2);
    match (
        cost.ms_per_commit,
        cost.ms_per_commit_p10,
        cost.ms_per_commit_p90,
    ) {
        (Some(middle), Some(low), Some(high)) => Some(format!(
            "costs {force}: {} ms here ({}–{})",
            ms(middle),
            ms(low),
            ms(high)
        )),
        _ => Some(format!("costs {force}")),
    }
}
