//! What follows from the rows, in sentences.

use super::published::{Published, THROUGH_S};
use super::row::{Rounds, policy, systems, usual};
use super::{PAIRS, Policy, rests_on};
use crate::result::Row;
use crate::result::plausible::PLATTER_TURNS_PER_S;
use logforce::disk::Facts;
use logforce_device::{Guarantee, Verdict};
use logforce_terminal::numbers::short;

/// Share of all comparisons of one's rounds with the other's that have to come out longer. One round in
/// five that a neighbour disturbed changes nothing.
const CLEARLY: f64 = 0.75;

/// Whether one took longer than the other, beyond the noise of the rounds.
fn is_more(one: Rounds<'_>, other: Rounds<'_>) -> bool {
    let pairs = one
        .all
        .iter()
        .flat_map(|a| other.all.iter().map(move |b| a > b));
    let longer = pairs.filter(|is_longer| *is_longer).count();
    longer as f64 >= CLEARLY * (one.all.len() * other.all.len()) as f64
}

/// What durability costs here and what it cost there, what the second log costs, and whether this disk
/// is one that turns.
pub fn conclude(rows: &[Row], pairs: u64, facts: &Facts) -> String {
    let of = |system: &str, policy, second| usual(rows, system, policy, second);
    let mut sentences = Vec::new();
    for system in systems(rows) {
        sentences.extend(cost(&system, pairs, |p| of(&system, p, false)));
    }
    if sentences.is_empty() {
        return "Too little was measured to tell what durability costs here.".to_owned();
    }
    sentences.push(there());
    for system in systems(rows) {
        let (one, two) = (
            of(&system, Policy::Force, false),
            of(&system, Policy::Force, true),
        );
        sentences.extend(one.zip(two).map(|(one, two)| second_log(&system, one, two)));
    }
    sentences.push(paid_for());
    sentences.extend(platter(rows, pairs, facts));
    sentences.join(" ")
}

/// What a system's policies come to.
fn cost<'a>(system: &str, pairs: u64, of: impl Fn(Policy) -> Option<Rounds<'a>>) -> Option<String> {
    let forced = of(Policy::Force)?;
    let mut ratios = Vec::new();
    for (policy, words) in [
        (Policy::Write, "written and forced later (policy 2)"),
        (Policy::Later, "left in memory for later (policy 0)"),
    ] {
        let Some(other) = of(policy).filter(|s| s.median > 0.0) else {
            continue;
        };
        ratios.push(match is_more(forced, other) {
            true => format!(
                "{} times what it takes {words}",
                short(forced.median / other.median, 1)
            ),
            false => format!("within the noise no more than {words}"),
        });
    }
    let ratios = match ratios.is_empty() {
        true => String::new(),
        false => format!(", {}", ratios.join(" and ")),
    };
    Some(format!(
        "{system}: {pairs} inserts that are each forced take {} s{ratios}.",
        short(forced.median, 3)
    ))
}

/// What the published seconds come to.
fn there() -> String {
    let of = |policy| Published::of(policy, false);
    let (Some(forced), Some(written)) = (of(Policy::Force), of(Policy::Write)) else {
        return String::new();
    };
    format!(
        "Published: {} s on Windows and {} s on Linux, {} and {} times policy 2.",
        short(forced.windows_s, 1),
        short(forced.linux_s, 1),
        short(forced.windows_s / written.windows_s, 1),
        short(forced.linux_s / written.linux_s, 1)
    )
}

fn second_log(system: &str, one: Rounds<'_>, two: Rounds<'_>) -> String {
    let there = |of: fn(&Published) -> f64| {
        let one = Published::of(Policy::Force, false).map_or(1.0, |p| of(&p));
        Published::of(Policy::Force, true).map_or(1.0, |p| of(&p)) / one
    };
    let words = match is_more(two, one) {
        true => format!(
            "makes that {} times as long",
            short(two.median / one.median, 1)
        ),
        false => "takes no longer beyond the noise".to_owned(),
    };
    format!(
        "{system}: a second log that is forced as well {words} (published: {} and {} times).",
        short(there(|p| p.windows_s), 1),
        short(there(|p| p.linux_s), 1)
    )
}

/// What the times of the thread were spent on.
fn paid_for() -> String {
    "What the people of that thread paid for with policy 1 was one forced write of the log for each \
     commit; the binary log was a second one, and one log in the place of two would halve it. Policies 2 \
     and 0 did not make commits cheaper: they acknowledged them before they were durable."
        .to_owned()
}

/// Whether this disk forces faster than one that turns can.
fn platter(rows: &[Row], pairs: u64, facts: &Facts) -> Option<String> {
    let is_durable = |r: &&Row| {
        r.clients == 1
            && r.on_this_disk
            && r.guarantee == Some(Guarantee::PowerLoss)
            && policy(r) == Some(Policy::Force)
    };
    let durable: Vec<&Row> = rows.iter().filter(is_durable).collect();
    let fastest = durable.iter().copied().max_by(|a, b| {
        let rate = |r: &Row| r.commits_per_s.unwrap_or_default();
        rate(a).total_cmp(&rate(b))
    })?;
    let rate = fastest.commits_per_s?;
    let least = pairs as f64 / PLATTER_TURNS_PER_S;
    let there = PAIRS as f64 / THROUGH_S.0;
    if rate <= PLATTER_TURNS_PER_S {
        return Some(format!(
            "This disk makes {} durable inserts a second one after the other, which is no more than a \
             disk of 7200 rpm could make at one place ({PLATTER_TURNS_PER_S:.0}).",
            short(rate, 0)
        ));
    }
    let is_proven = durable.iter().all(|r| r.verdict == Some(Verdict::Proven));
    let is_doubted = durable
        .iter()
        .any(|r| r.verdict == Some(Verdict::Implausible));
    let word = match (is_doubted, is_proven) {
        (true, _) => "Not all of it can have been durable (see the notes).".to_owned(),
        (_, true) => "Power cuts have shown that it keeps its word.".to_owned(),
        _ => format!(
            "Whether that is durable no time can tell: it is so {}; `logforce powercut` tests it by \
             pulling the plug.",
            rests_on(facts)
        ),
    };
    Some(format!(
        "A disk of 7200 rpm comes round {PLATTER_TURNS_PER_S:.0} times a second and needs {} s for {} \
         forced inserts; this one makes {} a second, so it is no platter that answers, but flash or a \
         cache. {word} The thread's log that was opened for write-through made up to {} a second, more \
         than its disks turned: those were not on the platter when they were acknowledged.",
        short(least, 1),
        pairs,
        short(rate, 0),
        short(there, 0)
    ))
}
