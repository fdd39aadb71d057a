//! A report as bytes.

use serde::Serialize;
use std::io::{self, Write};

/// One JSON object and a newline.
pub fn json(report: &impl Serialize, mut to: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, report).map_err(io::Error::from)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// The rows, with a line of headings.
pub fn csv(rows: &[impl Serialize], to: impl Write) -> io::Result<()> {
    let broken = |e: csv::Error| {
        let words = e.to_string();
        match e.into_kind() {
            csv::ErrorKind::Io(e) => e,
            _ => io::Error::other(words),
        }
    };
    let mut writer = csv::Writer::from_writer(to);
    for row in rows {
        writer.serialize(row).map_err(broken)?;
    }
    writer.flush()
}
