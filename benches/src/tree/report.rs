//! Medians, ratios, the table.

use crate::target::{Bound, verdict};
use crate::tree::operation::Operation;
use crate::tree::rounds::Line;
use crate::tree::slice::TreeSlice;
use crate::tree::store::Store;
use crate::tree::stores::LOGFORCE;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// A line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct TreeRow {
    pub operation: String,
    pub threads: usize,
    pub store: &'static str,
    /// Median of the rounds.
    pub keys_per_second: Option<f64>,
    /// Lowest and highest of the rounds.
    pub keys_per_second_range: Option<(f64, f64)>,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Ratios of the example tree to each other store: the median over the rounds. Empty for the other
    /// stores.
    pub ratios: Vec<Ratio>,
    pub target: Option<Target>,
    pub error: Option<String>,
}

/// Ratio to the rate of another store.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// Other store; `best` is the best one of each round.
    pub of: &'static str,
    pub ratio: f64,
}

/// Target value.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    pub of: &'static str,
    pub at_least: f64,
    pub met: bool,
}

/// Returns the rows, grouped by operation.
pub fn rows(stores: &[&dyn Store], lines: &[Line]) -> Vec<TreeRow> {
    lines.iter().map(|line| row(stores, lines, line)).collect()
}

fn row(stores: &[&dyn Store], lines: &[Line], line: &Line) -> TreeRow {
    let store = stores[line.store].name();
    let seen: Vec<&TreeSlice> = line.rounds.iter().flatten().collect();
    let rates: Vec<f64> = seen.iter().map(|s| s.rate()).collect();
    let percentile = |p| median(seen.iter().filter_map(|s| s.percentile(p)).collect());
    let ratios = match store {
        LOGFORCE => ratios(stores, lines, line),
        _ => Vec::new(),
    };
    let target = target(line.operation, &ratios);
    let ends = (rates.iter().copied().reduce(f64::min)).zip(rates.iter().copied().reduce(f64::max));
    TreeRow {
        operation: line.operation.in_words(),
        threads: line.operation.threads(),
        store,
        keys_per_second: median(rates),
        keys_per_second_range: ends,
        p50_us: percentile(50),
        p99_us: percentile(99),
        ratios,
        target,
        error: line.rounds.iter().find_map(|r| r.as_ref().err().cloned()),
    }
}

fn ratios(stores: &[&dyn Store], lines: &[Line], line: &Line) -> Vec<Ratio> {
    let others: Vec<&Line> = lines
        .iter()
        .filter(|l| l.operation == line.operation && l.store != line.store)
        .collect();
    let rate = |l: &Line, round: usize| l.rounds.get(round)?.as_ref().ok().map(TreeSlice::rate);
    let over = |of: &'static str, theirs: &dyn Fn(usize) -> Option<f64>| {
        let ratio = |round| Some(rate(line, round)? / theirs(round)?);
        let ratio = median((0..line.rounds.len()).filter_map(ratio).collect())?;
        Some(Ratio { of, ratio })
    };
    let best = |round: usize| {
        others
            .iter()
            .filter_map(|l| rate(l, round))
            .reduce(f64::max)
    };
    let mut ratios: Vec<Ratio> = over("best", &best).into_iter().collect();
    for other in &others {
        ratios.extend(over(stores[other.store].name(), &|round| {
            rate(other, round)
        }));
    }
    ratios
}

fn target(operation: Operation, ratios: &[Ratio]) -> Option<Target> {
    let (at_least, of) = operation.target()?;
    let of = of.unwrap_or("best");
    let ratio = ratios.iter().find(|r| r.of == of)?.ratio;
    Some(Target {
        of,
        at_least,
        met: Bound::AtLeast.is_met(ratio, at_least),
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => Some(values[middle]),
        _ => Some((values.get(middle.checked_sub(1)?)? + values[middle]) / 2.0),
    }
}

/// Returns the rows as text.
pub fn table(rows: &[TreeRow]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "operation",
        "threads",
        "",
        "keys/s",
        "lowest-highest",
        "p50 µs",
        "p99 µs",
        "ratio",
    ]);
    for row in rows {
        table.add_row(cells(row));
    }
    for column in [1, 3, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n")
}

fn cells(row: &TreeRow) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.0}"));
    let range = row
        .keys_per_second_range
        .map_or("-".to_owned(), |(low, high)| format!("{low:.0}-{high:.0}"));
    let ratio = |r: &Ratio| format!("{:.2} of {}", r.ratio, r.of);
    let mut ratios = row.ratios.iter().map(ratio).collect::<Vec<_>>().join(", ");
    if let Some(target) = &row.target {
        let verdict = verdict(Bound::AtLeast, target.at_least, target.met);
        ratios = format!("{ratios}; {} {verdict}", target.of);
    }
    if row.error.is_some() {
        ratios = "FAILED".to_owned();
    }
    vec![
        row.operation.clone(),
        row.threads.to_string(),
        row.store.to_owned(),
        shown(row.keys_per_second),
        range,
        shown(row.p50_us),
        shown(row.p99_us),
        ratios,
    ]
}

/// Returns the settings of each store, the errors, and the stores that did not run.
pub fn below(stores: &[&dyn Store], absent: &[&str], rows: &[TreeRow]) -> String {
    let mut text = "\nRatios of the example tree to the others are medians over the rounds. With any store a user can \
        put several keys into one transaction, as the load does; puts show the rate of threads \
        that do not coordinate.\n\nSettings\n"
        .to_owned();
    for store in stores {
        let (name, version) = (store.name(), store.version());
        text += &format!("- {name} {version}: {}\n", store.settings());
    }
    for name in absent {
        text += &format!("- {name}: not run: built without the feature `{name}`\n");
    }
    for row in rows {
        if let Some(error) = &row.error {
            let (store, operation) = (row.store, &row.operation);
            text += &format!(
                "FAILED: {store}, {operation}, {} threads: {error}\n",
                row.threads
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![1.0, 2.0]), Some(1.5));
    }
}
