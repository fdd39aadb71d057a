//! Notes for the reader of a report.

use super::table::label;
use crate::result::Row;
use crate::run::counters::Neighbours;
use logforce_terminal::numbers::short;
use std::fmt::Write;

/// Returns the reasons for the guarantees: one sentence for each different reason.
pub fn guarantees(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for row in rows {
        let (Some(verdict), Some(evidence)) = (row.verdict, &row.evidence) else {
            continue;
        };
        let reason = format!("{} ({verdict}): {evidence}.", row.survives());
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// Returns the reasons why rows have no numbers: one sentence for each different reason.
pub fn missing(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(error) = &row.error else { continue };
        match reasons.iter_mut().find(|(r, _)| r == error) {
            Some((_, whose)) => whose.push(who(row)),
            None => reasons.push((error, vec![who(row)])),
        }
    }
    reasons
        .into_iter()
        .map(|(reason, whose)| format!("n/a: {}: {reason}.", whose.join(", ")))
        .collect()
}

fn who(row: &Row) -> String {
    match row.file_state.is_empty() {
        false => format!("{} on {}", row.method, row.file_state),
        true => format!("{}, {}", label(row), row.method),
    }
}

/// Describes the work of other processes that the device's counters include; `None` without counters.
pub fn counters(neighbours: Option<Neighbours>, flushes_counted: bool) -> Option<String> {
    let Neighbours { watched, did } = neighbours?;
    let mut text =
        "* from the device's own counters, which include the work of other processes. ".to_owned();
    let seconds = watched.as_secs_f64();
    let per_second = |n: u64| short(n as f64 / seconds, 1);
    if did.writes == 0 && did.flushes.unwrap_or(0) == 0 {
        let _ = write!(
            text,
            "Others wrote nothing in the {:.0} ms observed before the run.",
            seconds * 1e3
        );
    } else {
        let _ = write!(text, "Others wrote {} times", per_second(did.writes));
        if let Some(flushes) = did.flushes {
            let _ = write!(text, " and flushed {} times", per_second(flushes));
        }
        let _ = write!(
            text,
            " a second in the {:.0} ms observed before the run.",
            seconds * 1e3
        );
    }
    text.push_str(if flushes_counted {
        " Linux counts each flush also as a write of 0 bytes."
    } else {
        " This device does not count its flushes."
    });
    Some(text)
}

/// Explains the marks that occur in the guarantee column; `None` without marks.
pub fn marks(rows: &[Row]) -> Option<String> {
    use logforce_device::Verdict::{Contradicted, Implausible, Proven, Unknown};
    let has = |v| rows.iter().any(|r| r.verdict == Some(v));
    let mut marks = Vec::new();
    if has(Proven) {
        marks.push("+ proven by power cuts");
    }
    if has(Unknown) {
        marks.push("? unknown whether it holds");
    }
    if has(Implausible) || has(Contradicted) {
        marks.push("! implausible or contradicted: do not rely on it");
    }
    (!marks.is_empty()).then(|| format!("Marks: {}.", marks.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::counters::Delta;
    use crate::testing::row;
    use logforce_device::{FileState, Method};
    use std::time::Duration;

    #[test]
    fn reasons_are_told_once() {
        let mut rows: Vec<Row> = FileState::ALL
            .into_iter()
            .map(|s| row(Method::Fsync, s, 1.0))
            .collect();
        assert_eq!(
            guarantees(&rows),
            ["power-loss (declared): the device says so."]
        );
        rows[0].error = Some("broken".to_owned());
        rows[1].error = Some("broken".to_owned());
        assert_eq!(
            missing(&rows),
            ["n/a: fsync on fallocated, fsync on zeroed: broken."]
        );
    }

    #[test]
    fn neighbours_are_told() {
        let did = Delta {
            writes: 5,
            bytes: 0,
            flushes: Some(1),
        };
        let text = counters(
            Some(Neighbours {
                watched: Duration::from_millis(500),
                did,
            }),
            true,
        )
        .unwrap();
        assert!(
            text.contains("wrote 10") && text.contains("flushed 2.0"),
            "{text}"
        );
        assert_eq!(counters(None, false), None);
    }
}
