//! `logforce compare`.

use crate::bench::common::one_place_each;
use crate::exit::End;
use crate::output::terminal_width;
use crate::output::{Sink, Target, complain_always, print};
use logforce_report::compare::{Gate, Pair, compare, part_in_percent, text};
use logforce_report::{Document, compare_html};
use logforce_terminal::layout::wrap;
use logforce_terminal::numbers::count;
use std::path::PathBuf;

const MORE: &str = "\
A and B are results of the same `logforce bench` command, written with --json: of two disks, kernels or
versions, or of the same one on two days. Rows that measure the same thing are compared. A difference
counts if 8 of 10 slices of one run lie on one side of 8 of 10 slices of the other, by more than the
machine moved. Rows that force nothing are the control for that, and time for which a thread waited for a
processor does not count. For a row without slices (~) a difference counts from 25 % on. Rows of `bench
inserts` are compared by rate and by seconds of the pairs.

--fail-above fails if a row is SLOWER and its printed percentage is above PERCENT. SLOWER with status 0 is
a loss that is not above PERCENT. If the noise of a row exceeds PERCENT, smaller losses cannot be detected
there: the output says how many rows that concerns, and from what loss on they can fail. --fail-above also
fails if A has a figure and B has none.

In a pipeline: keep the JSON of the accepted state, and let the step fail on a loss:
  logforce bench --quiet --json new.json && logforce compare accepted.json new.json --fail-above 10%

Exit status: 0 compared, 1 with --fail-above: a row of B is slower by more than that, or a row of A has
no figure in B; 2 unusable arguments; 3 with --fail-above: a row of B took longer by more than that, but the
machine moved as much; 4 failed, for example because A and B have no row in common.";

/// The two results to compare.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The result to compare with, written by `bench --json`
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The result to judge, written by `bench --json`
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// Exit with status 1 if a row of B is slower beyond the noise and by more than PERCENT, or if a row
    /// that A measured has no figure in B
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Write the comparison as JSON to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Write the comparison to FILE, as one HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<Target>,
}

/// Parses `10%` or `10` as 0.1.
fn percent(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let value: Option<f64> = number.parse().ok();
    value
        .filter(|v| (0.0..=1e6).contains(v))
        .map(|v| v / 100.0)
        .ok_or_else(|| format!("'{text}' is not a percentage: give 0 or more, such as 10%"))
}

/// Compares and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    let is_stdout = |t: &Option<Target>| *t == Some(Target::Stdout);
    one_place_each(&[("--json", &args.json), ("--report", &args.report)])?;
    let on_stdout = is_stdout(&args.json) || is_stdout(&args.report);
    let (a, b) = (Document::read(&args.a)?, Document::read(&args.b)?);
    let (a_name, b_name) = (args.a.display().to_string(), args.b.display().to_string());
    let comparison = compare((&a_name, &a), (&b_name, &b))?;
    let json = args.json.as_ref().map(Sink::open).transpose()?;
    let report = args.report.as_ref().map(Sink::open).transpose()?;
    let width = terminal_width(on_stdout);
    print(&text(&comparison, width), on_stdout)?;
    let noisy = args.fail_above.and_then(|p| comparison.least_effective(p));
    if let Some(noisy) = noisy {
        print(&wrap(&noisy, width, 2), on_stdout)?;
    }
    if let Some(sink) = json {
        sink.fill(|out| {
            serde_json::to_writer_pretty(&mut *out, &comparison).map_err(std::io::Error::from)?;
            out.write_all(b"\n")
        })?;
    }
    if let Some(sink) = report {
        sink.fill(|out| out.write_all(compare_html(&comparison).as_bytes()))?;
    }
    let Some(part) = args.fail_above else {
        return Ok(End::Done);
    };
    let gate = comparison.gate(part);
    if gate.is_open() {
        if gate.machine.is_empty() {
            return Ok(End::Done);
        }
        complain_always(&machine_moved(&gate, part));
        return Ok(End::Inconclusive);
    }
    // Printed even with --quiet, because it says why the pipeline stops.
    complain_always(&reasons(&gate, part));
    Ok(End::Slower)
}

/// Returns the reason for which nothing can be concluded, as text.
fn machine_moved(gate: &Gate<'_>, part: f64) -> String {
    let rows: Vec<String> = gate.machine.iter().map(changed).collect();
    format!(
        "nothing can be concluded: the machine moved as much as these rows lost (above {}): measure A and B again, \
         on a quiet machine:\n  {}",
        part_in_percent(part),
        rows.join("\n  ")
    )
}

/// Names a row, with its change.
fn changed(pair: &&Pair) -> String {
    format!("{}: {}", pair.row, pair.change())
}

/// Returns the reasons for which a pipeline stops, as text.
fn reasons(gate: &Gate<'_>, part: f64) -> String {
    let mut reasons = Vec::new();
    if !gate.slower.is_empty() {
        let rows: Vec<String> = gate.slower.iter().map(changed).collect();
        let above = part_in_percent(part);
        reasons.push(format!(
            "slower than accepted (above {above}):\n  {}",
            rows.join("\n  ")
        ));
    }
    if !gate.failed.is_empty() {
        let rows = gate.failed.iter().map(|pair| match &pair.error {
            Some(error) => format!("{}: {error}", pair.row),
            None => pair.row.clone(),
        });
        let (n, rows) = (gate.failed.len(), rows.collect::<Vec<_>>());
        reasons.push(format!(
            "not comparable: {} that A measured {} no figure in B:\n  {}",
            count(n as u64, "row"),
            if n == 1 { "has" } else { "have" },
            rows.join("\n  ")
        ));
    }
    if !gate.not_comparable.is_empty() {
        let (n, rows) = (gate.not_comparable.len(), gate.not_comparable.join("\n  "));
        reasons.push(format!(
            "not comparable: {} of A {} not in B: measure B completely, with the flags of A, or accept a new A:\n  {rows}",
            count(n as u64, "row"),
            if n == 1 { "is" } else { "are" },
        ));
    }
    reasons.join("\n")
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn percentages() {
        for (text, part) in [("10%", 0.1), ("10", 0.1), ("0", 0.0), ("2.5 %", 0.025)] {
            assert_eq!(percent(text), Ok(part), "{text}");
        }
        for text in ["", "%", "x", "-1", "nan", "inf", "10%%", "10 % %"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
