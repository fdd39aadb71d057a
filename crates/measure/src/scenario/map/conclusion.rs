//! Conclusion from the rows, in sentences.

use super::{MapMethod, P4};
use crate::result::Row;
use logforce_terminal::numbers::{bytes, short};

/// Factor up to which two values are called the same.
const SAME: f64 = 1.1;

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
    if let Some(written) = raw.iter().find_map(|m| of(*m, largest)) {
        sentences.extend(against_published(written));
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
    let grown = |of: fn(&Row) -> Option<f64>| {
        let (before, after) = (of(least)?, of(all)?);
        (before > 0.0).then(|| after / before)
    };
    let words = |factor: f64| match factor {
        f if f > SAME => format!("{} times", short(f, 1)),
        f if f < 1.0 / SAME => format!("{} times", short(f, 2)),
        _ => "the same as".to_owned(),
    };
    if let Some(time) = grown(|r| r.ms_per_commit) {
        sentence.push_str(&format!(
            "; that is {} the time for {}",
            words(time),
            bytes(least.file_bytes)
        ));
    }
    if let Some(system) = grown(|r| r.system_us_per_commit) {
        let grown = match words(system) {
            same if same.starts_with("the same") => "the same".to_owned(),
            words => format!("{words} as much"),
        };
        sentence.push_str(&format!(", and the processor time is {grown}"));
    }
    sentence + "."
}

/// Expresses a ratio as a factor with the word `less` or `more`.
fn times(ratio: f64, less: &str, more: &str) -> String {
    match ratio {
        r if r > SAME => format!("{} times {more}", short(r, 1)),
        r if r < 1.0 / SAME => format!("{} times {less}", short(1.0 / r, 1)),
        _ => format!("neither {less} nor {more}"),
    }
}

fn against_published(row: &Row) -> Option<String> {
    let time = times(row.ratio?, "faster", "slower");
    let system = row
        .system_ratio
        .filter(|r| *r > 0.0)
        .map(|r| {
            let (by, what) = match r {
                r if r > SAME => (short(r, 1), "more"),
                r if r < 1.0 / SAME => (short(1.0 / r, 1), "less"),
                _ => return " with the same processor time of the system".to_owned(),
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
    let ratio = ours.ms_per_commit? / raw.ms_per_commit?;
    Some(format!(
        "The faster of our page files at {} is {} with {} ms, {} than the fastest of the others, {} \
         with {} ms.",
        bytes(ours.file_bytes),
        ours.method,
        short(ours.ms_per_commit?, 2),
        times(ratio, "faster", "slower"),
        raw.method,
        short(raw.ms_per_commit?, 2)
    ))
}
