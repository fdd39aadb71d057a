//! Command-line flags and output.

use super::report::{FileReport, FileRow, text};
use super::{BLOCK, FILE, Options, Subject, Workload, run};
use crate::place::{self, BenchDir, Common, Line};
use anyhow::{Result, bail};
use clap::Parser;
use logforce::Method;
use logforce_measure::{Interrupt, Setup};
use logforce_terminal::arguments::{self, chosen, named};
use logforce_terminal::layout;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// Largest number of threads.
const MOST_THREADS: u32 = 1024;
const _: () = assert!(FILE / MOST_THREADS as u64 >= BLOCK);

/// Measures durable files: many threads that write and commit. The library, one fdatasync per commit, a group
/// commit written by hand and a simple log take turns with the same number of threads. Each result is
/// printed with its target.
#[derive(Debug, Parser)]
#[command(name = "files")]
struct Flags {
    #[command(flatten)]
    common: Common,
    /// Workloads, separated by commas: slots, aligned, append [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_workload)]
    workloads: Vec<Workload>,
    /// Subjects, separated by commas: write-commit, commit, sync-each, by-hand, baseline [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_subject)]
    subjects: Vec<Subject>,
    /// Numbers of committing threads, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,16,64",
        value_parser = arguments::within::<u32>(1, MOST_THREADS))]
    threads: Vec<u32>,
    /// Rounds, each with one slice of every subject with every number of threads
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = arguments::within::<u32>(1, u32::MAX))]
    rounds: u32,
    /// Duration of a slice, seconds
    #[arg(long, value_name = "S", default_value = "0.25", value_parser = arguments::seconds)]
    seconds: Duration,
    /// Method of the durable files [default: the library's]
    #[arg(long, value_name = "METHOD", value_parser = arguments::method)]
    method: Option<Method>,
}

fn parse_workload(text: &str) -> Result<Workload, String> {
    named(text, "workload", &Workload::ALL, Workload::name)
}

fn parse_subject(text: &str) -> Result<Subject, String> {
    named(text, "subject", &Subject::ALL, Subject::name)
}

impl Flags {
    fn options(&self) -> Result<Options> {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        if let Some(twice) = threads.windows(2).find(|two| two[0] == two[1]) {
            bail!("--threads has {} twice: leave one out", twice[0]);
        }
        Ok(Options {
            workloads: chosen(&self.workloads, &Workload::ALL),
            subjects: chosen(&self.subjects, &Subject::ALL),
            threads,
            rounds: self.rounds,
            slice: self.seconds,
            method: self.method,
        })
    }
}

/// Runs the bench.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    place::run("files", |interrupt| compare(&flags, interrupt))
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
    let report = FileReport {
        command: place::command_line("files"),
        interrupted: outcome.interrupted,
        machine,
        method: outcome.method.to_string(),
        guarantee: outcome.assessment.guarantee.to_string(),
        verdict: outcome.assessment.verdict.to_string(),
        targets: outcome.targets,
        rows: outcome.rows,
    };
    flags.common.write(&report)?;
    let is_well = |row: &FileRow| row.measured.error.is_none();
    Ok(!report.interrupted && report.rows.iter().all(is_well))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_arguments_are_refused() {
        let options = |words: &str| {
            let words = ["files"].into_iter().chain(words.split_whitespace());
            let flags = Flags::try_parse_from(words).map_err(|e| e.to_string())?;
            flags.options().map_err(|e| e.to_string())
        };
        assert_eq!(options("--bench").unwrap().threads, [1, 16, 64]);
        for (words, why) in [
            ("--workloads all", "known: slots aligned append"),
            ("--subjects log", "known: write-commit commit"),
            ("--threads 0", "'0' is not a number from 1 to 1024"),
            ("--threads 4,1,4", "has 4 twice"),
            ("--rounds 0", "is not a number from 1"),
        ] {
            let message = options(words).unwrap_err();
            assert!(message.contains(why), "{words}: {message}");
        }
    }
}
