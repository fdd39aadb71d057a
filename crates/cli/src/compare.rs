//! `logforce compare`.

use crate::bench::common::{one_place_each, terminal_width};
use crate::exit::End;
use crate::output::{Sink, Target, complain_always, print};
use logforce_report::compare::{compare, text};
use logforce_report::{Document, compare_html};
use std::path::PathBuf;

const MORE: &str = "\
A and B are what the same `logforce bench` wrote with --json: two disks, kernels, versions, or the same
one on two days. Rows are matched by what they measure. A difference counts where it is beyond the
noise: 8 of 10 slices of one run on one side of 8 of 10 of the other.

In a pipeline: keep the JSON of the accepted state, and let the step fail on a loss:
  logforce bench --quiet --json new.json && logforce compare accepted.json new.json --fail-above 10%

Exit status: 0 compared, 1 a row of B is slower by more than --fail-above or failed, 2 unusable
arguments, 4 failed, as where the two cannot be compared.";

/// What to compare.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The result to compare with, written by `bench --json`
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The result that is compared
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// End with status 1 if a row of B takes longer by more than this when the noise of both is taken
    /// off (the slow edge of 8 of 10 slices of A, the fast one of B), or if it failed
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Write the comparison as JSON to FILE; - is standard output, and all else goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Write it as one HTML file to FILE
    #[arg(long, value_name = "FILE")]
    report: Option<Target>,
}

/// `10%` or `10` as 0.1.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let value: Option<f64> = number.parse().ok();
    value
        .filter(|v| (0.0..=1e6).contains(v))
        .map(|v| v / 100.0)
        .ok_or_else(|| format!("'{text}' is no percentage: give a number from 0 on, as in 10%"))
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
    print(&text(&comparison, terminal_width(on_stdout)), on_stdout)?;
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
    let worse: Vec<String> = comparison
        .worse_by(part)
        .map(|pair| match &pair.error {
            Some(error) => format!("{}: failed: {error}", pair.row),
            None => format!("{}: {}", pair.row, pair.change()),
        })
        .collect();
    if worse.is_empty() {
        return Ok(End::Done);
    }
    // Also with --quiet: it says why the pipeline stops.
    complain_always(&format!(
        "slower than accepted (above {} %):\n  {}",
        part * 100.0,
        worse.join("\n  ")
    ));
    Ok(End::Slower)
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn percentages() {
        for (text, part) in [("10%", 0.1), ("10", 0.1), ("0", 0.0), ("2.5 %", 0.025)] {
            assert_eq!(percent(text), Ok(part), "{text}");
        }
        for text in ["", "%", "x", "-1", "nan", "inf"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
