//! `logforce backup`.

use crate::exit::{End, Usage};
use crate::output::print;
use crate::pages;
use anyhow::{Context, bail};
use logforce::Guarantee;
use logforce::pages::{Error, Options};
use logforce_measure::numbers::{bytes, count};
use std::path::PathBuf;

const MORE: &str = "\
FROM is opened as its owner opens it: what a crash left in its log is redone, and nobody else can open
it meanwhile. So the program that has it open must make the backup itself, by logforce::pages::backup.
TO holds the same pages under another id; check it with `logforce verify TO`, restore by opening it.

Exit status: 0 done, 1 FROM is damaged, 2 unusable arguments, 4 failed. Unless it is 0, TO is removed
again, as far as that goes.";

/// Backs up a page file that no program has open.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The page file's directory
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The directory of the backup; it must be missing or empty
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Accept a TO that survives less than a loss of power: process-crash, os-crash
    #[arg(long, value_name = "GUARANTEE", value_parser = crate::salvage::parse_guarantee,
          default_value = "power-loss")]
    require: Guarantee,
}

/// Backs up.
pub fn run(args: Args) -> anyhow::Result<End> {
    let (from, to) = (args.from.display(), args.to.display());
    if !pages::is_there(&args.from) && args.from.join("control").is_file() {
        bail!(Usage(format!(
            "{from} holds a log, and `logforce backup` is for page files: close the log and copy the directory, or see \
             the guide's page on backup"
        )));
    }
    // It is read, and what its log holds is redone: no more is asked of the place than it has.
    let log = logforce::Options::new()
        .calibrate(false)
        .live_stats(false)
        .segment_size(1 << 20);
    let options = Options::new().require(Guarantee::Nothing).log(log);
    let file = match logforce::pages::open_existing(&args.from, options) {
        Err(Error::Locked { .. }) => bail!(
            "{from} is open in a program, and only that can back it up, by logforce::pages::backup; or close it first"
        ),
        opened => opened?,
    };
    let state = file.snapshot()?;
    let made = logforce::pages::backup(&state, &args.to, args.require);
    let (commit, page_count) = (state.commit(), state.page_count());
    let size = bytes(file.page_size().into());
    drop(state);
    file.close().with_context(|| format!("closing {from}"))?;
    made?;
    print(
        &format!(
            "{to} holds {} of {size} of {from}, up to commit {commit}\n",
            count(page_count, "page")
        ),
        false,
    )?;
    Ok(End::Done)
}
