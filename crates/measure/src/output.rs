//! A report as bytes.

use serde::Serialize;
use std::io::{self, Write};

/// One JSON object and a newline.
pub fn json(report: &impl Serialize, mut to: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, report).map_err(io::Error::from)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// The rows, with a line of headings. The last column of each says whether the run was interrupted:
/// rows travel without their report.
pub fn csv(rows: &[impl Serialize], interrupted: bool, to: impl Write) -> io::Result<()> {
    let mut plain = csv::Writer::from_writer(Vec::new());
    for row in rows {
        plain.serialize(row).map_err(broken)?;
    }
    let plain = plain.into_inner().map_err(|e| e.into_error())?;
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).from_reader(&*plain);
    let mut writer = csv::Writer::from_writer(to);
    let said = interrupted.to_string();
    for (n, record) in reader.records().enumerate() {
        let mut record = record.map_err(broken)?;
        record.push_field(if n == 0 { "interrupted" } else { &said });
        writer.write_record(&record).map_err(broken)?;
    }
    writer.flush()
}

fn broken(e: csv::Error) -> io::Error {
    let words = e.to_string();
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e,
        _ => io::Error::other(words),
    }
}
