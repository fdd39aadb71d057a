//! `logforce archive mark`.

use super::{ArchiveArgs, failed};
use crate::exit::{End, Usage};
use crate::log_args::parse_lsn;
use logforce::Lsn;
use logforce_archive::key::is_mark_name;

const MORE: &str = "\
A mark names a position, such as the one before a migration: restore to it with --to mark:NAME. Marks are
never replaced. Pruning may delete the log below a mark; the mark stays, and its restore is refused.";

/// Names a position.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Name: letters, digits, '-', '_' or '.'
    #[arg(value_name = "NAME")]
    name: String,
    /// Position to name [default: the newest archived one]
    #[arg(long, value_name = "LSN", value_parser = parse_lsn)]
    lsn: Option<Lsn>,
}

#[derive(serde::Serialize)]
struct Result<'a> {
    name: &'a str,
    lsn: u64,
}

/// Sets the mark.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let (archive, report) = args.archive.open()?;
    let marked = archive.mark(&args.name, args.lsn);
    let lsn = marked.map_err(|error| match is_mark_name(&args.name) {
        true => failed(error),
        false => Usage(error.to_string()).into(),
    })?;
    let text = format!(
        "mark '{0}' is at LSN {lsn}: restore to it with --to mark:{0}\n",
        args.name
    );
    let result = Result {
        name: &args.name,
        lsn: lsn.0,
    };
    report.finish(&archive, "logforce-archive-mark", &text, result)?;
    Ok(End::Done)
}
