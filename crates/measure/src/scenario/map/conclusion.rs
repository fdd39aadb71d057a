//! Conclusion from the rows, in sentences.

use super::{MapMethod, P4};
use crate::result::Row;
use crate::run::{Ratio, Relation};
use logforce_terminal::numbers::{bytes, short};

/// Describes the cost of a sync of the whole mapping and its growth. Then compares gathered writes with
/// the published figures, and our page files with the other methods.
pub fn conclude(rows: &[Row]) -> String {
    let sizes = || rows.iter().map(|r| r.file_bytes);
    let (Some(least), Some(largest)) = (sizes().min(), sizes().max()) else {
        return String::new();
    };
    let of = |method: MapMethod, size: u64| {
        rows.iter()
            .find(|r| r.method == method && r.file_bytes == size && r.ms_per_commit.is_some())
    };
    let mut sentences = Vec::new();
    if let Some(all) = of(MapMethod::MsyncAll, largest) {
        sentences.push(mapped(all, of(MapMethod::MsyncAll, least)));
    }
    let raw = [
        MapMethod::InFlightThrough,
        MapMethod::InFlight,
        MapMethod::Gathered,
    ];
    // The published method if the system has it, else the next best.
    let written = raw.iter().find_map(|m| of(*m, largest));
    if let (Some(written), Some(all)) = (written, of(MapMethod::MsyncAll, largest)) {
        sentences.extend(against_published(written, all));
    }
    let best = |is_wanted: fn(MapMethod) -> bool| {
        let wanted = rows
            .iter()
            .filter(|r| r.file_bytes == largest && r.method.known().is_some_and(is_wanted));
        let measured = wanted.filter_map(|r| Some((r.ms_per_commit?, r)));
        measured.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, r)| r)
    };
    if let (Some(ours), Some(raw)) = (best(MapMethod::is_ours), best(|m| !m.is_ours())) {
        sentences.extend(ours_and_raw(ours, raw));
    }
    match sentences.is_empty() {
        true => "Too little was measured to compare the methods.".to_owned(),
        false => sentences.join(" "),
    }
}

fn mapped(all: &Row, least: Option<&Row>) -> String {
    let ms = all.ms_per_commit.unwrap_or_default();
    let mut sentence = format!(
        "A commit that syncs the whole mapping of {} takes {} ms",
        bytes(all.file_bytes),
        short(ms, 2)
    );
    if let Some(system) = all.system_us_per_commit {
        let share = system / 10.0 / ms.max(f64::MIN_POSITIVE);
        sentence.push_str(&format!(
            ", of which {share:.0} % is processor time of the system"
        ));
    }
    let Some(least) = least.filter(|l| l.file_bytes < all.file_bytes) else {
        return sentence + ".";
    };
    if let Some(ratio) = ratio(all, least) {
        let than = bytes(least.file_bytes);
        sentence.push_str(&match ratio.relation() {
            Relation::Same => format!(
                "; that is as long as for {than} ({} times)",
                ratio.interval()
            ),
            Relation::Unclear => format!("; whether longer than for {than} is {}", ratio.unclear()),
            _ => format!(
                "; that is {} times the time for {than}",
                factor(ratio.figure)
            ),
        });
    }
    // The system's clock is too coarse for single rounds, so this has no interval.
    let before = least.system_us_per_commit.filter(|us| *us > 0.0);
    if let Some((before, after)) = before.zip(all.system_us_per_commit) {
        let times = factor(after / before);
        sentence.push_str(&format!(
            ", and the processor time is {times} times as much"
        ));
    }
    sentence + "."
}

/// Returns the time of a row as a multiple of another's.
fn ratio(of: &Row, to: &Row) -> Option<Ratio> {
    let rounds = of.each.iter().copied().zip(to.each.iter().copied());
    Some(Ratio::of(of.ms_per_commit? / to.ms_per_commit?, rounds))
}

fn factor(ratio: f64) -> String {
    short(ratio, if ratio < 1.0 { 2 } else { 1 })
}

/// Describes a time as a multiple of another.
fn times(ratio: &Ratio) -> String {
    match ratio.relation() {
        Relation::More => format!("{} times slower", short(ratio.figure, 1)),
        Relation::Less => format!("{} times faster", short(1.0 / ratio.figure, 1)),
        Relation::Same => format!("as fast ({} times the time)", ratio.interval()),
        Relation::Unclear => format!("faster or slower: {}", ratio.unclear()),
    }
}

fn against_published(row: &Row, all: &Row) -> Option<String> {
    let time = times(&ratio(row, all)?);
    let system = row
        .system_ratio
        .filter(|r| *r > 0.0)
        .map(|r| {
            let (by, what) = match r {
                r if r >= 1.0 => (short(r, 1), "more"),
                r => (short(1.0 / r, 1), "less"),
            };
            format!(" with {by} times {what} processor time of the system")
        })
        .unwrap_or_default();
    Some(format!(
        "By {} it is {time},{system} (published: {:.0} times faster, {:.0} to {:.0} times less).",
        row.method, P4.faster_mapped, P4.less_system.0, P4.less_system.1
    ))
}

fn ours_and_raw(ours: &Row, raw: &Row) -> Option<String> {
    let ratio = ratio(ours, raw)?;
    Some(format!(
        "The faster of our page files at {} is {} with {} ms; beside the fastest of the others, {} with {} ms, \
         it is {}.",
        bytes(ours.file_bytes),
        ours.method,
        short(ours.ms_per_commit?, 2),
        raw.method,
        short(raw.ms_per_commit?, 2),
        times(&ratio)
    ))
}
