//! `logforce verify` of a page file: the report. The checks are in `pages/src/inspect/`.

use super::info::{DamageInfo, FileInfo, WalkInfo, found, header, kind, next_opening, state};
use crate::exit::End;
use crate::log_args::{LogArgs, places_of};
use crate::output::print;
use crate::progress::Walk;
use logforce::pages::inspect::{Damage, FileSummary, NextOpening, VerifyReport, Visit};
use logforce_terminal::numbers::bytes;
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Largest number of damaged places that are reported one by one.
const REPORTED: usize = 10_000;

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    version: u32,
    file: FileInfo,
    healthy: bool,
    #[serde(flatten)]
    walk: WalkInfo,
    seconds: f64,
    damage: &'a [DamageInfo],
}

/// Checks and reports.
pub fn run(args: &LogArgs) -> anyhow::Result<End> {
    let sinks = args.sinks()?;
    let inspector = super::inspector(args)?;
    let summary = inspector.summary()?;
    let mut walk = Walk::begin("checking", 0, summary.bytes, true);
    let mut damages = Vec::new();
    let start = Instant::now();
    let walked = inspector.walk(&mut |visit| {
        match visit {
            Visit::Page(page) => walk.at(page.offset),
            Visit::Damage(damage) if damages.len() < REPORTED => damages.push(damage.clone()),
            _ => {}
        }
        true
    });
    let took = start.elapsed();
    drop(walk);
    let report = walked?;
    let text = text(args, &summary, &report, &damages, took);
    print(&text, sinks.stdout_has_data)?;
    let damage: Vec<DamageInfo> = damages.iter().map(DamageInfo::from).collect();
    if let Some(mut out) = sinks.json {
        let report = Report {
            schema: "logforce-pages-verify",
            version: 1,
            file: FileInfo::new(&args.dir, &summary),
            healthy: is_healthy(&report),
            walk: WalkInfo::new(&report),
            seconds: took.as_secs_f64(),
            damage: &damage,
        };
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    if let Some(out) = sinks.csv {
        let mut csv = csv::WriterBuilder::new()
            .has_headers(false)
            .from_writer(out);
        csv.write_record(["what", "page", "file", "offset", "found", "refused"])?;
        for damage in &damage {
            csv.serialize(damage)?;
        }
        csv.flush()?;
    }
    Ok(match is_healthy(&report) {
        true => End::Done,
        false => End::Damaged,
    })
}

pub(super) fn is_healthy(report: &VerifyReport) -> bool {
    report.damages == 0 && !matches!(report.next_opening, NextOpening::Refused(_))
}

fn text(
    args: &LogArgs,
    s: &FileSummary,
    r: &VerifyReport,
    damages: &[Damage],
    took: Duration,
) -> String {
    let state = state(r);
    let mut text = format!(
        "page file {} in {}: {state}; {}, {}\nheader: {}\n",
        s.header.id,
        args.dir.display(),
        kind(&s.header),
        match s.in_use {
            true => "open in a process",
            false => "not open",
        },
        header(s)
    );
    for damage in damages {
        text.push_str(&format!("DAMAGE {damage}\n"));
    }
    let unlisted = r.damages.saturating_sub(damages.len() as u64);
    if unlisted > 0 {
        text.push_str(&format!("DAMAGE in {} more\n", places_of(unlisted)));
    }
    text.push_str(&found(r));
    text.push_str(&format!("the next opening {}\n", next_opening(s, r)));
    let seconds = took.as_secs_f64();
    text.push_str(&format!(
        "checked {} in {seconds:.3} s ({:.2} GB/s)\n{state}\n",
        bytes(r.checked_bytes),
        r.checked_bytes as f64 / 1e9 / seconds.max(1e-9)
    ));
    if !is_healthy(r) {
        text.push_str("next: restore the page file from a backup\n");
    }
    text
}
