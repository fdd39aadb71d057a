//! `logforce calibrate`.

mod report;

use crate::bench::common::{check_directory, command_line};
use crate::bench::os;
use crate::exit::End;
use crate::output::{Sink, Target, print};
use crate::progress::Countdown;
use crate::signal;
use anyhow::bail;
use logforce::disk::calibration::{self, Origin};
use logforce_measure::Interrupt;
use logforce_measure::machine::Machine;
use logforce_terminal::arguments;
use report::CalibrateReport;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Longest duration of --again. An interrupt waits for its end.
const LONGEST: Duration = Duration::from_secs(60);
/// Longest measurement without --again, as `MORE` states.
const AT_FIRST: Duration = Duration::from_millis(800);
/// Longest time that --again adds for page files.
const PAGE_FILES: Duration = Duration::from_secs(2);

const MORE: &str = "\
Opening a log without a set method does this by itself, once for a filesystem and in at most 300 ms. This
command shows the result, and can measure again with more time.

The result is stored in --cache, for programs that set the same directory as Options::calibration_cache,
and in DIR if that is a log. A method other than the default is chosen only if it is faster by more than
a tenth beyond the noise. It never guarantees less than the default.

For copy-on-write page files, the command also measures up to how many runs of pages a commit is faster
by write-through than by a barrier. This takes half a second (with --again as long as the rest, at most
2 s). Creating such a file does this by itself.";

/// Flags of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// Directory on the disk to measure, perhaps a log; a file is created in it and removed
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Measure even if a result is known already
    #[arg(long)]
    again: bool,
    /// Seconds that --again may take, preparation included; at most 60
    #[arg(long, value_name = "S", default_value = "3", value_parser = arguments::seconds_to(LONGEST), requires = "again")]
    seconds: Duration,
    /// Directory of shared results [default: $XDG_CACHE_HOME/logforce or ~/.cache/logforce; on Windows
    /// %LOCALAPPDATA%\logforce\cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Write the result as JSON to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

/// Shows the method that logs use in a directory, and why; measures if that is not known.
pub fn run(args: Args) -> anyhow::Result<End> {
    check_directory(&args.dir)?;
    let json = args.json.as_ref().map(Sink::open).transpose()?;
    let stdout_has_data = matches!(json, Some(Sink::Stdout));
    let interrupt = Interrupt::new();
    signal::install(interrupt.clone(), Arc::default())?;
    let cache = args.cache.or_else(calibration::default_cache);
    let whole = match args.again {
        true => args.seconds + args.seconds.min(PAGE_FILES),
        false => AT_FIRST,
    };
    let countdown = Countdown::begin("measuring", whole);
    let found = if args.again {
        calibration::measured(&args.dir, cache.as_deref(), args.seconds)
    } else {
        calibration::known_or_measured(&args.dir, cache.as_deref())
    };
    drop(countdown);
    let found = found?;
    if interrupt.is_raised() {
        return Ok(End::Interrupted);
    }
    let machine = Machine::new(&found.facts, os::host());
    let report = CalibrateReport::new(command_line(), machine, &found);
    print(&report.text(), stdout_has_data)?;
    if let Some(sink) = json {
        sink.fill(|out| {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            out.write_all(b"\n")
        })?;
    }
    if let Some(Origin::Failed(why)) = found.origin {
        bail!("{why}");
    }
    Ok(End::Done)
}
