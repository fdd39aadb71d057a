//! `logforce stat` of a page file.

use super::info::{FileInfo, OPEN_NOW, WalkInfo, found, header, kind, next_opening};
use super::verify::is_healthy;
use crate::exit::End;
use crate::log_args::{LogArgs, places_of};
use crate::output::{complain, print};
use crate::progress::Walk;
use logforce::pages::inspect::{FileSummary, PageFileKind, VerifyReport, Visit};
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    file: FileInfo,
    next_opening_reads_at_most: Option<u64>,
    scan: Option<WalkInfo>,
}

#[derive(Serialize)]
struct FileLine {
    file: &'static str,
    bytes: u64,
}

/// Summarises.
pub fn run(args: &LogArgs, scan: bool) -> anyhow::Result<End> {
    let sinks = args.sinks()?;
    let inspector = super::inspector(args)?;
    let summary = inspector.summary()?;
    let walked = match scan {
        true => {
            let mut walk = Walk::begin("reading", 0, summary.bytes, true);
            Some(inspector.walk(&mut |visit| {
                if let Visit::Page(page) = visit {
                    walk.at(page.offset);
                }
                true
            })?)
        }
        false => None,
    };
    print(
        &text(args, &summary, walked.as_ref()),
        sinks.stdout_has_data,
    )?;
    if let Some(mut out) = sinks.json {
        let report = Report {
            schema: "logforce-pages-stat",
            version: 1,
            file: FileInfo::new(&args.dir, &summary),
            next_opening_reads_at_most: to_read(&summary),
            scan: walked.as_ref().map(WalkInfo::new),
        };
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    if let Some(out) = sinks.csv {
        let mut csv = csv::Writer::from_writer(out);
        for file in files(&summary) {
            csv.serialize(file)?;
        }
        csv.flush()?;
    }
    match walked {
        Some(report) if !is_healthy(&report) => {
            complain(&format!("DAMAGED in {}", places_of(report.damages)));
            Ok(End::Damaged)
        }
        _ => Ok(End::Done),
    }
}

/// Returns the number of bytes of log that the next opening reads at most, if that is known.
fn to_read(s: &FileSummary) -> Option<u64> {
    match (s.header.kind, &s.log) {
        (PageFileKind::Logged(state), Some(Ok(log))) => {
            Some(log.prepared_end.0.saturating_sub(state.redo_from.0))
        }
        _ => None,
    }
}

fn files(s: &FileSummary) -> Vec<FileLine> {
    let file = |file, bytes| FileLine { file, bytes };
    let log = s.log.as_ref().and_then(|log| log.as_ref().ok());
    let log = log.map(|log| {
        let segments = log.segments.iter().map(|s| s.len);
        segments.chain(log.spares.iter().map(|s| s.1)).sum()
    });
    [
        Some(("pages", s.bytes)),
        s.map_bytes.map(|n| ("map", n)),
        log.map(|n| ("log", n)),
    ]
    .into_iter()
    .flatten()
    .map(|(name, bytes)| file(name, bytes))
    .collect()
}

fn text(args: &LogArgs, s: &FileSummary, walked: Option<&VerifyReport>) -> String {
    let mut text = String::new();
    let mut line = |what: &str, value: String| {
        text.push_str(&format!("{what:<18} {value}\n"));
    };
    let h = &s.header;
    line("page file", h.id.to_string());
    line("directory", args.dir.display().to_string());
    line("kind", kind(h));
    line(
        "state",
        match s.in_use {
            true => "open in a process",
            false => "not open",
        }
        .to_owned(),
    );
    line("header", header(s));
    line(
        "data file",
        format!("{}, up to commit {}", count(h.page_count, "page"), h.commit),
    );
    match h.kind {
        PageFileKind::CopyOnWrite(root) => line(
            "page table",
            format!(
                "{}, {} in use or free",
                count(u64::from(root.depth), "level"),
                count(root.places_end, "place")
            ),
        ),
        PageFileKind::Logged(state) => line("redo from", format!("LSN {}", state.redo_from)),
    }
    match &s.log {
        None => {}
        Some(Err(e)) => line("log", format!("CANNOT BE USED: {e}")),
        Some(Ok(log)) => line(
            "log",
            format!(
                "{}, front at LSN {}, {}",
                log.log_id,
                log.front,
                match (log.in_use, log.clean) {
                    (true, _) => "open for writing",
                    (false, true) => "closed cleanly",
                    (false, false) => "not closed cleanly",
                }
            ),
        ),
    }
    match (to_read(s), walked) {
        (_, Some(report)) => line("next opening", next_opening(s, report)),
        _ if s.in_use => line("next opening", OPEN_NOW.to_owned()),
        (Some(most), None) => line(
            "next opening",
            format!("reads at most {} of log", bytes(most)),
        ),
        (None, None) if s.log.is_none() => line("next opening", "reads the page table".to_owned()),
        (None, None) => line("next opening", "fails: see `logforce verify`".to_owned()),
    }
    for (number, file) in files(s).iter().enumerate() {
        let name = if number == 0 { "files" } else { "" };
        line(name, format!("{:<6} {}", file.file, bytes(file.bytes)));
    }
    if let Some(report) = walked {
        for (number, found) in found(report).lines().enumerate() {
            line(if number == 0 { "scan" } else { "" }, found.to_owned());
        }
    }
    text
}
