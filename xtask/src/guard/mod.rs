//! `cargo xtask bench-guard`: compares the commit path of two commits, measured in pairs.

mod build;
mod ratio;

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use ratio::Ratio;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Numbers of committing threads.
const THREADS: [u32; 3] = [1, 16, 64];
/// Record sizes, bytes.
const RECORDS: [u32; 2] = [128, 16 << 10];
/// Ratio below which a row fails, if noise does not explain it.
const LOWEST: f64 = 0.9;

/// Checks that commits did not become slower. Builds BASE and COMMIT, runs `logforce bench group` of
/// both in turn, and prints the ratio of the commit rates of COMMIT and BASE, for each number of threads
/// and record size. Fails if the median of a row is below 0.9 and its 95 % interval lies below 1.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Commit to compare with, such as `main` or `HEAD~3`.
    base: String,
    /// Commit to judge. Uncommitted changes are not measured.
    #[arg(default_value = "HEAD")]
    commit: String,
    /// Number of pairs of slices per row.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(6..=1000))]
    pairs: u32,
    /// Duration of a slice, seconds.
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    slice: f64,
    /// Directory on the disk to measure [default: below the target folder].
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Runs the command. Returns true if no row is slower.
pub fn command(options: &Options) -> Result<bool> {
    let workspace = Workspace::find()?;
    let home = workspace.target.join("bench-guard");
    std::fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
    let base = build::build(&workspace, &home, &options.base)?;
    let new = build::build(&workspace, &home, &options.commit)?;
    if base.id == new.id {
        bail!(
            "{} and {} are the same commit",
            options.base,
            options.commit
        );
    }
    let dir = options.dir.as_deref().unwrap_or(&home);
    println!(
        "{} ({}) against {} ({}): {} pairs of {} s",
        options.commit, new.id, options.base, base.id, options.pairs, options.slice
    );
    println!("threads  bytes  commits/s  ratio  95 % interval");
    let mut is_slower = false;
    for record in RECORDS {
        for threads in THREADS {
            let mut rates = Vec::new();
            for pair in 0..options.pairs {
                let one = |program: &Path| rate(program, dir, threads, record, options.slice);
                // Each goes first in every other pair, so that a disk that slows down after a burst
                // affects both.
                rates.push(match pair % 2 {
                    0 => {
                        let base = one(&base.program)?;
                        (base, one(&new.program)?)
                    }
                    _ => {
                        let new = one(&new.program)?;
                        (one(&base.program)?, new)
                    }
                });
            }
            let ratio = Ratio::of(&rates);
            let is_worse = ratio.is_below(LOWEST);
            is_slower |= is_worse;
            println!(
                "{threads:7}  {record:5}  {:9.0}  {:5.2}  {:.2} to {:.2}{}",
                ratio::median(rates.iter().map(|(_, new)| *new)),
                ratio.median,
                ratio.low,
                ratio.high,
                if is_worse { "  SLOWER" } else { "" }
            );
        }
    }
    Ok(!is_slower)
}

/// Runs one slice and returns its commits per second.
fn rate(program: &Path, dir: &Path, threads: u32, record: u32, slice: f64) -> Result<f64> {
    let mut command = Command::new(program);
    command.args(["bench", "group", "--rounds", "1", "--json", "-", "--dir"]);
    command.arg(dir);
    command.arg("--threads").arg(threads.to_string());
    command.arg("--records").arg(record.to_string());
    command.arg("--slice").arg(slice.to_string());
    let out = command
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    if !out.status.success() {
        bail!(
            "{} bench group: {}\n{}",
            program.display(),
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let report: Value = serde_json::from_slice(&out.stdout).context("read its report")?;
    let rate = report["rows"][0]["commits_per_s"].as_f64();
    rate.filter(|rate| *rate > 0.0)
        .with_context(|| format!("{} made no commit", program.display()))
}
