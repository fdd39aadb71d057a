//! Command-line flags and output.

use super::child::{self, Child};
use super::report::{PairsReport, text};
use super::{Options, Part, Setup, run};
use crate::place::{self, BenchDir, Common, Line};
use anyhow::{Result, bail};
use clap::Parser;
use logforce::Method;
use logforce_measure::Interrupt;
use logforce_terminal::arguments::{self, chosen, named};
use std::process::ExitCode;
use std::rc::Rc;

/// Largest `--bulk`, bytes: one segment must hold it, and a segment has at most 4 GiB.
const LARGEST_BULK: u64 = 3 << 30;

/// Compares the log, used by one thread, with a raw loop that writes the same bytes, in pairs of slices.
/// Also measures recovery and memory. Each result is printed with its target.
#[derive(Debug, Parser)]
#[command(name = "pairs")]
struct Flags {
    #[command(flatten)]
    common: Common,
    /// Parts, separated by commas: commits, bulk, recovery, memory [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_part)]
    only: Vec<Part>,
    /// The log's method [default: the library's]
    #[arg(long, value_name = "METHOD", value_parser = arguments::method)]
    method: Option<Method>,
    /// Pairs of slices of commits
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = arguments::within::<u32>(1, u32::MAX))]
    pairs: u32,
    /// Commits in a slice
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = arguments::within::<u64>(1, u64::MAX))]
    slice: u64,
    /// Size of a bulk run, at most 3GiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = arguments::size)]
    bulk: u64,
    /// Pairs of bulk runs
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = arguments::within::<u32>(1, u32::MAX))]
    bulk_pairs: u32,
    /// Size of the log that is recovered
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = arguments::size)]
    log: u64,
    /// Size written in records of 1MiB when memory is measured
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = arguments::size)]
    memory: u64,
}

fn parse_part(text: &str) -> Result<Part, String> {
    named(text, "part", &Part::ALL, Part::name)
}

impl Flags {
    fn options(&self) -> Result<Options> {
        if self.bulk > LARGEST_BULK {
            bail!("--bulk is too large: at most 3GiB");
        }
        Ok(Options {
            parts: chosen(&self.only, &Part::ALL),
            pairs: self.pairs,
            slice: self.slice,
            bulk: self.bulk.next_multiple_of(1 << 20),
            bulk_pairs: self.bulk_pairs,
            log: self.log,
            memory: self.memory,
            method: self.method,
        })
    }
}

/// Runs the bench, or in a child process its task.
pub fn main() -> ExitCode {
    if let Some(task) = child::task() {
        return child::main(&task);
    }
    let flags = Flags::parse();
    place::run("pairs", |interrupt| compare(&flags, interrupt))
}

/// Runs the comparison; returns true if every part was measured.
fn compare(flags: &Flags, interrupt: Interrupt) -> Result<bool> {
    let options = flags.options()?;
    let (outcome, machine) = {
        let place = BenchDir::new(&flags.common.dir)?;
        let line = Rc::new(Line);
        let setup = Setup {
            directory: place.directory(),
            space: place.space()?,
            child: Child::of_this_program()?,
            interrupt,
            progress: Rc::clone(&line) as Rc<_>,
        };
        let outcome = run(&options, &setup);
        line.clear();
        (outcome?, place.machine()?)
    };
    print!("{}", text(&outcome, &machine));
    let report = PairsReport {
        command: place::command_line("pairs"),
        interrupted: outcome.interrupted,
        machine,
        method: outcome.method.to_string(),
        guarantee: outcome.assessment.guarantee.to_string(),
        verdict: outcome.assessment.verdict.to_string(),
        rows: outcome.lines,
    };
    flags.common.write(&report)?;
    Ok(!report.interrupted && report.rows.iter().all(|r| r.error.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_arguments_are_told() {
        let options = |words: &str| {
            let words = ["pairs"].into_iter().chain(words.split_whitespace());
            let flags = Flags::try_parse_from(words).map_err(|e| e.to_string())?;
            flags.options().map_err(|e| e.to_string())
        };
        assert_eq!(options("--bench").unwrap().bulk, 1 << 30);
        for (words, why) in [
            ("--only speed", "known: commits bulk recovery memory"),
            ("--pairs 0", "'0' is not a number from 1 to"),
            ("--bulk 4GiB", "at most 3GiB"),
        ] {
            let message = options(words).unwrap_err();
            assert!(message.contains(why), "{words}: {message}");
        }
    }
}
