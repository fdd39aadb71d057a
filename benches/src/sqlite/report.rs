//! Results: medians, ratios and the table.

use super::case::Case;
use super::contender::Contender;
use super::rounds::Line;
use super::turn::Run;
use crate::target::ratio;
use comfy_table::{CellAlignment, Table, presets};
use logforce_measure::run::stats::{Spread, spread};
use logforce_terminal::numbers::{number, rounded};
use serde::Serialize;

/// Medians of a contender beside those of stock.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the filesystem on the command line.
    pub filesystem: String,
    /// Name of the case.
    pub case: String,
    /// Contender.
    pub contender: Contender,
    /// Number of rounds in which both succeeded.
    pub rounds: usize,
    /// Operations per second.
    pub rate: Option<f64>,
    /// Rate of stock.
    pub stock_rate: Option<f64>,
    /// Rate divided by that of stock in the same round.
    pub ratio: Option<f64>,
    /// 10th percentile of the ratios.
    pub ratio_p10: Option<f64>,
    /// 90th percentile of the ratios.
    pub ratio_p90: Option<f64>,
    /// Processor time of all threads per operation, microseconds.
    pub cpu_us: Option<f64>,
    /// Processor time of stock.
    pub stock_cpu_us: Option<f64>,
    /// Device flushes per operation.
    pub flushes: Option<f64>,
    /// Flushes of stock.
    pub stock_flushes: Option<f64>,
    /// Bytes that the device wrote per operation.
    pub bytes: Option<f64>,
    /// Bytes of stock.
    pub stock_bytes: Option<f64>,
    /// Ratio to reach; `None` for the control.
    pub target: Option<f64>,
    /// Error of the first round that failed.
    pub error: Option<String>,
}

impl Row {
    /// Returns true if the ratio reaches the target.
    pub fn is_met(&self) -> Option<bool> {
        self.ratio.zip(self.target).map(|(r, t)| r >= t)
    }
}

/// Returns a row for each contender but stock, in the order of the lines.
pub fn rows(groups: &[Vec<Line<'_>>]) -> Vec<Row> {
    let group = |lines: &Vec<Line<'_>>| {
        let (stock, beside) = lines
            .split_first()
            .map_or((None, &[][..]), |(s, b)| (Some(s), b));
        let of = |line| stock.map(|stock| row(line, stock));
        beside.iter().filter_map(of).collect::<Vec<_>>()
    };
    groups.iter().flat_map(group).collect()
}

fn row(line: &Line<'_>, stock: &Line<'_>) -> Row {
    let both = line.rounds.iter().zip(&stock.rounds);
    let pairs: Vec<(&Run, &Run)> = both
        .filter_map(|(ours, theirs)| ours.as_ref().ok().zip(theirs.as_ref().ok()))
        .collect();
    let of = |value: &dyn Fn(&Run) -> Option<f64>| {
        let median = |values: Vec<f64>| spread(&values).map(|s| s.median);
        (
            median(pairs.iter().filter_map(|(ours, _)| value(ours)).collect()),
            median(pairs.iter().filter_map(|(_, stock)| value(stock)).collect()),
        )
    };
    let (rate, stock_rate) = of(&|r| Some(r.rate()));
    let (cpu_us, stock_cpu_us) = of(&|r| Some(r.cpu_us()));
    let (flushes, stock_flushes) = of(&|r| r.per_operation(r.flushes));
    let (bytes, stock_bytes) = of(&|r| r.per_operation(r.bytes));
    let ratios: Vec<f64> = pairs.iter().map(|(o, s)| o.rate() / s.rate()).collect();
    let ratio: Option<Spread> = spread(&ratios);
    let filesystem = &line.filesystem.name;
    let is_control = line.contender == Contender::Control;
    let errors = [line, stock].map(|l| l.rounds.iter().find_map(|r| r.as_ref().err()));
    Row {
        filesystem: filesystem.clone(),
        case: line.case.name.clone(),
        contender: line.contender,
        rounds: pairs.len(),
        rate,
        stock_rate,
        ratio: ratio.map(|s| s.median),
        ratio_p10: ratio.map(|s| s.p10),
        ratio_p90: ratio.map(|s| s.p90),
        cpu_us,
        stock_cpu_us,
        flushes,
        stock_flushes,
        bytes,
        stock_bytes,
        target: (!is_control).then(|| Case::target(line.case, filesystem)),
        error: errors.into_iter().flatten().next().cloned(),
    }
}

/// Returns the table of a filesystem.
pub fn table(filesystem: &str, rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "",
        "",
        "per second (stock)",
        "ratio",
        "CPU µs each (stock)",
        "flushes each (stock)",
        "KiB each (stock)",
        "target",
    ]);
    for row in rows.iter().filter(|r| r.filesystem == filesystem) {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn cells(row: &Row) -> Vec<String> {
    let beside = |ours: Option<f64>, stock: Option<f64>, text: &dyn Fn(f64) -> String| {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), text);
        format!("{} ({})", shown(ours), shown(stock))
    };
    let kib = |v: f64| number(Some(v / 1024.0), 1);
    let target = match (&row.error, row.target, row.is_met()) {
        (Some(_), ..) => "FAILED".to_owned(),
        (None, Some(target), Some(true)) => format!("{target}: met"),
        (None, Some(target), Some(false)) => format!("{target}: **missed**"),
        _ => String::new(),
    };
    vec![
        row.case.clone(),
        row.contender.name().to_owned(),
        beside(row.rate, row.stock_rate, &rounded),
        ratio(row.ratio, row.ratio_p10, row.ratio_p90),
        beside(row.cpu_us, row.stock_cpu_us, &rounded),
        beside(row.flushes, row.stock_flushes, &|v| number(Some(v), 2)),
        beside(row.bytes, row.stock_bytes, &kib),
        target,
    ]
}
