//! `logforce dump --page`: one page and its source.

use super::info::DamageInfo;
use crate::dump::data::hex;
use crate::exit::End;
use crate::log_args::LogArgs;
use crate::output::{complain, print};
use logforce::pages::inspect::{FoundPage, PageSource};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;

/// Number of bytes in a line.
const WIDTH: usize = 16;

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    page: u64,
    source: &'static str,
    offset: Option<u64>,
    place: Option<u64>,
    crc: Option<String>,
    records: Option<Vec<u64>>,
    data: Option<String>,
    damage: Option<DamageInfo>,
}

/// Shows the page.
pub fn run(args: &LogArgs, page: u64) -> anyhow::Result<End> {
    let sinks = args.sinks()?;
    let found = super::inspector(args)?.page(page)?;
    let mut text = format!("page {page}: {}\n", source(&found));
    if let Some(bytes) = &found.bytes {
        text.push_str(&lines(bytes));
    }
    print(&text, sinks.stdout_has_data)?;
    if let Some(mut out) = sinks.json {
        serde_json::to_writer_pretty(&mut out, &report(page, &found))
            .map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(match &found.damage {
        None => End::Done,
        Some(damage) => {
            complain(&format!("DAMAGE {damage}"));
            End::Damaged
        }
    })
}

fn source(found: &FoundPage) -> String {
    match &found.source {
        PageSource::Absent if found.damage.is_some() => "unknown, because of damage".to_owned(),
        PageSource::Absent => "zeroes: it was never written, or it was dropped".to_owned(),
        PageSource::Data(at) => {
            let place = match at.place {
                Some(place) => format!(", place {place}"),
                None => String::new(),
            };
            let crc = match at.crc {
                Some(crc) => format!("checksum {crc:08x}, "),
                None => String::new(),
            };
            format!(
                "from the data file, byte {}{place}, {crc}{}",
                at.offset,
                at.held.name()
            )
        }
        PageSource::Log(records) => {
            let at: Vec<String> = records.iter().map(ToString::to_string).collect();
            format!("from the log, LSN {}", at.join(", "))
        }
    }
}

fn report(page: u64, found: &FoundPage) -> Report {
    let at = match &found.source {
        PageSource::Data(at) => Some(at),
        _ => None,
    };
    Report {
        schema: "logforce-pages-page",
        version: 1,
        page,
        source: match &found.source {
            PageSource::Absent => "absent",
            PageSource::Data(_) => "data",
            PageSource::Log(_) => "log",
        },
        offset: at.map(|at| at.offset),
        place: at.and_then(|at| at.place),
        crc: at.and_then(|at| at.crc).map(|crc| format!("{crc:08x}")),
        records: match &found.source {
            PageSource::Log(records) => Some(records.iter().map(|lsn| lsn.0).collect()),
            _ => None,
        },
        data: found.bytes.as_deref().map(hex),
        damage: found.damage.as_ref().map(DamageInfo::from),
    }
}

/// Formats bytes in lines; `*` stands for lines that repeat the one before.
fn lines(bytes: &[u8]) -> String {
    let mut text = String::new();
    let (mut before, mut is_left_out) = (None, false);
    for (n, line) in bytes.chunks(WIDTH).enumerate() {
        if before == Some(line) {
            if !std::mem::replace(&mut is_left_out, true) {
                text.push_str("*\n");
            }
            continue;
        }
        (before, is_left_out) = (Some(line), false);
        let _ = write!(text, "{:08x} ", n * WIDTH);
        for byte in line {
            let _ = write!(text, " {byte:02x}");
        }
        let shown = line.iter().map(|b| match b {
            b' '..=b'~' => char::from(*b),
            _ => '.',
        });
        let _ = writeln!(text, "  |{}|", shown.collect::<String>());
    }
    let _ = writeln!(text, "{:08x}", bytes.len());
    text
}
