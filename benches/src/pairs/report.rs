//! Reports of a comparison: text and JSON.

use super::PairsOutcome;
pub use crate::target::Bound;
use crate::target::{between, number, verdict};
use logforce_measure::MeasureError;
use logforce_measure::machine::Machine;
use logforce_measure::run::stats::{Spread, median, spread};
use logforce_terminal::numbers::{count, short};
use serde::Serialize;

/// One run.
#[derive(Debug, Serialize)]
pub struct PairsReport {
    /// The command line.
    pub command: String,
    /// True if the user interrupted the run.
    pub interrupted: bool,
    /// Machine, filesystem and disk.
    pub machine: Machine,
    /// Method used for forces.
    pub method: String,
    /// Guarantee of a force.
    pub guarantee: String,
    /// Verdict on the guarantee.
    pub verdict: String,
    /// The comparisons.
    pub rows: Vec<Line>,
}

/// One comparison.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Line {
    /// Name, such as `commit-16KiB`.
    pub name: String,
    /// Compared values, in words.
    pub what: String,
    /// Result: a ratio of the log to the raw loop, or a value in `unit`.
    pub value: Option<f64>,
    /// Unit of `value`: `ratio`, `GB/s`, `MiB`, `share`.
    pub unit: &'static str,
    /// Target value.
    pub target: Option<f64>,
    /// Direction of the target.
    pub bound: Option<Bound>,
    /// True if the target was met.
    pub met: Option<bool>,
    /// Number of pairs or runs.
    pub pairs: u64,
    /// Median of the log, in `measured_in`.
    pub log: Option<f64>,
    /// Median of the raw loop, in `measured_in`.
    pub raw: Option<f64>,
    /// Unit of `log` and `raw`.
    pub measured_in: &'static str,
    /// 10th percentile of the values.
    pub value_p10: Option<f64>,
    /// 90th percentile of the values.
    pub value_p90: Option<f64>,
    /// The raw loop against itself, one slice to the next: median.
    pub noise_median: Option<f64>,
    /// 10th percentile.
    pub noise_p10: Option<f64>,
    /// 90th percentile.
    pub noise_p90: Option<f64>,
    /// Reason for a missing value.
    pub error: Option<String>,
}

/// One pair: the raw loop, the log, the raw loop again.
#[derive(Debug, Clone, Copy)]
pub struct Triple {
    /// The raw loop before.
    pub before: f64,
    /// The log.
    pub log: f64,
    /// The raw loop after.
    pub after: f64,
}

impl Triple {
    fn raw(&self) -> f64 {
        (self.before + self.after) / 2.0
    }
}

impl Line {
    fn new(name: &str, what: String, unit: &'static str) -> Line {
        Line {
            name: name.to_owned(),
            what,
            unit,
            measured_in: unit,
            ..Line::default()
        }
    }

    /// A part that failed.
    pub fn failed(name: &str, error: &MeasureError) -> Line {
        Line {
            error: Some(error.to_string()),
            ..Line::new(name, name.to_owned(), "")
        }
    }

    /// Returns a line from pairs whose numbers are in `measured_in`.
    pub fn of_pairs(
        name: &str,
        what: String,
        measured_in: &'static str,
        triples: &[Triple],
    ) -> Line {
        let of = |f: fn(&Triple) -> f64| triples.iter().map(f).collect::<Vec<_>>();
        let value = spread(&of(|t| t.log / t.raw()));
        let noise = spread(&of(|t| t.after / t.before));
        let part = |s: Option<Spread>, f: fn(Spread) -> f64| s.map(f);
        Line {
            value: part(value, |s| s.median),
            value_p10: part(value, |s| s.p10),
            value_p90: part(value, |s| s.p90),
            noise_median: part(noise, |s| s.median),
            noise_p10: part(noise, |s| s.p10),
            noise_p90: part(noise, |s| s.p90),
            pairs: triples.len() as u64,
            log: Some(median(&of(|t| t.log))),
            raw: Some(median(&of(Triple::raw))),
            measured_in,
            ..Line::new(name, what, "ratio")
        }
    }

    /// Returns a line from runs of the log alone; `values` are in `unit`.
    pub fn of_runs(name: &str, what: String, unit: &'static str, values: &[f64]) -> Line {
        let value = spread(values);
        Line {
            value: value.map(|s| s.median),
            value_p10: value.map(|s| s.p10),
            value_p90: value.map(|s| s.p90),
            pairs: values.len() as u64,
            ..Line::new(name, what, unit)
        }
    }

    /// Adds the target.
    pub fn aim(self, bound: Bound, target: f64) -> Line {
        let met = self.value.map(|v| bound.is_met(v, target));
        Line {
            target: Some(target),
            bound: Some(bound),
            met,
            ..self
        }
    }

    /// Adds the log's own measurement, where that is not the value itself.
    pub fn took(self, log: f64, measured_in: &'static str) -> Line {
        Line {
            log: Some(log),
            measured_in,
            ..self
        }
    }
}

/// Returns the report for a terminal.
pub fn text(outcome: &PairsOutcome, machine: &Machine) -> String {
    let mut text = format!(
        "The log beside a raw loop, by {} ({}, {}); {machine}\n\n",
        outcome.method,
        outcome.assessment.granted(),
        outcome.assessment.verdict
    );
    if outcome.interrupted {
        text.push_str("Interrupted: only the measurements until then are shown.\n\n");
    }
    for line in &outcome.lines {
        text.push_str(&sentence(line));
    }
    if outcome.lines.iter().any(|l| l.noise_median.is_some()) {
        text.push_str(
            "\nEach pair is a slice of the raw loop, one of the log, one of the raw loop again: the same bytes, padding\n\
             included, by the same method to a zero-filled file. Ratio: median over the pairs. Noise: the raw loop\n\
             compared with itself, one slice with the next. In brackets: 10th to 90th percentile of the pairs.\n",
        );
    }
    text
}

fn sentence(line: &Line) -> String {
    if let Some(error) = &line.error {
        return format!("{}: n/a: {error}\n", line.what);
    }
    let verdict = match (line.bound, line.target, line.met) {
        (Some(bound), Some(target), Some(met)) => verdict(bound, target, met),
        _ => String::new(),
    };
    let unit = if line.unit == "ratio" { "" } else { line.unit };
    let mut text = format!(
        "{}\n    {} {unit}",
        line.what,
        match line.unit {
            "ratio" => format!("ratio {}", number(line.value)),
            _ => number(line.value),
        }
    );
    text = text.trim_end().to_owned();
    if line.pairs > 1 {
        text.push_str(&between(line.value_p10, line.value_p90));
    }
    if !verdict.is_empty() {
        text.push_str(&format!("   {verdict}"));
    }
    text.push('\n');
    if let (Some(log), Some(raw)) = (line.log, line.raw) {
        text.push_str(&format!(
            "    log {} {m}, raw {} {m}; noise {}{}; {}\n",
            short(log, 3),
            short(raw, 3),
            number(line.noise_median),
            between(line.noise_p10, line.noise_p90),
            count(line.pairs, "pair"),
            m = line.measured_in,
        ));
    } else if let Some(log) = line.log {
        text.push_str(&format!("    in {} {}\n", short(log, 3), line.measured_in));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_to_the_raw_loop_around_it() {
        let triple = |before, log, after| Triple { before, log, after };
        let triples = [triple(100.0, 104.0, 100.0), triple(200.0, 206.0, 200.0)];
        let line = Line::of_pairs("x", "x".to_owned(), "µs", &triples).aim(Bound::AtMost, 1.05);
        assert!((line.value.unwrap() - 1.035).abs() < 1e-9);
        assert_eq!((line.noise_median, line.met), (Some(1.0), Some(true)));
        assert!(
            sentence(&line).contains("≤ 1.05: PASS"),
            "{}",
            sentence(&line)
        );
        let line = line.aim(Bound::AtLeast, 1.05);
        assert!(
            sentence(&line).contains("≥ 1.05: MISS"),
            "{}",
            sentence(&line)
        );
    }
}
