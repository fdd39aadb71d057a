//! `logforce dump` of a page file.

use super::info::FileInfo;
use crate::exit::End;
use crate::listing::Listing;
use crate::log_args::{LogArgs, places_of};
use crate::output::complain;
use crate::progress::Walk;
use logforce::pages::inspect::{
    ChangeInfo, Damage, HeaderSlot, NodeInfo, PageInfo, RedoInfo, Visit,
};
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;
use std::fmt;

/// A line. A field that does not apply is `None`: left out of JSON, empty in CSV.
#[derive(Debug, Default, Serialize)]
struct Line {
    what: &'static str,
    page: Option<u64>,
    file: Option<String>,
    offset: Option<u64>,
    place: Option<u64>,
    crc: Option<String>,
    held: Option<&'static str>,
    level: Option<u32>,
    last: Option<u64>,
    entries: Option<u32>,
    sequence: Option<u64>,
    in_force: Option<bool>,
    commit: Option<u64>,
    page_count: Option<u64>,
    lsn: Option<u64>,
    end: Option<u64>,
    kind: Option<&'static str>,
    bytes: Option<u64>,
    drop_from: Option<u64>,
    at_least: Option<u64>,
    found: Option<String>,
    #[serde(skip)]
    text: String,
}

const DATA: &str = "pages";

impl Line {
    fn header(slot: &HeaderSlot) -> Line {
        let header = slot.header.ok();
        let found = slot.header.err().map(|e| e.to_string());
        let state = match (header, &found) {
            (Some(h), _) => format!(
                "sequence {}, commit {}, {}{}",
                h.sequence,
                h.commit,
                count(h.page_count, "page"),
                if slot.in_force { ", in force" } else { "" }
            ),
            (None, found) => format!("cannot be used: {}", found.as_deref().unwrap_or("?")),
        };
        Line {
            what: "header",
            file: Some(DATA.to_owned()),
            offset: Some(slot.offset),
            sequence: header.map(|h| h.sequence),
            in_force: Some(slot.in_force),
            commit: header.map(|h| h.commit),
            page_count: header.map(|h| h.page_count),
            text: format!("slot at byte {}: {state}", slot.offset),
            found,
            ..Line::default()
        }
    }

    fn redo(redo: &RedoInfo) -> Line {
        let mut text = format!(
            "commit {}, LSN {} to {}: {}",
            redo.commit,
            redo.start,
            redo.end,
            count(redo.changes.len() as u64, "page")
        );
        if let Some(from) = redo.drop_from {
            text.push_str(&format!(", drops the pages from {from} on"));
        }
        if redo.at_least > 0 {
            text.push_str(&format!(", at least {}", count(redo.at_least, "page")));
        }
        Line {
            what: "redo",
            commit: Some(redo.commit),
            lsn: Some(redo.start.0),
            end: Some(redo.end.0),
            drop_from: redo.drop_from,
            at_least: (redo.at_least > 0).then_some(redo.at_least),
            text,
            ..Line::default()
        }
    }

    fn change(redo: &RedoInfo, change: &ChangeInfo) -> Line {
        Line {
            what: "change",
            page: Some(change.page),
            commit: Some(redo.commit),
            lsn: Some(redo.start.0),
            kind: Some(change.kind.name()),
            bytes: Some(change.bytes),
            text: format!(
                "page {}: {}, {}",
                change.page,
                change.kind.name(),
                bytes(change.bytes)
            ),
            ..Line::default()
        }
    }

    fn node(node: &NodeInfo) -> Line {
        Line {
            what: "node",
            page: Some(node.first),
            last: Some(node.last),
            file: Some(DATA.to_owned()),
            offset: Some(node.offset),
            place: Some(node.place),
            crc: Some(format!("{:08x}", node.crc)),
            level: Some(node.level),
            entries: Some(node.entries),
            text: format!(
                "level {}, pages {} to {}, place {}, checksum {:08x}, {}",
                node.level,
                node.first,
                node.last,
                node.place,
                node.crc,
                count(node.entries, "entry")
            ),
            ..Line::default()
        }
    }

    fn page(page: &PageInfo) -> Line {
        let mut text = format!("{}, ", page.page);
        if let Some(place) = page.place {
            text.push_str(&format!("place {place}, "));
        }
        text.push_str(&format!("byte {}", page.offset));
        if let Some(crc) = page.crc {
            text.push_str(&format!(", checksum {crc:08x}"));
        }
        text.push_str(&format!(", {}", page.held.name()));
        Line {
            what: "page",
            page: Some(page.page),
            file: Some(DATA.to_owned()),
            offset: Some(page.offset),
            place: page.place,
            crc: page.crc.map(|crc| format!("{crc:08x}")),
            held: Some(page.held.name()),
            text,
            ..Line::default()
        }
    }

    fn damage(damage: &Damage) -> Line {
        Line {
            what: "damage",
            page: damage.page,
            file: Some(damage.file.clone()),
            offset: Some(damage.offset),
            found: Some(damage.found.clone()),
            text: damage.to_string(),
            ..Line::default()
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            "damage" => "DAMAGE",
            other => other,
        };
        write!(f, "{what:<6}  {}", self.text)
    }
}

/// Adds the lines of a visit. Returns whether more may follow.
fn list(out: &mut Listing, visit: &Visit<'_>, redo: bool) -> anyhow::Result<bool> {
    match visit {
        Visit::Header(slot) => out.line(&Line::header(slot)),
        Visit::Redo(_) if !redo => Ok(true),
        Visit::Redo(record) => {
            let mut more = out.line(&Line::redo(record))?;
            for change in &record.changes {
                more = more && out.line(&Line::change(record, change))?;
            }
            Ok(more)
        }
        Visit::Node(node) => out.line(&Line::node(node)),
        Visit::Page(page) => out.line(&Line::page(page)),
        Visit::Damage(damage) => out.line(&Line::damage(damage)),
    }
}

/// Lists.
pub fn run(args: &LogArgs, redo: bool, limit: Option<u64>) -> anyhow::Result<End> {
    let mut out = Listing::open(args, limit)?;
    let inspector = super::inspector(args)?;
    let summary = inspector.summary()?;
    let file = FileInfo::new(&args.dir, &summary);
    out.begin("logforce-pages-dump", "file", &file)?;
    let mut result = Ok(true);
    let mut walk = Walk::begin("listing", 0, summary.bytes, out.leaves_terminal_free());
    let report = inspector.walk(&mut |visit| {
        if let Visit::Page(page) = &visit {
            walk.at(page.offset);
        }
        result = list(&mut out, &visit, redo);
        matches!(result, Ok(true))
    })?;
    drop(walk);
    result?;
    out.finish(&format!(
        "\"in_use\":{},\"damages\":{}",
        report.in_use, report.damages
    ))?;
    if report.in_use > 0 {
        complain(&format!(
            "IN USE: {} being written, not checked",
            count(report.in_use, "place")
        ));
    }
    Ok(match report.damages {
        0 => End::Done,
        n => {
            complain(&format!("DAMAGED in {}", places_of(n)));
            End::Damaged
        }
    })
}
