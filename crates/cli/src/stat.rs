//! `logforce stat`.

use crate::bench::os::host;
use crate::directory;
use crate::exit::End;
use crate::live::{LiveInfo, Source};
use crate::log_args::{
    LogArgs, LogInfo, SegmentLine, control_file, explain, files, is_overtaken, metadata, places_of,
    unknown_bounds,
};
use crate::output::{complain, print};
use crate::pages;
use crate::progress::Walk;
use logforce::{
    Lsn,
    disk::calibration,
    inspect::{LogSummary, Visit},
};
use logforce_measure::doctor::next::Next;
use logforce_terminal::layout::{WIDTH, wrap};
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

const MORE: &str = "\
Without --scan, reads only the control file, the headers of the segments, and the page of statistics that
a running log writes about once a second. Locks nothing. --json writes one object, --csv one line for each
file of the log. Of a page file, reads the header and the log's control file.

Exit status: 0 summarised, 1 damaged (only --scan checks the records or pages), 2 unusable arguments,
4 it could not be read.";

/// Summarises a log or a page file.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// Also read all of it: count the records or pages, and find damage
    #[arg(long)]
    scan: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    log: LogInfo,
    /// Largest number of bytes that the next opening reads.
    next_opening_scans_at_most: u64,
    /// Method that the next opening uses if it names none, and its guarantee; null if the system
    /// cannot be asked about the directory.
    next_method: Option<Next>,
    /// Statistics that the log wrote about itself; null if there are none.
    live: Option<LiveInfo>,
    scan: Option<Scan>,
    files: Vec<SegmentLine>,
    /// Facts about this machine that make its times doubtful.
    notes: Vec<String>,
}

/// Results of reading the log.
#[derive(Serialize)]
struct Scan {
    end: u64,
    case: &'static str,
    #[serde(skip)]
    why: &'static str,
    proven_to: u64,
    batches: u64,
    records: u64,
    record_bytes: u64,
    voided: u64,
    oldest: Option<u64>,
    newest: Option<u64>,
    damages: u64,
}

/// Summarises.
pub fn run(args: Args) -> anyhow::Result<End> {
    let (scan, args) = (args.scan, args.log);
    if directory::is_page_file(&args.dir)? {
        return pages::stat::run(&args, scan);
    }
    let sinks = args.sinks()?;
    let inspector = args.inspector()?;
    let summary = inspector.summary();
    let scan = match scan {
        false => None,
        true => {
            let (mut oldest, mut newest): (Option<Lsn>, Option<Lsn>) = (None, None);
            let mut damages = 0_u64;
            let from = summary.segments.first().map_or(0, |s| s.start.0);
            let mut walk = Walk::begin("reading", from, summary.prepared_end.0, true);
            let found = inspector.walk(&mut |visit| {
                match visit {
                    Visit::Batch(batch) => walk.at(batch.end.0),
                    Visit::Record { record, .. } => {
                        oldest.get_or_insert(record.start);
                        newest = Some(record.start);
                    }
                    Visit::Damage(d) if summary.in_use && is_overtaken(&args.dir, d) => {}
                    Visit::Damage(_) => damages += 1,
                    Visit::Part(_) => {}
                }
                true
            })?;
            Some(Scan {
                end: found.end.0,
                case: found.case.label(),
                why: explain(found.case),
                proven_to: found.proven_to.0,
                batches: found.batches,
                records: found.records,
                record_bytes: found.record_bytes,
                voided: found.voided,
                oldest: oldest.map(|l| l.0),
                newest: newest.map(|l| l.0),
                damages,
            })
        }
    };
    let report = Report {
        schema: "logforce-stat",
        version: 1,
        log: LogInfo::new(&args.dir, &summary),
        next_opening_scans_at_most: to_scan(&summary, scan.as_ref()),
        // Only results stored with the log count, because only a program names a cache.
        next_method: calibration::known(&args.dir, None)
            .ok()
            .map(|known| Next::new(&known)),
        live: inspector
            .live()
            .map(|live| LiveInfo::new(&live, Source::of(&live, &summary))),
        scan,
        files: files(&summary),
        notes: host().caveat.into_iter().collect(),
    };
    let shown = report.notes.iter().map(|n| wrap(n, WIDTH, 0) + "\n");
    let shown: String = shown.chain([text(&args.dir, &summary, &report)]).collect();
    print(&shown, sinks.stdout_has_data)?;
    if let Some(mut out) = sinks.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    if let Some(out) = sinks.csv {
        let mut csv = csv::Writer::from_writer(out);
        for file in &report.files {
            csv.serialize(file)?;
        }
        csv.flush()?;
    }
    // As in verify and dump.
    let damages = report.scan.as_ref().map_or(0, |scan| scan.damages);
    Ok(match damages {
        0 => End::Done,
        n => {
            complain(&format!("DAMAGED in {}", places_of(n)));
            End::Damaged
        }
    })
}

fn to_scan(summary: &LogSummary, scan: Option<&Scan>) -> u64 {
    if summary.clean {
        return 0;
    }
    let end = scan.map_or(summary.prepared_end, |s| Lsn(s.end));
    end.since(summary.anchor)
}

fn text(dir: &Path, i: &LogSummary, report: &Report) -> String {
    let log = &report.log;
    let mut text = String::new();
    let mut line = |what: &str, value: String| {
        text.push_str(&format!("{what:<18} {value}\n"));
    };
    line("log", log.log_id.clone());
    line("directory", log.path.clone());
    line(
        "state",
        match (i.in_use, i.clean) {
            (true, _) => "open for writing",
            _ if !i.bounds_known => "the next opening refuses it: no control file can be used",
            (false, true) => "closed cleanly",
            (false, false) => "not closed cleanly: the next opening recovers it",
        }
        .to_owned(),
    );
    let control = control_file(dir, i);
    line("control file", control.to_owned());
    if let Some(metadata) = metadata(i) {
        line("metadata", metadata);
    }
    line("epoch", format!("{} (opening and nonce)", i.epoch));
    if let Some(unknown) = unknown_bounds(i) {
        line("UNKNOWN", unknown);
    } else {
        line("front", format!("LSN {}", i.front));
        line("durable to", format!("LSN {} at least", i.anchor));
        line("prepared to", format!("LSN {}", i.prepared_end));
    }
    let mut units: Vec<u32> = i.segments.iter().map(|s| s.write_unit).collect();
    units.sort_unstable();
    units.dedup();
    let units: Vec<String> = units.iter().map(u32::to_string).collect();
    let units = match units.as_slice() {
        [] => "not known: no segment has a valid header".to_owned(),
        some => format!("{} bytes", some.join(", ")),
    };
    line("write unit", units);
    line(
        "on disk",
        format!(
            "{} in {} and {}",
            bytes(log.bytes),
            count(log.segments, "segment"),
            count(log.spares, "spare")
        ),
    );
    line(
        "next opening",
        match i.bounds_known {
            true => format!("scans at most {}", bytes(report.next_opening_scans_at_most)),
            false => "refuses: save the records with `logforce salvage`".to_owned(),
        },
    );
    if let Some(next) = &report.next_method {
        line("method", next.sentences());
        if let Some(seen) = next.seen_in_use {
            line("seen in use", seen.to_owned());
        }
    }
    if let Some(scan) = &report.scan {
        line(
            "records",
            format!(
                "{} ({}) in {}, {} more voided",
                scan.records,
                bytes(scan.record_bytes),
                count(scan.batches, "batch"),
                scan.voided
            ),
        );
        if let (Some(oldest), Some(newest)) = (scan.oldest, scan.newest) {
            line("oldest, newest", format!("LSN {oldest}, LSN {newest}"));
        }
        line(
            "ends",
            format!("LSN {}, {}: {}", scan.end, scan.case, scan.why),
        );
        line("proven to", format!("LSN {}", scan.proven_to));
        if scan.damages > 0 {
            line(
                "DAMAGED",
                format!("in {}: see `logforce verify`", places_of(scan.damages)),
            );
        }
    }
    for (what, value) in report.live.iter().flat_map(LiveInfo::lines) {
        line(what, value);
    }
    for (number, file) in report.files.iter().enumerate() {
        let name = if number == 0 { "files" } else { "" };
        let about = match (&file.start, &file.end, &file.why) {
            (Some(start), Some(end), _) => format!(
                "LSN {start} to {end}, {}, opening {}",
                bytes(file.bytes.unwrap_or(0)),
                file.epoch.as_deref().unwrap_or("?")
            ),
            (_, _, Some(why)) => format!("STRAY: {why}"),
            _ => format!("spare, {}", bytes(file.bytes.unwrap_or(0))),
        };
        line(name, format!("{}  {about}", file.file));
    }
    text
}
