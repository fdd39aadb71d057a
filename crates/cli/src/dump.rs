//! `logforce dump`.

pub mod data;
mod line;

use crate::directory;
use crate::exit::{Damaged, End, Usage};
use crate::listing::Listing;
use crate::log_args::{
    LogArgs, LogInfo, explain, is_overtaken, parse_lsn, places_of, unknown_bounds,
};
use crate::output::{Sink, complain, quoted};
use crate::pages;
use crate::progress::Walk;
use anyhow::bail;
use data::Data;
use line::{Line, Places};
use logforce::{Lsn, inspect::Visit};
use logforce_terminal::arguments;
use std::io::Write;

const MORE: &str = "\
Prints one line for each batch, each record and each damaged place, in the order of the log. The lines
are printed while the log is read, so that a log of any size can be listed. With --json or --csv the
lines go there instead. A log may be listed while a program writes it.

For a page file, prints its header slots, the nodes of its page table, and every written page, with its
place and whether it is whole; with --redo also the commits in its log.

Exit status: 0 listed, 1 damaged, 2 unusable arguments, 4 it could not be read.";

/// Lists a log or a page file.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// Only batches and records from this LSN on
    #[arg(long, value_name = "LSN", value_parser = parse_lsn)]
    from: Option<Lsn>,
    /// Only batches and records below this LSN
    #[arg(long, value_name = "LSN", value_parser = parse_lsn)]
    to: Option<Lsn>,
    /// Print at most N lines
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    limit: Option<u64>,
    /// Only batches
    #[arg(long, conflicts_with = "records")]
    batches: bool,
    /// Only records
    #[arg(long)]
    records: bool,
    /// Format of the bytes of records [default: text]
    #[arg(long, value_enum)]
    data: Option<Data>,
    /// Show at most N bytes of a record [default: 64; all in JSON and CSV]
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    data_bytes: Option<u64>,
    /// Write the bytes of the record at LSN to standard output, and nothing else
    #[arg(long, value_name = "LSN", value_parser = parse_lsn,
          conflicts_with_all = ["from", "to", "limit", "batches", "records", "json", "csv"])]
    raw: Option<Lsn>,
    /// For a page file: list the redo records of its log as well
    #[arg(long)]
    redo: bool,
    /// For a page file: show the bytes of page N and their source
    #[arg(long, value_name = "N", value_parser = arguments::count,
          conflicts_with_all = ["redo", "limit", "csv"])]
    page: Option<u64>,
}

impl Args {
    /// Returns the first flag that does not apply to a page file.
    fn only_for_logs(&self) -> Option<&'static str> {
        let flags = [
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--batches", self.batches),
            ("--records", self.records),
            ("--data", self.data.is_some()),
            ("--data-bytes", self.data_bytes.is_some()),
            ("--raw", self.raw.is_some()),
        ];
        flags
            .into_iter()
            .find(|(_, set)| *set)
            .map(|(flag, _)| flag)
    }
}

/// Default number of bytes of a record that a line shows.
const SHOWN: usize = 64;

/// Lists.
pub fn run(args: Args) -> anyhow::Result<End> {
    if directory::is_page_file(&args.log.dir)? {
        if let Some(flag) = args.only_for_logs() {
            bail!(pages::only_for_logs(&args.log.dir, flag));
        }
        return match args.page {
            Some(page) => pages::page::run(&args.log, page),
            None => pages::dump::run(&args.log, args.redo, args.limit),
        };
    }
    if args.redo || args.page.is_some() {
        let flag = if args.redo { "--redo" } else { "--page" };
        bail!(pages::only_for_page_files(&args.log.dir, flag));
    }
    if let Some(lsn) = args.raw {
        return raw(&args.log, lsn);
    }
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        bail!(Usage(format!(
            "--from {from} and --to {to} leave nothing to list: --to must be above --from"
        )));
    }
    let mut out = Listing::open(&args.log, args.limit)?;
    let to_person = out.is_text();
    let inspector = args.log.inspector()?;
    let summary = inspector.summary();
    let log = LogInfo::new(&args.log.dir, &summary);
    out.begin("logforce-dump", "log", &log)?;
    let places = Places::new(&summary.segments);
    let data = args.data.unwrap_or(Data::Text);
    let shown = match args.data_bytes {
        Some(n) => usize::try_from(n).unwrap_or(usize::MAX),
        None if to_person => SHOWN,
        None => usize::MAX,
    };
    let (mut result, mut damages, mut whole) = (Ok(()), 0_u64, true);
    let from = summary.segments.first().map_or(0, |s| s.start.0);
    let shows = out.leaves_terminal_free();
    let mut walk = Walk::begin("listing", from, summary.prepared_end.0, shows);
    let finding = inspector.walk(&mut |visit| {
        if let Visit::Batch(batch) = &visit {
            walk.at(batch.end.0);
        }
        let at = match &visit {
            Visit::Batch(b) => b.lsn,
            Visit::Record { record, .. } | Visit::Part(record) => record.start,
            Visit::Damage(d) => d.lsn,
        };
        if args.to.is_some_and(|to| at >= to) || out.is_full() {
            whole = false;
            return false;
        }
        if args.from.is_some_and(|from| at < from) {
            return true;
        }
        let line = match visit {
            Visit::Batch(_) if args.records => return true,
            Visit::Record { .. } | Visit::Part(_) if args.batches => return true,
            Visit::Damage(d) if summary.in_use && is_overtaken(&args.log.dir, d) => return true,
            Visit::Batch(b) => Line::batch(b),
            Visit::Record { record, proven } => Line::record(record, proven, &places, data, shown),
            Visit::Part(record) => Line::part(record, &places, data, shown),
            Visit::Damage(d) => {
                damages += 1;
                Line::damage(d)
            }
        };
        result = out.line(&line).map(drop);
        result.is_ok()
    })?;
    drop(walk);
    result?;
    let end = whole.then_some((finding.end, finding.case));
    // The end is known only if the whole log was read.
    let (lsn, case) = match end {
        Some((lsn, case)) => (lsn.to_string(), format!("\"{}\"", case.label())),
        None => ("null".to_owned(), "null".to_owned()),
    };
    out.finish(&format!(
        "\"end\":{lsn},\"case\":{case},\"damages\":{damages}"
    ))?;
    if let Some(unknown) = unknown_bounds(&summary) {
        complain(&unknown);
    }
    if let Some((lsn, case)) = end {
        complain(&format!(
            "ends at LSN {lsn}, {}: {}",
            case.label(),
            explain(case)
        ));
    }
    Ok(if damages == 0 {
        End::Done
    } else {
        complain(&format!("DAMAGED in {}", places_of(damages)));
        End::Damaged
    })
}

/// Writes the bytes of one record.
fn raw(args: &LogArgs, lsn: Lsn) -> anyhow::Result<End> {
    let inspector = args.inspector()?;
    let dir = quoted(args.dir.display().to_string());
    let salvage = if args.salvage { " --salvage" } else { "" };
    let mut out = Sink::Stdout.writer()?;
    let mut found = None;
    let finding = inspector.walk(&mut |visit| match visit {
        Visit::Record { record, .. } if record.start == lsn => {
            found = Some(out.write_all(&record.data).and_then(|()| out.flush()));
            false
        }
        Visit::Record { record, .. } => record.start < lsn,
        _ => true,
    })?;
    match found {
        Some(result) => {
            result?;
            Ok(End::Done)
        }
        None if lsn < inspector.summary().front => {
            bail!(
                "LSN {lsn} was truncated: the log begins at LSN {}",
                inspector.summary().front
            )
        }
        None if finding.damages > 0 => {
            bail!(Damaged(format!(
                "no whole record begins at LSN {lsn}, and the log is damaged: see `logforce verify {dir}{salvage}`"
            )))
        }
        None if lsn >= finding.end => {
            bail!(
                "LSN {lsn} lies beyond the end of the log at LSN {}",
                finding.end
            )
        }
        None => bail!(
            "no record begins at LSN {lsn}, or it was voided: `logforce dump {dir} --records{salvage}` lists all records"
        ),
    }
}
