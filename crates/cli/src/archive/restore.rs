//! `logforce archive restore`.

use super::{ArchiveArgs, Report, advance, not_restored, times};
use crate::exit::End;
use crate::output::complain;
use crate::progress::Bar;
use crate::signal;
use logforce::{Guarantee, Lsn};
use logforce_archive::{Archive, RestoreOptions, RestoreTo};
use logforce_measure::Interrupt;
use logforce_terminal::numbers::bytes;
use logforce_terminal::progress::Progress;
use std::path::PathBuf;
use std::sync::Arc;

const MORE: &str = "\
The archive of a page file makes a page file: of the newest base copy that is old enough, and the log behind it.

--to ends the restored log: at the first position at or above an LSN (8192, 0x2000), at the last chunk made
before a time (2026-11-28T10:00:00Z, '2 hours ago'; UTC, by the clock of the machine that wrote the archive),
or at a mark (mark:NAME). An LSN above the end of the archive is refused.

When the command ends, DIR is durable, and each batch of the log in it was checked. A killed restore leaves a
DIR that cannot be opened; the same command then begins anew. After another failure DIR is as it was.

--follow keeps DIR up to date until Ctrl-C, for `logforce archive takeover`. DIR is not a log until then. The
same command continues it.

The archive belongs to the log that wrote it. Archive a log that was restored to an earlier end at another
URL; after a loss of the machine, use `logforce archive takeover`, which continues the archive.";

/// Restores a log or page file.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// The directory of the log or page file: missing or empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// End of the restored log [default: everything that is archived]
    #[arg(long, value_name = "LSN|TIME|mark:NAME", value_parser = times::parse_end)]
    to: Option<RestoreTo>,
    /// Keep DIR up to date until Ctrl-C, for a takeover
    #[arg(long, conflicts_with = "to")]
    follow: bool,
    /// Accept a DIR that survives less than a loss of power: process-crash, os-crash
    #[arg(long, value_name = "GUARANTEE", value_parser = crate::salvage::parse_guarantee,
          default_value = "power-loss")]
    require: Guarantee,
}

#[derive(serde::Serialize)]
struct Result {
    dir: String,
    complete: bool,
    front: Option<u64>,
    end: Option<u64>,
    bytes: Option<u64>,
}

/// Restores.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let (archive, report) = args.archive.open()?;
    if args.follow {
        return follow(args, &archive, report);
    }
    let to = args.to.clone().unwrap_or_default();
    if let RestoreTo::Time(_) = to
        && let Some(note) = times::doubtful_times(&archive.list().map_err(not_restored)?)
    {
        complain(&format!("note: {note}"));
    }
    let bar = Bar::new();
    bar.doing("restoring");
    let options = RestoreOptions::new().to(to).require(args.require);
    let made = archive.restore(&args.dir, &options, &mut |at| advance(&bar, at));
    bar.clear();
    let made = made.map_err(not_restored)?;
    let dir = args.dir.display();
    let text = format!(
        "{dir} holds {} of the archive, from LSN {} to {}\n",
        bytes(made.bytes),
        made.front,
        made.end
    );
    let result = Result {
        dir: dir.to_string(),
        complete: true,
        front: Some(made.front.0),
        end: Some(made.end.0),
        bytes: Some(made.bytes),
    };
    report.finish(&archive, "logforce-archive-restore", &text, result)?;
    Ok(End::Done)
}

fn follow(args: &Args, archive: &Archive, report: Report) -> anyhow::Result<End> {
    let interrupt = Interrupt::new();
    signal::install(interrupt.clone(), Arc::default())?;
    let dir = args.dir.display();
    complain(&format!(
        "following {} in {dir}; Ctrl-C ends it",
        archive.url()
    ));
    let bar = Bar::new();
    let mut end: Option<Lsn> = None;
    let is_over = || interrupt.is_raised();
    let followed = archive.follow(&args.dir, args.require, &is_over, &mut |at| {
        end = Some(at.at);
        bar.doing(&format!("following, at LSN {}", at.at));
        advance(&bar, at);
    });
    bar.clear();
    followed.map_err(not_restored)?;
    let end_text = end.map_or(String::new(), |end| format!(" up to LSN {end}"));
    let text = format!(
        "{dir} holds a copy{end_text} that is not a log yet: the same command continues it, and \
         `logforce archive takeover {} {dir} --owner NAME` makes it a log\n",
        archive.url()
    );
    let result = Result {
        dir: dir.to_string(),
        complete: false,
        front: None,
        end: end.map(|end| end.0),
        bytes: None,
    };
    report.finish(archive, "logforce-archive-restore", &text, result)?;
    Ok(End::Done)
}
