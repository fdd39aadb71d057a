//! Output of a report as JSON and CSV.

use crate::result::distribution;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// Writes one JSON object and a newline.
pub fn json(report: &impl Serialize, mut to: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, report).map_err(io::Error::from)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// Writes the rows as CSV, below a line of headings. The last column repeats in each row whether the
/// run was interrupted, because rows are passed on without their report. A distribution is not a
/// single value and has no column.
pub fn csv(rows: &[impl Serialize], interrupted: bool, to: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    for (n, row) in rows.iter().enumerate() {
        let Value::Object(mut row) = serde_json::to_value(row)? else {
            return Err(io::Error::other("a row is not an object"));
        };
        row.retain(|name, _| name != distribution::FIELD);
        row.insert("interrupted".to_owned(), interrupted.into());
        if n == 0 {
            writer.write_record(row.keys()).map_err(broken)?;
        }
        let cells = row.into_iter().map(|(_, value)| match value {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        });
        writer.write_record(cells).map_err(broken)?;
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
