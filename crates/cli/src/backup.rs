//! `logforce backup`.

use crate::directory;
use crate::exit::End;
use crate::log_args::has_segments;
use crate::output::{Sink, Target, print};
use crate::progress::Bar;
use anyhow::{Context, anyhow};
use logforce::pages::Error;
use logforce::{Error as LogError, Guarantee};
use logforce_terminal::numbers::{bytes, count};
use logforce_terminal::progress::Progress;
use std::path::{Path, PathBuf};

const MORE: &str = "\
A program may have the log open meanwhile, because nothing is locked. TO then holds all records that the
program has proven durable so far, at the same LSNs. While the program commits, that is at most half a
second behind, unless an option of the log says otherwise. A program that has the log open can make a
complete backup itself with Log::backup.

For a page file, TO holds the state that its next opening would begin with, including the commits in its
log, under another id. FROM is only read. A program that has the page file open must make the backup
itself with pages::Snapshot::backup. If a program opens the page file meanwhile, this backup fails.

When the command ends, TO is durable and has been read back. To restore it, open it or a copy of it.

Exit status: 0 done, 1 FROM is damaged, 2 unusable arguments, 4 failed: FROM is missing, its control file is
missing, or TO cannot be used, for example. Unless it is 0, TO is removed if possible. A killed backup
leaves a TO that cannot be opened; the same command then writes it again.";

/// Backs up a log, or a page file that no program has open.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The directory of the log or page file
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The directory of the backup; it must be missing or empty
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Accept a TO that survives less than a loss of power: process-crash, os-crash
    #[arg(long, value_name = "GUARANTEE", value_parser = crate::salvage::parse_guarantee,
          default_value = "power-loss")]
    require: Guarantee,
    /// Write the result as JSON to FILE; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

/// The result as JSON; see `docs/cli-json.md`.
#[derive(Debug, Default, serde::Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    from: String,
    to: String,
    /// "log" or "page file".
    kind: &'static str,
    /// First LSN of a log.
    front: Option<u64>,
    /// Exclusive end of a log.
    end: Option<u64>,
    /// Number of bytes copied of a log.
    bytes: Option<u64>,
    /// Number of pages of a page file.
    pages: Option<u64>,
    /// Last commit in a page file.
    commit: Option<u64>,
}

/// Backs up.
pub fn run(args: Args) -> anyhow::Result<End> {
    if !directory::is_page_file(&args.from)? {
        return back_up_log(&args);
    }
    let json = args.json.as_ref().map(Sink::open).transpose();
    let json = json.context("--json")?;
    let state = logforce::pages::read_only(&args.from).map_err(|e| refused(e, &args.from))?;
    let bar = Bar::new();
    bar.doing("copying");
    let made = state.backup(
        &args.to,
        logforce::BackupOptions::new()
            .require(args.require)
            .progress(|page, all| {
                bar.fraction(page as f64 / all.max(1) as f64);
            }),
    );
    bar.clear();
    let (commit, page_count) = (state.commit(), state.page_count());
    let size = bytes(state.page_size().into());
    made.map_err(|e| refused(e, &args.from))?;
    let (from, to) = (args.from.display(), args.to.display());
    let text = format!(
        "{to} holds {} of {size} of {from}, up to commit {commit}\n",
        count(page_count, "page")
    );
    let report = Report {
        kind: "page file",
        pages: Some(page_count),
        commit: Some(commit),
        ..Report::default()
    };
    finish(&args, &text, json, report)
}

fn refused(error: Error, from: &Path) -> anyhow::Error {
    match error {
        Error::Locked { .. } => anyhow!(
            "{} is open in a program: close it first, or let that program make the backup with pages::Snapshot::backup",
            from.display()
        ),
        Error::Guarantee {
            path,
            got,
            wanted,
            evidence,
        } => anyhow!(
            "{}: a sync guarantees {got} there, {wanted} is required: {evidence}. Name a TO on a filesystem that \
             guarantees it, or accept less with --require {got}",
            path.display()
        ),
        e => e.into(),
    }
}

/// Adds the next step to the library's error for a log whose control file is missing.
fn log_refused(error: LogError, args: &Args) -> anyhow::Error {
    match &error {
        LogError::NoLog { .. } if has_segments(&args.from).unwrap_or(false) => anyhow!(
            "{error}. Segments exist: save their records with `logforce salvage {} NEW`",
            args.from.display()
        ),
        _ => error.into(),
    }
}

fn back_up_log(args: &Args) -> anyhow::Result<End> {
    let json = args.json.as_ref().map(Sink::open).transpose();
    let json = json.context("--json")?;
    let bar = Bar::new();
    bar.doing("copying, then reading back");
    let made = logforce::backup(
        &args.from,
        &args.to,
        logforce::BackupOptions::new()
            .require(args.require)
            .progress(|done, all| {
                bar.fraction(done as f64 / all.max(1) as f64);
            }),
    );
    bar.clear();
    let made = made.map_err(|e| log_refused(e, args))?;
    let (from, to) = (args.from.display(), args.to.display());
    let text = format!(
        "{to} holds {} of {from}, from LSN {} to {}\n",
        bytes(made.bytes),
        made.front,
        made.end
    );
    let report = Report {
        kind: "log",
        front: Some(made.front.0),
        end: Some(made.end.0),
        bytes: Some(made.bytes),
        ..Report::default()
    };
    finish(args, &text, json, report)
}

fn finish(args: &Args, text: &str, json: Option<Sink>, report: Report) -> anyhow::Result<End> {
    print(text, args.json == Some(Target::Stdout))?;
    if let Some(json) = json {
        let report = Report {
            schema: "logforce-backup",
            version: 1,
            from: args.from.display().to_string(),
            to: args.to.display().to_string(),
            ..report
        };
        json.fill(|out| {
            serde_json::to_writer_pretty(&mut *out, &report).map_err(std::io::Error::from)?;
            out.write_all(b"\n")
        })
        .context("--json")?;
    }
    Ok(End::Done)
}
