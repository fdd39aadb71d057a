//! `logforce archive takeover`.

use super::{ArchiveArgs, advance, not_restored};
use crate::exit::End;
use crate::progress::Bar;
use logforce::Guarantee;
use logforce_terminal::numbers::bytes;
use logforce_terminal::progress::Progress;
use std::path::PathBuf;

const MORE: &str = "\
Claims the archive, so that the old writer can archive nothing more, also if it still runs. Then DIR becomes
a log with everything that is archived; a copy that `restore --follow` has left there is completed.
An asynchronous archive lacks the newest commits of the old machine: set its log aside, do not write to it.

Next: open DIR in the program, and archive it at the same URL.

After a failure the archive may be claimed already: repeat the command.";

/// Takes a log over.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// The directory of the log: missing, empty, or left by `restore --follow`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Name of this machine, for people who read the archive, up to 1,024 bytes
    #[arg(long, value_name = "NAME", value_parser = super::owner)]
    owner: String,
    /// Accept a DIR that survives less than a loss of power: process-crash, os-crash
    #[arg(long, value_name = "GUARANTEE", value_parser = crate::salvage::parse_guarantee,
          default_value = "power-loss")]
    require: Guarantee,
}

#[derive(serde::Serialize)]
struct Result {
    dir: String,
    owner: String,
    epoch: u64,
    front: u64,
    end: u64,
    bytes: u64,
}

/// Takes over.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let (archive, report) = args.archive.open()?;
    let bar = Bar::new();
    bar.doing("copying");
    let taken = archive.takeover(&args.dir, &args.owner, args.require, &mut |at| {
        advance(&bar, at);
    });
    bar.clear();
    let (epoch, made) = taken.map_err(not_restored)?;
    let text = format!(
        "'{}' owns the archive (epoch {}): {} holds {} from LSN {} to {}\nnext: open it, and archive it with \
         `logforce archive run {} {}`\n",
        args.owner,
        epoch.0,
        args.dir.display(),
        bytes(made.bytes),
        made.front,
        made.end,
        args.dir.display(),
        archive.url()
    );
    let result = Result {
        dir: args.dir.display().to_string(),
        owner: args.owner.clone(),
        epoch: epoch.0,
        front: made.front.0,
        end: made.end.0,
        bytes: made.bytes,
    };
    report.finish(&archive, "logforce-archive-takeover", &text, result)?;
    Ok(End::Done)
}
