//! Command-line flags and output.

use super::report::{GroupReport, text};
use super::{Options, Part, Setup, run};
use crate::place::{self, BenchDir, Common, Line};
use anyhow::{Result, bail};
use clap::Parser;
use logforce::Method;
use logforce_measure::Interrupt;
use logforce_terminal::arguments::{self, chosen, named};
use logforce_terminal::layout;
use logforce_terminal::numbers::bytes;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// Largest record, bytes: the baseline stages 4 MiB.
const LONGEST_RECORD: u64 = 1 << 20;
/// Largest number of threads.
const MOST_THREADS: u32 = 1024;
/// Accepted sizes of the segments that are prepared during the measurement, bytes.
const SEGMENTS: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 20;

/// Measures group commit: many threads that commit, and few that submit. The log, a simple group commit
/// and a raw loop take turns with the same number of threads. Each result is printed with its target.
#[derive(Debug, Parser)]
#[command(name = "group")]
struct Flags {
    #[command(flatten)]
    common: Common,
    /// Parts, separated by commas: commits, submit, preparing [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_part)]
    parts: Vec<Part>,
    /// Numbers of committing threads, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,16,64,256",
        value_parser = arguments::within::<u32>(1, MOST_THREADS))]
    threads: Vec<u32>,
    /// Record sizes, separated by commas
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',', default_value = "128,16KiB",
        value_parser = arguments::size)]
    records: Vec<u64>,
    /// Number of submitting threads
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = arguments::within::<u32>(1, MOST_THREADS))]
    submitters: u32,
    /// Records in flight, of all submitting threads together
    #[arg(long, value_name = "N", default_value_t = 1024,
        value_parser = arguments::within::<u32>(1, 1 << 20))]
    outstanding: u32,
    /// Size of the segments that are prepared while one thread commits
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = arguments::size)]
    segment: u64,
    /// Pairs of slices in each case
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = arguments::within::<u32>(1, u32::MAX))]
    pairs: u32,
    /// Duration of a slice, seconds
    #[arg(long, value_name = "S", default_value = "0.25", value_parser = arguments::seconds)]
    seconds: Duration,
    /// Method for all subjects [default: the library's]
    #[arg(long, value_name = "METHOD", value_parser = arguments::method)]
    method: Option<Method>,
}

fn parse_part(text: &str) -> Result<Part, String> {
    named(text, "part", &Part::ALL, Part::name)
}

impl Flags {
    fn options(&self) -> Result<Options> {
        if let Some(long) = self.records.iter().find(|&&r| r > LONGEST_RECORD) {
            bail!(
                "--records {} is too large: at most {}",
                bytes(*long),
                bytes(LONGEST_RECORD)
            );
        }
        if !SEGMENTS.contains(&self.segment) || !self.segment.is_multiple_of(64 << 10) {
            bail!(
                "--segment {} is not a multiple of 64 KiB from {} to {}",
                bytes(self.segment),
                bytes(*SEGMENTS.start()),
                bytes(*SEGMENTS.end())
            );
        }
        if self.outstanding < self.submitters {
            bail!("--outstanding is less than one for each of --submitters");
        }
        Ok(Options {
            parts: chosen(&self.parts, &Part::ALL),
            threads: self.threads.clone(),
            records: self.records.clone(),
            pairs: self.pairs,
            slice: self.seconds,
            submitters: self.submitters,
            outstanding: self.outstanding,
            segment: self.segment,
            method: self.method,
        })
    }
}

/// Runs the bench.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    place::run("group", |interrupt| compare(&flags, interrupt))
}

/// Runs the comparison; returns true if every case was measured.
fn compare(flags: &Flags, interrupt: Interrupt) -> Result<bool> {
    let options = flags.options()?;
    let (outcome, machine) = {
        let place = BenchDir::new(&flags.common.dir)?;
        let line = Rc::new(Line);
        let setup = Setup {
            system: place::system(),
            path: place.path().to_owned(),
            space: place.space()?,
            counters: Rc::clone(&place.counters),
            interrupt,
            progress: Rc::clone(&line) as Rc<_>,
        };
        let outcome = run(&options, setup);
        line.clear();
        (outcome?, place.machine()?)
    };
    print!("{}", text(&outcome, &machine, layout::WIDTH));
    let report = GroupReport {
        command: place::command_line("group"),
        interrupted: outcome.interrupted,
        machine,
        method: outcome.method.to_string(),
        guarantee: outcome.assessment.guarantee.to_string(),
        verdict: outcome.assessment.verdict.to_string(),
        targets: outcome.targets,
        rows: outcome.rows,
    };
    flags.common.write(&report)?;
    let is_well = |row: &super::report::GroupRow| row.measured.error.is_none();
    Ok(!report.interrupted && report.rows.iter().all(is_well))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_arguments_are_told() {
        let options = |words: &str| {
            let words = ["group"].into_iter().chain(words.split_whitespace());
            let flags = Flags::try_parse_from(words).map_err(|e| e.to_string())?;
            flags.options().map_err(|e| e.to_string())
        };
        assert_eq!(options("--bench").unwrap().threads, [1, 16, 64, 256]);
        for (words, why) in [
            ("--parts speed", "known: commits submit preparing"),
            ("--threads 0", "'0' is not a number from 1 to 1024"),
            ("--threads 4,5000", "'5000' is not a number from 1 to 1024"),
            ("--records 2MiB", "at most 1 MiB"),
            ("--segment 100k", "not a multiple of 64 KiB"),
            ("--outstanding 1", "less than one for each"),
            ("--seconds -1", "unexpected argument"),
        ] {
            let message = options(words).unwrap_err();
            assert!(message.contains(why), "{words}: {message}");
        }
    }
}
