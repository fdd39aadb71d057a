//! `logforce archive prune`.

use super::{ArchiveArgs, failed, times};
use crate::exit::End;
use crate::output::complain;
use anyhow::bail;
use logforce_archive::{Archive, Contents, Pruned};
use logforce_terminal::arguments;
use logforce_terminal::numbers::{bytes, count};
use std::time::Duration;

const MORE: &str = "\
Deletes whole segments that no restore to a later time needs. What the newest state of the log needs stays,
however old it is. Chunks become segments while the archive is written, so a small or new archive has
nothing to delete. Ages count from the newest chunk, by the clock of the machine that wrote it.

In the archive of a page file, the newest base copy that is as old stays, with the log that it needs, and
all later ones: make a new copy by `logforce archive base` before. --keep-bases counts them instead.

Other rules of deletion, such as those of a bucket, damage the archive: use only this command.";

/// Deletes the old part of an archive.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Age from which on nothing needs to be restorable, such as 30d
    #[arg(long, value_name = "AGE", value_parser = times::duration, required_unless_present = "keep_bases")]
    older_than: Option<Duration>,
    /// Keep this number of base copies of a page file, and the log that they need
    #[arg(long, value_name = "N", value_parser = arguments::within(1_usize, 1_000_000), conflicts_with = "older_than")]
    keep_bases: Option<usize>,
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
    bases: u64,
    partial_bases: u64,
}

/// Prunes.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let (archive, report) = args.archive.open()?;
    let contents = archive.list().map_err(failed)?;
    let (pruned, wanted) = match (args.keep_bases, args.older_than) {
        (Some(count), _) => {
            let pruned = archive.keep_bases(count, args.dry_run);
            (
                pruned.map_err(failed)?,
                format!("begin with its base copies, at most {count}"),
            )
        }
        (None, age) => by_age(&archive, &contents, age.unwrap_or_default(), args.dry_run)?,
    };
    let start = pruned.start;
    let below = start.since(contents.start);
    let copies = pruned.bases + pruned.partial;
    let what = match copies {
        0 => format!("{} of log", bytes(below)),
        n => format!(
            "{} of log and {} of the page file",
            bytes(below),
            count(n, "base copy").replace("copys", "copies")
        ),
    };
    let text = match (below + copies, args.dry_run) {
        (0, _) => format!(
            "nothing to delete: the archive begins at LSN {start}, and all of it is needed to {wanted}\n"
        ),
        (_, true) => {
            format!("would delete {what}: nothing below LSN {start} could be restored then\n")
        }
        (_, false) => format!("deleted {what}: the archive begins at LSN {start}\n"),
    };
    let result = Result {
        dry_run: args.dry_run,
        before: contents.start.0,
        start: start.0,
        log_bytes: below,
        bases: pruned.bases,
        partial_bases: pruned.partial,
    };
    report.finish(&archive, "logforce-archive-prune", &text, result)?;
    Ok(End::Done)
}

/// Prunes by age. Returns the result, and what the rest is needed for.
fn by_age(
    archive: &Archive,
    contents: &Contents,
    age: Duration,
    dry_run: bool,
) -> anyhow::Result<(Pruned, String)> {
    // Ages would be wrong, and a deletion cannot be undone.
    if let Some(reason) = times::wrong_clock(contents) {
        bail!(
            "cannot prune by age: {reason}. Set the clock, and prune when new chunks are archived"
        );
    }
    if let Some(note) = times::doubtful_times(contents) {
        complain(&format!("note: {note}"));
    }
    let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
    // Not from now: a clock here that is ahead would delete everything.
    let time = contents.newest.unwrap_or_default().saturating_sub(age);
    let pruned = archive.prune(time, dry_run).map_err(failed)?;
    Ok((pruned, format!("restore to {}", times::date(time))))
}
