//! Conclusion from the rows, in sentences.

use super::published::{Published, THROUGH_S};
use super::row::{Rounds, policy, systems, usual};
use super::{PAIRS, Policy, rests_on};
use crate::result::Row;
use crate::result::plausible::PLATTER_TURNS_PER_S;
use crate::run::{Ratio, Relation};
use logforce::disk::Facts;
use logforce_device::{Guarantee, Verdict};
use logforce_terminal::numbers::short;

/// Describes the cost of durability here and in the published runs, and the cost of a second log. Also
/// tells whether this disk is faster than a hard disk can be.
pub fn conclude(rows: &[Row], pairs: u64, facts: &Facts) -> String {
    let of = |system: &str, policy, second| usual(rows, system, policy, second);
    let mut sentences = Vec::new();
    for system in systems(rows) {
        sentences.extend(cost(&system, pairs, |p| of(&system, p, false)));
    }
    if sentences.is_empty() {
        return "Too little was measured to determine the cost of durability here.".to_owned();
    }
    let second = systems(rows).into_iter().filter_map(|system| {
        let one = of(&system, Policy::Force, false)?;
        let two = of(&system, Policy::Force, true)?;
        Some((system, two.ratio(one)))
    });
    let second: Vec<(String, Ratio)> = second.collect();
    sentences.extend(
        second
            .iter()
            .map(|(system, ratio)| second_log(system, ratio)),
    );
    sentences.extend(platter(rows, pairs, facts));
    sentences.push(there());
    sentences.push(paid_for(&second));
    sentences.join(" ")
}

/// Compares the policies of a system.
fn cost<'a>(system: &str, pairs: u64, of: impl Fn(Policy) -> Option<Rounds<'a>>) -> Option<String> {
    let forced = of(Policy::Force)?;
    let mut ratios = Vec::new();
    for (policy, words) in [
        (Policy::Write, "inserts that are forced later (policy 2)"),
        (Policy::Later, "inserts that are written later (policy 0)"),
    ] {
        let Some(other) = of(policy).filter(|s| s.median > 0.0) else {
            continue;
        };
        let ratio = forced.ratio(other);
        ratios.push(match ratio.relation() {
            Relation::Same => format!("as long as {words} ({} times)", ratio.interval()),
            Relation::Unclear => format!("compared with {words} {}", ratio.unclear()),
            _ => format!("{} times as long as {words}", short(ratio.figure, 1)),
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

/// Describes the published seconds.
fn there() -> String {
    let of = |policy| Published::of(policy, false);
    let (Some(forced), Some(written)) = (of(Policy::Force), of(Policy::Write)) else {
        return String::new();
    };
    format!(
        "Published: {} s on Windows and {} s on Linux, which is {} and {} times as long as policy 2.",
        short(forced.windows_s, 1),
        short(forced.linux_s, 1),
        short(forced.windows_s / written.windows_s, 1),
        short(forced.linux_s / written.linux_s, 1)
    )
}

fn second_log(system: &str, ratio: &Ratio) -> String {
    let there = |of: fn(&Published) -> f64| {
        let one = Published::of(Policy::Force, false).map_or(1.0, |p| of(&p));
        Published::of(Policy::Force, true).map_or(1.0, |p| of(&p)) / one
    };
    let words = match ratio.relation() {
        Relation::Same => format!("takes as long as one ({} times)", ratio.interval()),
        Relation::Unclear => format!("may take longer or not: {}", ratio.unclear()),
        _ => format!("makes that {} times as long", short(ratio.figure, 1)),
    };
    format!(
        "{system}: a second log that is forced as well {words} (published: {} and {} times).",
        short(there(|p| p.windows_s), 1),
        short(there(|p| p.linux_s), 1)
    )
}

/// Explains the published times. Says what one log in the place of two would gain only if every second log took
/// longer here too.
fn paid_for(second: &[(String, Ratio)]) -> String {
    let is_more = |(_, ratio): &(String, Ratio)| ratio.relation() == Relation::More;
    let gain = match !second.is_empty() && second.iter().all(is_more) {
        true => ", and one log in the place of two would halve it",
        false => "",
    };
    format!(
        "In the published runs policy 1 cost one forced write of the log for each commit. The binary log \
         was a second forced write{gain}. Policies 2 and 0 did not make durable commits cheaper: they \
         acknowledged commits before they were durable."
    )
}

/// Compares the rate of durable inserts with that of a hard disk of 7200 rpm.
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
            "This disk makes {} durable inserts a second, one after the other. A hard disk of 7200 rpm \
             could make up to {PLATTER_TURNS_PER_S:.0}, one per revolution.",
            short(rate, 0)
        ));
    }
    let is_proven = durable.iter().all(|r| r.verdict == Some(Verdict::Proven));
    let is_doubted = durable
        .iter()
        .any(|r| r.verdict == Some(Verdict::Implausible));
    let word = match (is_doubted, is_proven) {
        (true, _) => "Not all of these inserts can have been durable (see the notes).".to_owned(),
        (_, true) => "Power cuts have shown that they are durable.".to_owned(),
        _ => format!(
            "Times cannot prove that they are durable: they are so {}; `logforce powercut` tests it with \
             real power cuts.",
            rests_on(facts)
        ),
    };
    Some(format!(
        "A hard disk of 7200 rpm makes {PLATTER_TURNS_PER_S:.0} revolutions a second and needs {} s for {} \
         forced inserts; this one makes {} a second, so flash or a cache answers, not a platter. {word} In \
         the published runs a log that was opened for write-through made up to {} inserts a second, more \
         than its disk made revolutions: these were not on the platter when they were acknowledged.",
        short(least, 1),
        pairs,
        short(rate, 0),
        short(there, 0)
    ))
}
