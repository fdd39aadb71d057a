//! `logforce archive list`.

use super::state::unproven_text;
use super::times::{age, date};
use super::{ArchiveArgs, failed, log_of, times};
use crate::exit::End;
use crate::output::{complain, terminal_width};
use anyhow::bail;
use logforce_archive::Contents;
use logforce_terminal::layout::labelled;
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;
use std::path::{Path, PathBuf};

const MORE: &str = "\
Times are UTC, by the clock of the machine that writes the archive. A restore to a time needs that clock to
be right; a note says so if it is not. With --log, shows what would be lost with the machine now; a few KiB
without a record may remain when everything is archived.";

/// Shows what can be restored.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// The directory of the log or page file: show how far the archive is behind it
    #[arg(long, value_name = "LOGDIR")]
    log: Option<PathBuf>,
}

#[derive(Serialize)]
struct Result {
    log_id: String,
    created: String,
    encrypted: bool,
    /// Position below which nothing can be restored.
    start: u64,
    front: Option<u64>,
    /// Lowest end of a restored log.
    lowest_end: Option<u64>,
    end: Option<u64>,
    oldest: Option<String>,
    newest: Option<String>,
    epoch: u64,
    owner: Option<String>,
    segments: u64,
    chunks: u64,
    marks: Vec<MarkLine>,
    bases: Vec<BaseLine>,
    log: Option<Behind>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct MarkLine {
    name: String,
    lsn: u64,
    made: String,
}

/// Base copy of a page file.
#[derive(Serialize)]
struct BaseLine {
    /// Position from which on the copy needs the log.
    lsn: u64,
    end: u64,
    made: String,
    bytes: u64,
}

/// Distance of the archive from the log.
#[derive(Serialize)]
struct Behind {
    path: String,
    durable: u64,
    behind_bytes: u64,
    unproven_bytes: u64,
    #[serde(skip)]
    was_killed: bool,
}

/// Lists.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let (archive, report) = args.archive.open()?;
    let contents = archive.list().map_err(failed)?;
    let log = args.log.as_deref();
    let log = log
        .map(|log| behind(&log_of(log)?, &contents))
        .transpose()?;
    let mut notes: Vec<String> = times::doubtful_times(&contents).into_iter().collect();
    if contents.is_of_page_file && contents.bases.is_empty() {
        notes.push(
            "the archive is of a page file and has no base copy, so nothing can be restored: make one by \
             `logforce archive base`"
                .to_owned(),
        );
    }
    for note in &notes {
        complain(&format!("note: {note}"));
    }
    let text = text(archive.url(), &contents, log.as_ref());
    let marks = contents.marks.iter().map(|mark| MarkLine {
        name: mark.name.clone(),
        lsn: mark.lsn.0,
        made: date(mark.time),
    });
    let bases = contents.bases.iter().map(|base| BaseLine {
        lsn: base.id.lsn.0,
        end: base.end.0,
        made: date(base.time),
        bytes: base.bytes,
    });
    let result = Result {
        log_id: contents.log_id.to_string(),
        created: date(contents.created),
        encrypted: contents.is_encrypted,
        start: contents.start.0,
        front: contents.front.map(|front| front.0),
        lowest_end: contents.lowest_end.map(|end| end.0),
        end: contents.end.map(|end| end.0),
        oldest: contents.oldest.map(date),
        newest: contents.newest.map(date),
        epoch: contents.epoch.0,
        owner: contents.owner.clone(),
        segments: contents.segments,
        chunks: contents.chunks,
        marks: marks.collect(),
        bases: bases.collect(),
        log,
        notes,
    };
    report.finish(&archive, "logforce-archive-list", &text, result)?;
    Ok(End::Done)
}

fn behind(dir: &Path, contents: &Contents) -> anyhow::Result<Behind> {
    let mut log = logforce::replica::read_only(dir, None)?;
    if log.log_id() != contents.log_id {
        bail!(
            "the archive belongs to log {}, and {} holds log {}: name the directory of that log",
            contents.log_id,
            dir.display(),
            log.log_id()
        );
    }
    let durable = log.state()?.end;
    Ok(Behind {
        path: dir.display().to_string(),
        durable: durable.0,
        behind_bytes: durable.since(contents.end.unwrap_or(contents.start)),
        unproven_bytes: log.written_lsn().since(durable),
        was_killed: !log.is_in_use(),
    })
}

fn text(url: &str, contents: &Contents, log: Option<&Behind>) -> String {
    let c = contents;
    let mut lines = vec![
        (
            "archive",
            format!(
                "{url}, of log {}, {}",
                c.log_id,
                match c.is_encrypted {
                    true => "encrypted",
                    false => "not encrypted",
                }
            ),
        ),
        (
            "created",
            format!("{}, {} ago", date(c.created), age(c.created)),
        ),
    ];
    match c.end {
        Some(end) => lines.push((
            "restores to",
            format!(
                "LSN {} to {end}, {} of log; the newest state begins at LSN {}",
                c.lowest_end.unwrap_or(c.start),
                bytes(end.since(c.start)),
                c.front.unwrap_or(c.start)
            ),
        )),
        None => lines.push(("restores to", "nothing: it is empty".to_owned())),
    }
    if let (Some(oldest), Some(newest)) = (c.oldest, c.newest) {
        lines.push((
            "from",
            format!("{} to {}, {} ago", date(oldest), date(newest), age(newest)),
        ));
    }
    lines.push((
        "owner",
        match &c.owner {
            Some(owner) => format!("'{owner}', epoch {}", c.epoch.0),
            None => format!("unknown, epoch {}", c.epoch.0),
        },
    ));
    lines.push((
        "objects",
        format!(
            "{}, {}",
            count(c.segments, "segment"),
            count(c.chunks, "chunk or seal").replace("chunk or seals", "chunks or seals")
        ),
    ));
    for base in &c.bases {
        lines.push((
            "base copy",
            format!(
                "of a page file, {}, for LSN {} and later, made {}",
                bytes(base.bytes),
                base.end,
                date(base.time)
            ),
        ));
    }
    for mark in &c.marks {
        lines.push((
            "mark",
            format!(
                "'{}' at LSN {}, made {}",
                mark.name,
                mark.lsn,
                date(mark.time)
            ),
        ));
    }
    if let Some(log) = log {
        lines.push((
            "behind",
            format!(
                "{} of log: {} is durable up to LSN {}",
                bytes(log.behind_bytes),
                log.path,
                log.durable
            ),
        ));
        if log.unproven_bytes > 0 {
            let more = bytes(log.unproven_bytes);
            lines.push((
                "",
                format!("and {more} more: {}", unproven_text(log.was_killed)),
            ));
        }
    }
    let lines = lines
        .iter()
        .map(|(label, value)| labelled(label, value, 13, terminal_width(false)));
    lines.collect()
}
