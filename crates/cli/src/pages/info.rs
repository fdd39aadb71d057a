//! The header of a page file and the results of a walk, as JSON and in words.

use crate::log_args::{LogInfo, places_of};
use logforce::pages::inspect::{
    Damage, FileSummary, HeaderSlot, NextOpening, PageFileHeader, PageFileKind, RedoSummary,
    TableSummary, VerifyReport,
};
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;
use std::path::Path;

/// Contents of the header, as JSON.
#[derive(Debug, Serialize)]
pub struct FileInfo {
    path: String,
    id: String,
    kind: &'static str,
    page_size: u32,
    checksums: bool,
    in_use: bool,
    sequence: u64,
    commit: u64,
    page_count: u64,
    slots: Vec<SlotInfo>,
    bytes: u64,
    map_bytes: Option<u64>,
    redo_from: Option<u64>,
    log: Option<LogInfo>,
    log_unusable: Option<String>,
}

/// A header slot, as JSON.
#[derive(Debug, Serialize)]
pub struct SlotInfo {
    offset: u64,
    in_force: bool,
    sequence: Option<u64>,
    commit: Option<u64>,
    page_count: Option<u64>,
    found: Option<String>,
}

impl SlotInfo {
    fn new(slot: &HeaderSlot) -> Self {
        let header = slot.header.ok();
        SlotInfo {
            offset: slot.offset,
            in_force: slot.in_force,
            sequence: header.map(|h| h.sequence),
            commit: header.map(|h| h.commit),
            page_count: header.map(|h| h.page_count),
            found: slot.header.err().map(|e| e.to_string()),
        }
    }
}

impl FileInfo {
    /// Builds it from an inspection.
    pub fn new(dir: &Path, s: &FileSummary) -> Self {
        let h = &s.header;
        let log = s.log.as_ref();
        FileInfo {
            path: dir.display().to_string(),
            id: h.id.to_string(),
            kind: h.kind.name(),
            page_size: h.page_size,
            checksums: h.checksums,
            in_use: s.in_use,
            sequence: h.sequence,
            commit: h.commit,
            page_count: h.page_count,
            slots: s.slots.iter().map(SlotInfo::new).collect(),
            bytes: s.bytes,
            map_bytes: s.map_bytes,
            redo_from: match h.kind {
                PageFileKind::Logged(state) => Some(state.redo_from.0),
                PageFileKind::CopyOnWrite(_) => None,
            },
            log: log
                .and_then(|log| log.as_ref().ok())
                .map(|log| LogInfo::new(&dir.join("log"), log)),
            log_unusable: log
                .and_then(|log| log.as_ref().err())
                .map(ToString::to_string),
        }
    }
}

/// Results of a walk, as JSON.
#[derive(Debug, Serialize)]
pub struct WalkInfo {
    commit: u64,
    page_count: u64,
    present: u64,
    in_log: Option<u64>,
    in_use: u64,
    unreachable: u64,
    checked_bytes: u64,
    redo: Option<RedoJson>,
    table: Option<TableJson>,
    next_opening: &'static str,
    refused_why: Option<String>,
    damages: u64,
}

#[derive(Debug, Serialize)]
struct RedoJson {
    from: u64,
    to: u64,
    commits: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct TableJson {
    nodes: u64,
    depth: u32,
    places: u64,
    free: Option<u64>,
}

impl WalkInfo {
    /// Builds it from the results of a walk.
    pub fn new(r: &VerifyReport) -> Self {
        let (next_opening, refused_why) = match &r.next_opening {
            NextOpening::Ready => ("ready", None),
            NextOpening::Redoes { .. } => ("redoes", None),
            NextOpening::Refused(why) => ("refused", Some(why.clone())),
        };
        WalkInfo {
            commit: r.commit,
            page_count: r.page_count,
            present: r.present,
            in_log: r.redo.map(|redo| redo.pages),
            in_use: r.in_use,
            unreachable: r.unreachable,
            checked_bytes: r.checked_bytes,
            redo: r.redo.map(|redo| RedoJson {
                from: redo.from.0,
                to: redo.to.0,
                commits: redo.commits,
                bytes: redo.bytes,
            }),
            table: r.table.map(|table| TableJson {
                nodes: table.nodes,
                depth: table.depth,
                places: table.places,
                free: table.free,
            }),
            next_opening,
            refused_why,
            damages: r.damages,
        }
    }
}

/// A damaged place, as JSON and as a line of CSV.
#[derive(Debug, Serialize)]
pub struct DamageInfo {
    what: String,
    page: Option<u64>,
    file: String,
    offset: u64,
    found: String,
    refused: bool,
}

impl From<&Damage> for DamageInfo {
    fn from(d: &Damage) -> Self {
        DamageInfo {
            what: d.what.clone(),
            page: d.page,
            file: d.file.clone(),
            offset: d.offset,
            found: d.found.clone(),
            refused: d.refused,
        }
    }
}

/// Describes the properties that the file was created with.
pub fn kind(h: &PageFileHeader) -> String {
    format!(
        "{}, pages of {} with{} checksums",
        h.kind.name(),
        bytes(h.page_size.into()),
        if h.checksums { "" } else { "out" }
    )
}

/// Describes the header slots in words.
pub fn header(s: &FileSummary) -> String {
    let broken = s.slots.iter().find_map(|slot| {
        let reject = slot.header.err()?;
        Some((slot.offset, reject))
    });
    match broken {
        None => format!("both slots whole, sequence {}", s.header.sequence),
        Some((offset, reject)) => format!(
            "sequence {}; the slot at byte {offset} cannot be used ({reject}): this is normal after a crash \
             during its write; otherwise the other slot may be older than the last acknowledged commit",
            s.header.sequence
        ),
    }
}

/// Describes the results of a walk, in lines.
pub fn found(r: &VerifyReport) -> String {
    let mut text = format!(
        "{} of {} written, up to commit {}\n",
        r.present,
        count(r.page_count, "page"),
        r.commit
    );
    if let Some(redo) = &r.redo {
        text.push_str(&redo_words(redo));
    }
    if let Some(table) = &r.table {
        text.push_str(&table_words(table));
    }
    if r.unreachable > 0 {
        text.push_str(&format!(
            "{} in the map at or above the number of pages: not part of the file\n",
            count(r.unreachable, "page")
        ));
    }
    if r.in_use > 0 {
        text.push_str(&format!(
            "IN USE: {} being written, not checked\n",
            count(r.in_use, "place")
        ));
    }
    text
}

fn redo_words(redo: &RedoSummary) -> String {
    match redo.commits {
        0 => format!("log: nothing to redo after LSN {}\n", redo.from),
        commits => format!(
            "log: {} ({}) from LSN {} to {}, with the newest version of {}\n",
            count(commits, "commit"),
            bytes(redo.bytes),
            redo.from,
            redo.to,
            count(redo.pages, "page")
        ),
    }
}

fn table_words(table: &TableSummary) -> String {
    let free = match table.free {
        Some(free) => format!("{} of {} free", free, count(table.places, "place")),
        None => format!(
            "{}, the number of free ones is not known",
            count(table.places, "place")
        ),
    };
    format!(
        "page table: {} in {}; {free}\n",
        count(table.nodes, "node"),
        count(u64::from(table.depth), "level")
    )
}

/// Result of the next opening while the file is open.
pub const OPEN_NOW: &str = "fails as long as a process has it open";

/// Describes what the next opening does.
pub fn next_opening(s: &FileSummary, r: &VerifyReport) -> String {
    let does = match &r.next_opening {
        NextOpening::Ready => "has nothing to redo".to_owned(),
        NextOpening::Redoes { commits, bytes: n } => format!(
            "redoes {}, from {} of log",
            count(*commits, "commit"),
            bytes(*n)
        ),
        NextOpening::Refused(why) => format!("fails: {why}"),
    };
    match s.in_use {
        true => format!("{OPEN_NOW}; if that process died now, the next one {does}"),
        false => does,
    }
}

/// Returns the state in a few words, for the first line of a report.
pub fn state(r: &VerifyReport) -> String {
    match (r.damages, r.in_use) {
        (0, 0) => "healthy".to_owned(),
        (0, n) => format!("healthy but for {} IN USE, not checked", count(n, "place")),
        (n, _) => format!("DAMAGED in {}", places_of(n)),
    }
}
