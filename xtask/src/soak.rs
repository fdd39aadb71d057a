//! `cargo xtask soak`: random runs with fresh seeds, until it is stopped.

use crate::sim;
use crate::test::Tier;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs random tests of the log, of the page file and of durable files on a simulated disk, with fresh seeds,
/// until it is stopped. Appends its progress to target/soak/soak.txt, and failing seeds to
/// crates/sim/seeds.txt, page-seeds.txt or file-seeds.txt, so that every later test runs them again. Prints the command that repeats each.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Minutes after which it ends.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: Option<u32>,
    /// First seed [default: the one after the last soak of this commit].
    #[arg(long, value_name = "SEED")]
    from: Option<u64>,
}

/// Number of runs in a round; takes less than a minute on two cores.
const ROUND: u64 = 1000;

/// Offset of the first seed, above the seeds of a deep run of the same commit.
const ABOVE_DEEP: u64 = 100_000;

/// Runs the command. Returns true if no run failed.
pub fn command(options: &Options) -> Result<bool> {
    let workspace = Workspace::find()?;
    let program = build(&workspace)?;
    let home = workspace.target.join("soak");
    std::fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let diary = home.join("soak.txt");
    let first = match options.from {
        Some(from) => from,
        None => {
            let own = Tier::deep(&workspace, None)?.from() + ABOVE_DEEP;
            followed(&diary, own).unwrap_or(own)
        }
    };
    let began = Instant::now();
    let limit = options
        .minutes
        .map(|m| Duration::from_secs(60 * u64::from(m)));
    let (mut from, mut failed) = (first, 0);
    println!("seeds from {from}; progress goes to {}", diary.display());
    while limit.is_none_or(|limit| began.elapsed() < limit) {
        let mut failed_here = 0;
        for subject in &sim::SUBJECTS {
            let round = round(&program, &workspace.root, subject, from)?;
            for (seed, why) in &round {
                let words: String = subject.words.iter().map(|w| format!("{w} ")).collect();
                println!("FAILED seed {seed}: {why}\nagain: cargo xtask sim {words}--seed {seed}");
                list(&workspace.root.join(subject.listed), *seed, why)?;
            }
            failed_here += round.len();
        }
        failed += failed_here;
        let line = format!("{from} {ROUND} runs, {failed_here} failed");
        append(&diary, &line)?;
        println!("{line}, {} min", began.elapsed().as_secs() / 60);
        from += ROUND;
    }
    println!("{} runs from {first} on, {failed} failed", from - first);
    Ok(failed == 0)
}

fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = Command::new(cargo());
    build
        .current_dir(&workspace.root)
        .args(["build", "--locked", "-p", "logforce-sim"]);
    if !build.status().context("cargo")?.success() {
        bail!("the program of the random runs does not compile");
    }
    let name = format!("logforce-sim{}", std::env::consts::EXE_SUFFIX);
    Ok(workspace.target.join("debug").join(name))
}

/// Runs one round. Returns the failed seeds with their errors.
fn round(
    program: &Path,
    root: &Path,
    subject: &sim::Subject,
    from: u64,
) -> Result<Vec<(u64, String)>> {
    let out = Command::new(program)
        .current_dir(root)
        .args(subject.words)
        .args(["--go-on", "--seeds", &ROUND.to_string()])
        .args(["--from", &from.to_string()])
        .output()
        .with_context(|| program.display().to_string())?;
    let text = String::from_utf8_lossy(&out.stdout);
    let failed = failures(&text);
    if !out.status.success() && failed.is_empty() {
        bail!("{}: {}\n{text}", program.display(), out.status);
    }
    Ok(failed)
}

fn failures(text: &str) -> Vec<(u64, String)> {
    let lines = text.lines().filter_map(|l| l.strip_prefix("FAILED seed "));
    let read = |line: &str| {
        let (seed, why) = line.split_once(": ")?;
        Some((seed.parse().ok()?, why.to_owned()))
    };
    let mut all: Vec<(u64, String)> = lines.filter_map(read).collect();
    all.sort();
    all.dedup_by_key(|(seed, _)| *seed);
    all
}

/// Returns the seed after the last round of this commit in the diary.
fn followed(diary: &Path, own: u64) -> Option<u64> {
    let text = std::fs::read_to_string(diary).ok()?;
    let starts = text
        .lines()
        .filter_map(|l| l.split(' ').next()?.parse().ok());
    // Seeds of other commits are far away.
    let near = |seed: &u64| (own..own + 100_000_000).contains(seed);
    starts.filter(near).max().map(|last: u64| last + ROUND)
}

fn list(file: &Path, seed: u64, why: &str) -> Result<()> {
    append(file, &format!("{seed:<12} {why}"))
}

fn append(file: &Path, line: &str) -> Result<()> {
    let open = OpenOptions::new().create(true).append(true).open(file);
    let mut open = open.with_context(|| file.display().to_string())?;
    writeln!(open, "{line}").with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_once_each() {
        let text = "FAILED seed 12: gone\nagain: cargo xtask sim --seed 12\nruns 9\n\
                    FAILED seed 7: a: b\nFAILED seed 12: gone\n";
        let read = failures(text);
        assert_eq!(read, [(7, "a: b".to_owned()), (12, "gone".to_owned())]);
    }

    #[test]
    fn a_soak_goes_on_where_the_last_one_of_the_commit_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let diary = dir.path().join("soak.txt");
        assert_eq!(followed(&diary, 5000), None);
        append(&diary, "5000 1000 runs, 0 failed").unwrap();
        append(&diary, "6000 1000 runs, 1 failed").unwrap();
        append(&diary, "900000000000 1000 runs, 0 failed").unwrap();
        assert_eq!(followed(&diary, 5000), Some(7000));
        assert_eq!(followed(&diary, 8000), None);
    }
}
