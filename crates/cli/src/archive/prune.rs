//! `logforce archive prune`.

use super::{ArchiveArgs, failed, times};
use crate::exit::End;
use crate::output::complain;
use anyhow::bail;
use logforce_terminal::numbers::bytes;
use std::time::Duration;

const MORE: &str = "\
Deletes whole segments that no restore to a later time needs. What the newest state of the log needs stays,
however old it is. Chunks become segments while the archive is written, so a small or new archive has
nothing to delete. Ages count from the newest chunk, by the clock of the machine that wrote it.

Other rules of deletion, such as those of a bucket, damage the archive: use only this command.";

/// Deletes the old part of an archive.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Age from which on nothing needs to be restorable, such as 30d
    #[arg(long, value_name = "AGE", value_parser = times::duration)]
    older_than: Duration,
    /// Delete nothing, and report what would be deleted
    #[arg(long)]
    dry_run: bool,
}

#[derive(serde::Serialize)]
struct Result {
    dry_run: bool,
    before: u64,
    start: u64,
    log_bytes: u64,
}

/// Prunes.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let (archive, report) = args.archive.open()?;
    let contents = archive.list().map_err(failed)?;
    // Ages would be wrong, and a deletion cannot be undone.
    if let Some(reason) = times::wrong_clock(&contents) {
        bail!(
            "cannot prune by age: {reason}. Set the clock, and prune when new chunks are archived"
        );
    }
    if let Some(note) = times::doubtful_times(&contents) {
        complain(&format!("note: {note}"));
    }
    let age = u64::try_from(args.older_than.as_nanos()).unwrap_or(u64::MAX);
    // Not from now: a clock here that is ahead would delete everything.
    let time = contents.newest.unwrap_or_default().saturating_sub(age);
    let start = archive.prune(time, args.dry_run).map_err(failed)?;
    let below = start.since(contents.start);
    let text = match (below, args.dry_run) {
        (0, _) => format!(
            "nothing to delete: the archive begins at LSN {start}, and all of it is needed to restore to {}\n",
            times::date(time)
        ),
        (n, true) => format!(
            "would delete {} of log: nothing below LSN {start} could be restored then\n",
            bytes(n)
        ),
        (n, false) => format!(
            "deleted {} of log: the archive begins at LSN {start}\n",
            bytes(n)
        ),
    };
    let result = Result {
        dry_run: args.dry_run,
        before: contents.start.0,
        start: start.0,
        log_bytes: below,
    };
    report.finish(&archive, "logforce-archive-prune", &text, result)?;
    Ok(End::Done)
}
