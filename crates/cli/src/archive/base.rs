//! `logforce archive base`.

use super::{ArchiveArgs, advance, failed};
use crate::exit::End;
use crate::progress::Bar;
use crate::signal;
use logforce_archive::object::Base;
use logforce_measure::Interrupt;
use logforce_terminal::numbers::bytes;
use logforce_terminal::progress::Progress;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which the copy waits for the log behind it.
pub const PATIENCE: Duration = Duration::from_secs(15);

const MORE: &str = "\
A restore of a page file begins with the newest base copy that is old enough, and reads the log behind it. So
a new copy, once a day or week, makes restores faster, and `logforce archive prune` can delete what is older.
Programs may write the page file meanwhile; `logforce archive run PAGEFILE URL` must archive its log. The copy
is visible once the archive has the log up to its end. One that was cut short is never used, and a later
prune removes it.

A page file that commits by copy-on-write has no log, and so no archive: copy it by `logforce backup`.";

/// Adds a base copy.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The directory of the page file
    #[arg(value_name = "PAGEFILE")]
    file: PathBuf,
    #[command(flatten)]
    archive: ArchiveArgs,
}

#[derive(serde::Serialize)]
struct Result {
    path: String,
    lsn: u64,
    end: u64,
    parts: u64,
    bytes: u64,
}

/// Makes the copy.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let (archive, report) = args.archive.open()?;
    let interrupt = Interrupt::new();
    signal::install(interrupt.clone(), Arc::default())?;
    let bar = Bar::new();
    bar.doing("copying");
    let advanced = Cell::new(Instant::now());
    let stop = || interrupt.is_raised() || advanced.get().elapsed() > PATIENCE;
    let made = archive.base(&args.file, &stop, &mut |at| {
        advanced.set(Instant::now());
        advance(&bar, at);
    });
    bar.clear();
    let base = made.map_err(failed)?;
    let text = format!("{}\n", described(&args.file, &base));
    let result = Result {
        path: args.file.display().to_string(),
        lsn: base.id.lsn.0,
        end: base.end.0,
        parts: base.parts,
        bytes: base.bytes,
    };
    report.finish(&archive, "logforce-archive-base", &text, result)?;
    Ok(End::Done)
}

/// Describes a copy that was made.
pub fn described(file: &Path, base: &Base) -> String {
    format!(
        "the archive has a base copy of {}, {}: restores to LSN {} and later begin with it",
        file.display(),
        bytes(base.bytes),
        base.end
    )
}
