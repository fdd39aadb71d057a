//! `logforce archive verify`.

use super::{ArchiveArgs, advance, failed};
use crate::exit::End;
use crate::progress::Bar;
use logforce_terminal::numbers::{bytes, count};
use logforce_terminal::progress::Progress;
use serde::Serialize;

const MORE: &str = "\
Reads all objects, marks included, and checks their checksums or tags, that the log in them has no gap, and
each batch of the log. --sample reads a share of the objects, at least one, chosen by chance, and checks each
for itself; it finds no gaps. Only a restore shows that a program can use the log: try one from time to time.

Exit status: 0 healthy, 1 damage found, 2 unusable arguments, 4 it could not be read.";

/// Checks an archive.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Read only this share of the objects, such as 10%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    sample: Option<f64>,
}

#[derive(Serialize)]
struct Result<'a> {
    healthy: bool,
    sample: Option<f64>,
    objects: u64,
    bytes: u64,
    end: Option<u64>,
    damage: &'a [String],
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let share = text
        .strip_suffix('%')
        .and_then(|n| n.trim().parse::<f64>().ok());
    share
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| {
            format!("'{text}' is not a share: give one above 0% and at most 100%, such as 10%")
        })
}

/// Checks the archive.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let (archive, report) = args.archive.open()?;
    let bar = Bar::new();
    bar.doing("reading");
    let verified = archive.verify(args.sample, &mut |at| advance(&bar, at));
    bar.clear();
    let verified = verified.map_err(failed)?;
    let mut text = String::new();
    for damage in &verified.damage {
        text.push_str(&format!("DAMAGED: {damage}\n"));
    }
    let extent = match (args.sample, verified.end) {
        (Some(_), _) => ", a sample".to_owned(),
        (None, Some(end)) => format!(", up to LSN {end}"),
        (None, None) => String::new(),
    };
    text.push_str(&format!(
        "read {} with {} of log{extent}: {}\n",
        count(verified.objects, "object"),
        bytes(verified.bytes),
        match verified.damage.len() {
            0 => "healthy".to_owned(),
            n => format!(
                "{} DAMAGED. Restore to a position below, or put the objects back from a copy of the archive",
                count(n as u64, "object")
            ),
        }
    ));
    let healthy = verified.damage.is_empty();
    let result = Result {
        healthy,
        sample: args.sample,
        objects: verified.objects,
        bytes: verified.bytes,
        end: verified.end.map(|end| end.0),
        damage: &verified.damage,
    };
    report.finish(&archive, "logforce-archive-verify", &text, result)?;
    Ok(match healthy {
        true => End::Done,
        false => End::Damaged,
    })
}
