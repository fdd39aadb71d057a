//! Output of `logforce dump`, line by line: as text, or as JSON and CSV if the flags say so.

use crate::log_args::LogArgs;
use crate::output::{Sink, Writer};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Destination of the lines. They are not collected first, because a listing may be larger than memory.
pub struct Listing {
    json: Option<Writer>,
    csv: Option<csv::Writer<Writer>>,
    text: Option<Writer>,
    written: u64,
    limit: u64,
}

impl Listing {
    /// Opens the files that the flags name, for at most `limit` lines.
    pub fn open(args: &LogArgs, limit: Option<u64>) -> anyhow::Result<Listing> {
        let sinks = args.sinks()?;
        let text = match (&sinks.json, &sinks.csv) {
            (None, None) => Some(Sink::Stdout.writer()?),
            _ => None,
        };
        Ok(Listing {
            json: sinks.json,
            csv: sinks.csv.map(csv::Writer::from_writer),
            text,
            written: 0,
            limit: limit.unwrap_or(u64::MAX),
        })
    }

    /// Returns true if the lines are text for a person.
    pub fn is_text(&self) -> bool {
        self.text.is_some()
    }

    /// Returns true if the terminal is free for a progress bar, because no lines go there.
    pub fn leaves_terminal_free(&self) -> bool {
        !io::stdout().is_terminal()
    }

    /// Returns true if the limit is reached.
    pub fn is_full(&self) -> bool {
        self.written >= self.limit
    }

    /// Begins the JSON document with a description of the log or file that is listed.
    pub fn begin(&mut self, schema: &str, key: &str, of: &impl Serialize) -> anyhow::Result<()> {
        if let Some(json) = &mut self.json {
            let of = serde_json::to_string(of).map_err(io::Error::from)?;
            write!(
                json,
                "{{\"schema\":\"{schema}\",\"version\":1,\n\"{key}\":{of},\n\"entries\":["
            )?;
        }
        Ok(())
    }

    /// Adds a line unless the limit is reached. Returns whether another may follow.
    pub fn line(&mut self, line: &(impl Serialize + Display)) -> anyhow::Result<bool> {
        if self.is_full() {
            return Ok(false);
        }
        if let Some(json) = &mut self.json {
            json.write_all(if self.written > 0 { b",\n" } else { b"\n" })?;
            json.write_all(in_one_line(line)?.as_bytes())?;
        }
        if let Some(csv) = &mut self.csv {
            csv.serialize(line)?;
        }
        if let Some(text) = &mut self.text {
            writeln!(text, "{line}")?;
        }
        self.written += 1;
        Ok(true)
    }

    /// Ends the JSON document with these members, and flushes all outputs.
    pub fn finish(mut self, members: &str) -> anyhow::Result<()> {
        if let Some(json) = &mut self.json {
            writeln!(json, "\n],\n{members}}}")?;
            json.flush()?;
        }
        if let Some(csv) = &mut self.csv {
            csv.flush()?;
        }
        if let Some(text) = &mut self.text {
            text.flush()?;
        }
        Ok(())
    }
}

/// Returns the line as a JSON object, without the fields that are `None`.
fn in_one_line(line: &impl Serialize) -> io::Result<String> {
    let mut value = serde_json::to_value(line)?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, v| !v.is_null());
    }
    Ok(value.to_string())
}
