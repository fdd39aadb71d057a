//! `logforce report`.

use crate::bench::common::{draw, one_place_each};
use crate::charts::Charts;
use crate::exit::{End, Usage};
use crate::output::{Sink, Target};
use anyhow::bail;
use logforce_report::Document;
use std::path::PathBuf;

/// The result to draw.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A result that `bench --json` wrote, on this or another machine
    #[arg(value_name = "RESULT.json")]
    result: PathBuf,
    /// Write the report to FILE, as one HTML file; - writes to standard output
    #[arg(long, visible_alias = "report", value_name = "FILE")]
    html: Option<Target>,
    /// Write the charts into the directory DIR, each as an SVG file
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// Draws the result.
pub fn run(args: Args) -> anyhow::Result<End> {
    if args.html.is_none() && args.svg.is_none() {
        bail!(Usage(
            "no output is named: give --report FILE (or --html FILE), --svg DIR or both".to_owned()
        ));
    }
    let svg = args.svg.clone().map(Target::File);
    one_place_each(&[("--html", &args.html), ("--svg", &svg)])?;
    let document = Document::read(&args.result)?;
    if document.rows.is_empty() {
        bail!(
            "{} has no rows, so there is nothing to draw: the run was stopped before it measured anything",
            args.result.display()
        );
    }
    let page = args.html.as_ref().map(Sink::open).transpose()?;
    let charts = args.svg.as_deref().map(Charts::open).transpose()?;
    draw(&document, page, charts)?;
    Ok(End::Done)
}
