//! `process`: what a log has to bear while the machine stays up.

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use logforce_crashtest::testbed::Filesystem;
use logforce_powercut::process::inject::{Amount, Injection};
use logforce_powercut::process::{self, Counted, FILESYSTEMS, PARTS, Plan};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Kills that met a working log.
    #[arg(long)]
    kills: Option<u64>,
    /// Factor by which all other volumes exceed those of CI.
    #[arg(long, default_value_t = 1)]
    times: u64,
    /// Seed of all random choices. When a fault happens depends on the machine too.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this part.
    #[arg(long, value_name = "PART", value_parser = PARTS)]
    only: Option<String>,
    /// Number of system calls that fail, each in another run.
    #[arg(long)]
    calls: Option<u64>,
    /// No more system calls fail once one broke something.
    #[arg(long)]
    first: bool,
    /// Every system call fails with every error number it could, at every place.
    #[arg(long, conflicts_with = "calls")]
    whole: bool,
    /// Longest duration of `--whole`, minutes.
    #[arg(long, default_value_t = 60, requires = "whole")]
    minutes: u64,
    /// Only this call fails, as a report names it: "SCENE: CALL=ERRNO@N", N+ for all from one on.
    #[arg(long, value_name = "CASE", value_parser = one_case, conflicts_with = "whole")]
    case: Option<(String, Injection)>,
    /// Writes everything that was counted into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn one_case(text: &str) -> Result<(String, Injection), String> {
    let (scene, injection) = text
        .rsplit_once(": ")
        .ok_or("a case is SCENE: CALL=ERRNO@N")?;
    Ok((scene.to_owned(), injection.parse()?))
}

impl Args {
    fn injected(&self, usual: Amount) -> Amount {
        match (&self.case, self.calls) {
            (Some((scene, injection)), _) => Amount::One(scene.clone(), injection.clone()),
            (_, Some(calls)) => Amount::Some(calls),
            _ if self.whole => Amount::Whole(Duration::from_secs(60 * self.minutes)),
            _ => usual,
        }
    }

    /// The filesystems that it takes.
    pub fn filesystems(&self) -> Vec<Filesystem> {
        match self.only.as_deref() {
            Some("inject") => vec![Filesystem::Ext4],
            _ => FILESYSTEMS.to_vec(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    version: u32,
    seed: u64,
    seconds: f64,
    rows: Vec<Counted>,
}

/// Runs it. Fails if something broke, or a known fault was not caught.
///
/// # Errors
/// Of the machine.
pub fn run(args: &Args, home: &Path) -> Result<ExitCode> {
    let began = Instant::now();
    let ci = Plan::ci(args.seed);
    let plan = Plan {
        kills: args.kills.unwrap_or(ci.kills * args.times),
        errors: ci.errors * args.times,
        readers: ci.readers * args.times,
        wins: ci.wins * args.times,
        injected: args.injected(ci.injected),
        first: args.first,
        seed: ci.seed,
    };
    let rows = process::run(home, &plan, args.only.as_deref(), &mut |row| {
        println!("{row}");
    })?;
    let broken: usize = rows.iter().map(|r| r.broken.len()).sum();
    let document = Document {
        schema: "logforce-process-faults",
        version: 1,
        seed: args.seed,
        seconds: began.elapsed().as_secs_f64(),
        rows,
    };
    println!("process faults: {:.0} s, {broken} broken", document.seconds);
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&document)?;
        std::fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    Ok(ExitCode::from(u8::from(broken > 0)))
}
