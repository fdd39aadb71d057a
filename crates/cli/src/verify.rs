//! `logforce verify`.

use crate::directory;
use crate::exit::End;
use crate::log_args::{
    DamageInfo, LogArgs, LogInfo, control_file, explain, metadata, places_of, refusal,
    unknown_bounds,
};
use crate::output::print;
use crate::pages;
use crate::progress::Walk;
use logforce::{
    Error, ErrorKind,
    inspect::{Damage, LogSummary, VerifyReport, Visit},
};
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Number of passes over a log in use before apparent damage counts as damage.
const LOOKS: usize = 3;
/// Largest number of damaged places that are reported one by one.
const TOLD: usize = 10_000;

const MORE: &str = "\
Reads every batch from the first segment to the end of the log, and checks its checksums, its link to the
batch before it, and its records. Truncated records do not count as damage, nor does what a crash left
after the last acknowledged record. A log may be checked while a program writes it.

For a page file, checks its header, its page table or map, every page, and the log of a logged one. While
a process writes it, pages that are being written are not checked; the report says how many.

Exit status: 0 healthy, 1 damaged, 2 unusable arguments, 4 it could not be read, so nothing is known.";

/// Checks a log or a page file.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    log: LogArgs,
}

/// Results of one pass over the log.
struct Look {
    summary: LogSummary,
    finding: VerifyReport,
    damages: Vec<Damage>,
    /// Number of bytes of whole batches.
    scanned: u64,
    took: Duration,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    version: u32,
    log: LogInfo,
    healthy: bool,
    end: u64,
    case: &'static str,
    why: &'static str,
    proven_to: u64,
    batches: u64,
    records: u64,
    record_bytes: u64,
    voided: u64,
    scanned_bytes: u64,
    seconds: f64,
    damages: u64,
    damage: &'a [DamageInfo],
}

/// Checks and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    let args = args.log;
    if directory::is_page_file(&args.dir)? {
        return pages::verify::run(&args);
    }
    let sinks = args.sinks()?;
    let mut looks = 0;
    let look = loop {
        looks += 1;
        let look = look(&args)?;
        if look.finding.damages == 0 || !look.summary.in_use || looks == LOOKS {
            break look;
        }
    };
    let damages: Vec<DamageInfo> = look.damages.iter().map(DamageInfo::from).collect();
    // By its segments alone, a log may look healthy that cannot be opened.
    let refused = match args.salvage {
        true => match logforce::inspect::open(&args.dir) {
            // For lack of descriptors or memory, for example. That says nothing about the log.
            Err(e) if e.kind() == ErrorKind::Io => return Err(e.into()),
            looked => looked.err(),
        },
        false => None,
    };
    print(&text(&args, &look, refused.as_ref()), sinks.stdout_has_data)?;
    if let Some(mut out) = sinks.json {
        serde_json::to_writer_pretty(&mut out, &report(&args, &look, refused.as_ref(), &damages))
            .map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    if let Some(out) = sinks.csv {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(["lsn", "case", "file", "offset", "found", "durable_to"])?;
        let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(
            csv.into_inner()
                .map_err(|e| std::io::Error::new(e.error().kind(), e.error().to_string()))?,
        );
        for damage in &damages {
            csv.serialize(damage)?;
        }
        csv.flush()?;
    }
    Ok(if is_healthy(&look, refused.as_ref()) {
        End::Done
    } else {
        End::Damaged
    })
}

fn look(args: &LogArgs) -> anyhow::Result<Look> {
    let inspector = args.inspector()?;
    let summary = inspector.summary();
    let from = summary.segments.first().map_or(0, |s| s.start.0);
    let mut walk = Walk::begin("checking", from, summary.prepared_end.0, true);
    let (mut damages, mut scanned) = (Vec::new(), 0);
    let start = Instant::now();
    let finding = inspector.walk(&mut |visit| {
        match visit {
            Visit::Batch(batch) => {
                scanned += batch.end.since(batch.lsn);
                walk.at(batch.end.0);
            }
            Visit::Damage(damage) if damages.len() < TOLD => damages.push(damage.clone()),
            _ => {}
        }
        true
    });
    let took = start.elapsed();
    drop(walk);
    let mut finding = finding?;
    // A place that was truncated and whose file was reused during the pass is not damaged.
    if summary.in_use
        && !damages.is_empty()
        && let Some(first) = logforce::inspect::open(&args.dir)?
            .summary()
            .segments
            .first()
    {
        let before = damages.len();
        // Damage of the metadata stays, because the metadata is never truncated.
        damages.retain(|d| d.lsn >= first.start || d.file.as_deref() == Some("control"));
        finding.damages -= (before - damages.len()) as u64;
    }
    Ok(Look {
        summary,
        finding,
        damages,
        scanned,
        took,
    })
}

/// Returns true if no damage was found. A log with unknown bounds is not healthy: it may be only a part.
fn is_healthy(look: &Look, refused: Option<&Error>) -> bool {
    look.finding.damages == 0 && refused.is_none() && look.summary.bounds_known
}

fn report<'a>(
    args: &LogArgs,
    look: &Look,
    refused: Option<&Error>,
    damage: &'a [DamageInfo],
) -> Report<'a> {
    let f = &look.finding;
    Report {
        schema: "logforce-verify",
        version: 1,
        log: LogInfo::new(&args.dir, &look.summary),
        healthy: is_healthy(look, refused),
        end: f.end.0,
        case: f.case.label(),
        why: explain(f.case),
        proven_to: f.proven_to.0,
        batches: f.batches,
        records: f.records,
        record_bytes: f.record_bytes,
        voided: f.voided,
        scanned_bytes: look.scanned,
        seconds: look.took.as_secs_f64(),
        damages: f.damages,
        damage,
    }
}

fn text(args: &LogArgs, look: &Look, refused: Option<&Error>) -> String {
    let (f, s) = (&look.finding, &look.summary);
    let mut text = format!(
        "log {} in {}: {}; {}, {}, {}, control file {}\n",
        s.log_id,
        args.dir.display(),
        state(look, refused),
        count(s.segments.len() as u64, "segment"),
        match s.bounds_known {
            true => format!("front at LSN {}", s.front),
            false => "front UNKNOWN".to_owned(),
        },
        if s.in_use {
            "open for writing"
        } else if !s.bounds_known {
            "whether closed cleanly UNKNOWN"
        } else if s.clean {
            "closed cleanly"
        } else {
            "not closed cleanly"
        },
        control_file(&args.dir, s)
    );
    if let Some(metadata) = metadata(s) {
        text.push_str(&format!("metadata: {metadata}\n"));
    }
    if let Some(unknown) = unknown_bounds(s) {
        text.push_str(&format!("UNKNOWN: {unknown}\n"));
    }
    for damage in &look.damages {
        text.push_str(&format!("DAMAGE {damage}\n"));
    }
    let unlisted = f.damages.saturating_sub(look.damages.len() as u64);
    if unlisted > 0 {
        text.push_str(&format!("DAMAGE in {} more\n", places_of(unlisted)));
    }
    text.push_str(&format!(
        "{} ({}) in {}{}; known to be durable up to LSN {}\n",
        count(f.records, "record"),
        bytes(f.record_bytes),
        count(f.batches, "batch"),
        match f.voided {
            0 => String::new(),
            n => format!(", {n} more voided"),
        },
        f.proven_to
    ));
    text.push_str(&format!(
        "ends at LSN {}, {}: {}\n",
        f.end,
        f.case.label(),
        explain(f.case)
    ));
    let seconds = look.took.as_secs_f64();
    text.push_str(&format!(
        "checked {} in {seconds:.3} s ({:.2} GB/s)\n",
        bytes(look.scanned),
        look.scanned as f64 / 1e9 / seconds.max(1e-9)
    ));
    text.push_str(&match (f.damages, refused) {
        (0, Some(e)) => {
            format!(
                "DAMAGED: the contents of the segments found are whole, but the log cannot be opened: {}\n",
                refusal(e)
            )
        }
        _ => state(look, refused) + "\n",
    });
    if !is_healthy(look, refused) {
        text.push_str(&next_step(args, look));
    }
    text
}

/// Returns the next step for a damaged log.
fn next_step(args: &LogArgs, look: &Look) -> String {
    let dir = args.dir.display();
    let then = match look.summary.bounds_known {
        true => format!(
            "or, if `logforce repair {dir} --dry-run` offers it, end the log before the damage"
        ),
        false => "or continue with NEW".to_owned(),
    };
    format!(
        "next: `logforce salvage {dir} NEW` saves all records that can be read. Then restore a backup, {then}\n"
    )
}

/// Returns the state in a few words, for the first line of the report.
fn state(look: &Look, refused: Option<&Error>) -> String {
    match (look.finding.damages, refused) {
        (0, None) if !look.summary.bounds_known => {
            "DAMAGED: no control file could be used".to_owned()
        }
        (0, Some(_)) => "DAMAGED: it cannot be opened".to_owned(),
        (0, None) => "healthy".to_owned(),
        (n, _) => format!("DAMAGED in {}", places_of(n)),
    }
}
