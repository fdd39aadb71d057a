//! `logforce facts`.

pub mod next;
mod report;
mod text;

use crate::bench::common::command_line;
use crate::bench::os;
use crate::exit::End;
use crate::output::terminal_width;
use crate::output::{Sink, Target, print};
use anyhow::{Context, bail};
use logforce::disk::calibration;
use logforce_measure::machine::Machine;
use logforce_measure::output;
use report::FactsReport;
pub use report::Worth;
use std::io;
use std::path::{Path, PathBuf};

const MORE: &str = "\
Measures nothing, and writes nothing to DIR. Reads the stored results of `logforce calibrate` and
`logforce powercut` from --cache, and from DIR if that is a log.";

/// Flags of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// Directory on the disk in question, perhaps a log
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Directory of shared results [default: $XDG_CACHE_HOME/logforce or ~/.cache/logforce; on Windows
    /// %LOCALAPPDATA%\logforce\cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Write the result as JSON to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

/// Shows what the system reports about a directory, and what each method guarantees there.
pub fn run(args: Args) -> anyhow::Result<End> {
    check_directory(&args.dir)?;
    let json = args.json.as_ref().map(Sink::open).transpose()?;
    let stdout_has_data = matches!(json, Some(Sink::Stdout));
    let cache = args.cache.or_else(calibration::default_cache);
    let known = calibration::known(&args.dir, cache.as_deref())?;
    let machine = Machine::new(&known.facts, os::host());
    let report = FactsReport::new(command_line(), &args.dir, machine, &known);
    let width = terminal_width(stdout_has_data);
    print(&text::render(&report, width), stdout_has_data)?;
    if let Some(sink) = json {
        sink.fill(|out| output::json(&report, out))?;
    }
    Ok(End::Done)
}

/// Checks that the path is a directory. A missing one fails like the directory of a log: its disk may not be
/// mounted.
fn check_directory(dir: &Path) -> anyhow::Result<()> {
    let unusable = |why: &str| {
        let dir = dir.display();
        bail!("{dir} {why}: give a directory on the disk in question")
    };
    match dir.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => unusable("is not a directory"),
        Err(e) if e.kind() == io::ErrorKind::NotFound => unusable("does not exist"),
        Err(e) => Err(e).with_context(|| {
            format!(
                "cannot look at {}, so nothing is known of it",
                dir.display()
            )
        }),
    }
}
