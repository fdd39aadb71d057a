//! Latencies of commits: the distribution of each row, and its percentiles in a table.

use crate::chart::{Chart, Curve, Curves, MOST, percent};
use crate::figure::{Figure, Table};
use crate::time;
use logforce_measure::Row;
use logforce_measure::result::Distribution;

/// Percentages in the table, if any row has them.
const SHOWN: [f64; 8] = [0.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0];

/// Returns the percentiles that a row has in addition to its distribution.
fn percentiles(row: &Row) -> [(f64, Option<f64>); 5] {
    [
        (50.0, row.p50_us),
        (90.0, row.p90_us),
        (99.0, row.p99_us),
        (99.9, row.p999_us),
        (100.0, row.max_us),
    ]
}

/// Returns the points of the curve: a percentage of the commits, and their longest time in microseconds.
fn points(row: &Row) -> Vec<(f64, f64)> {
    let points = row.latencies_us.as_ref().map(Distribution::points);
    if let Some(points) = points.filter(|points| points.len() > 1) {
        return points.to_vec();
    }
    // Older programs wrote only percentiles.
    let known = percentiles(row).into_iter();
    let known = known.filter_map(|(p, us)| Some((p, us?)));
    known.filter(|(_, us)| *us > 0.0).collect()
}

/// Returns the chart of the latencies of the rows; `None` if no latencies are known.
pub fn latencies(id: &str, title: &str, rows: &[(String, &Row)]) -> Option<Figure> {
    let curves = rows.iter().take(MOST).map(|(name, row)| Curve {
        label: name.clone(),
        points: points(row),
    });
    let curves: Vec<Curve> = curves.filter(|c| c.points.len() > 1).collect();
    if curves.is_empty() {
        return None;
    }
    let at = |curve: &Curve, wanted: f64| {
        let found = curve.points.iter().find(|(p, _)| *p == wanted);
        found.map(|(_, us)| time(*us))
    };
    let shown: Vec<f64> = SHOWN
        .into_iter()
        .filter(|p| curves.iter().any(|c| at(c, *p).is_some()))
        .collect();
    let mut table = Table::new(["latency"]);
    table.heads.extend(shown.iter().map(|p| percent(*p)));
    for curve in &curves {
        let cells = shown
            .iter()
            .map(|p| at(curve, *p).unwrap_or_else(|| "-".to_owned()));
        table.push([curve.label.clone()].into_iter().chain(cells));
    }
    Some(Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: "To read a percentile, go up from it to the curve, and from there to the left: 99 of 100 commits took no longer than \
                  the time at 99 %. Both scales are logarithmic: each further nine to the right concerns ten times fewer commits."
            .to_owned(),
        chart: Chart::Curves(Curves { curves }),
        table,
    })
}
