//! Comparison of `inserts` with published figures: the seconds, and the ratios within each column, as the
//! command prints them.

use super::parts::words;
use crate::amount::significant;
use crate::chart::{Chart, Dot, Dots};
use crate::figure::{Figure, Table};
use crate::sign::Sign;
use logforce_measure::inserts::{P5, PAIRS, Policy};
use logforce_measure::{Document, Row};

/// Source of the published figures.
const SOURCE: &str =
    "Published: MySQL bug #31876, InnoDB at tills, Windows XP and Linux, write caches off";

/// A policy, and true if each transaction goes into a second log.
type Case = (Policy, bool);

/// A ratio of two cases, with its name.
type Ratio = (&'static str, Case, Case);

const RATIOS: [Ratio; 7] = {
    use Policy::{Force, Later, Write};
    [
        ("policy 1 : 2, one log", (Force, false), (Write, false)),
        ("policy 1 : 0, one log", (Force, false), (Later, false)),
        ("policy 1 : 2, two logs", (Force, true), (Write, true)),
        ("policy 1 : 0, two logs", (Force, true), (Later, true)),
        ("two logs : one, policy 1", (Force, true), (Force, false)),
        ("two logs : one, policy 2", (Write, true), (Write, false)),
        ("two logs : one, policy 0", (Later, true), (Later, false)),
    ]
};

const HERE: Sign = Sign {
    class: "g0",
    shape: 0,
    words: "here",
};
const THERE: Sign = Sign {
    class: "s5",
    shape: 1,
    words: "published",
};

/// A column: the seconds of the cases, with a name.
struct Column<'a> {
    name: String,
    sign: Sign,
    seconds: Box<dyn Fn(Case) -> Option<f64> + 'a>,
}

/// Returns the published columns, then one for each system.
fn columns(document: &Document) -> Vec<Column<'_>> {
    let there = |(policy, second): Case| {
        P5.iter()
            .find(move |p| p.policy == policy && p.second_log == second)
    };
    let published = |name: &str, seconds| Column {
        name: name.to_owned(),
        sign: THERE,
        seconds,
    };
    let mut columns = vec![
        published(
            "published, Windows",
            Box::new(move |case| Some(there(case)?.windows_s)),
        ),
        published(
            "published, Linux",
            Box::new(move |case| Some(there(case)?.linux_s)),
        ),
    ];
    let rows: Vec<&Row> = document.measured().collect();
    for system in words(&rows, |r| &r.system) {
        let rows = rows.clone();
        columns.push(Column {
            name: system.to_owned(),
            sign: HERE,
            seconds: Box::new(move |case| usual(&rows, system, case)?.pairs_s),
        });
    }
    columns
}

/// Returns the row that represents a policy of a system. Among several, it is the one whose settings go
/// together, as in the text of the command.
fn usual<'a>(rows: &[&'a Row], system: &str, (policy, second): Case) -> Option<&'a Row> {
    let of_system = || rows.iter().copied().filter(|r| r.system == system);
    let is_it = |r: &&Row| {
        r.clients == 1
            && r.policy == Some(policy.number().into())
            && r.second_log.unwrap_or(false) == second
    };
    let found: Vec<&Row> = of_system().filter(is_it).collect();
    let has = |r: &Row, part: &str| r.settings.split(", ").any(|p| p == part);
    // The server's own sync method is the one of the row whose commits do not wait.
    let lazy = of_system().find(|r| has(r, "synchronous_commit=off"));
    let method = lazy.and_then(|r| r.settings.split(", ").nth(1));
    let goes_together = |r: &&&Row| {
        let is_forced = has(r, "sync_binlog=1");
        match r.system.as_str() {
            "SQLite" => has(r, "WAL"),
            _ if r.settings.starts_with("synchronous_commit=") => {
                method.is_none_or(|method| has(r, method))
            }
            // Both logs are forced, or neither is, and the sync method is the usual one.
            "MariaDB" => {
                !has(r, "write_through") && (!second || is_forced == (policy == Policy::Force))
            }
            _ => true,
        }
    };
    found.iter().find(goes_together).copied()
}

fn case_in_words((policy, second): Case) -> String {
    let log = if second { "two logs" } else { "one log" };
    format!("policy {}, {log}", policy.number())
}

/// Returns the figures of the seconds and of the ratios; none if no system was measured here.
pub fn published(document: &Document) -> Vec<Figure> {
    let columns = columns(document);
    let cases: Vec<(String, Case)> = P5
        .iter()
        .map(|p| (p.policy, p.second_log))
        .map(|case| (case_in_words(case), case))
        .collect();
    let seconds = figure(
        &columns,
        "published",
        "Seconds of the pairs",
        format!(
            "{SOURCE}, {PAIRS} pairs; here the number that --pairs sets. The machines differ, so compare only ratios, not seconds. If \
             a system has several settings, its usual one is shown."
        ),
        ("policy", "seconds (log scale)", None),
        &cases
            .iter()
            .map(|(name, case)| (name.as_str(), *case))
            .collect::<Vec<_>>(),
        |column, case| (column.seconds)(*case),
    );
    let ratios = figure(
        &columns,
        "published-ratios",
        "Ratios within each system",
        "Cost of forcing each commit, and of a second log, as a multiple of the time without it. Right of the line it takes longer."
            .to_owned(),
        ("ratio", "times (log scale)", Some(1.0)),
        &RATIOS.map(|ratio| (ratio.0, ratio)),
        |column, (_, of, by)| {
            let by = (column.seconds)(*by).filter(|s| *s > 0.0)?;
            Some((column.seconds)(*of)? / by)
        },
    );
    seconds.into_iter().chain(ratios).collect()
}

/// Returns a figure with its table; `None` if no system here has a value.
fn figure<T>(
    columns: &[Column<'_>],
    id: &str,
    title: &str,
    caption: String,
    (head, unit, base): (&str, &str, Option<f64>),
    rows: &[(&str, T)],
    value: impl Fn(&Column<'_>, &T) -> Option<f64>,
) -> Option<Figure> {
    let mut table = Table::new([head]);
    table.heads.extend(columns.iter().map(|c| c.name.clone()));
    let mut dots = Vec::new();
    for (name, row) in rows {
        let mut cells = vec![(*name).to_owned()];
        for column in columns {
            let value = value(column, row);
            let text = value.map_or_else(|| "-".to_owned(), |v| significant(v, 3));
            cells.push(text.clone());
            dots.extend(value.map(|value| Dot {
                label: format!("{name}: {}", column.name),
                sign: column.sign,
                value,
                high: None,
                text,
            }));
        }
        table.push(cells);
    }
    dots.iter().any(|dot| dot.sign == HERE).then(|| Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption,
        chart: Chart::Dots(Dots {
            rows: dots,
            unit: unit.to_owned(),
            base,
        }),
        table,
    })
}
