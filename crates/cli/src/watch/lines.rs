//! Files that get a line for each event, and may be rotated by another program meanwhile.

use super::record::{Record, Start};
use crate::output::{Target, cannot_write};
use anyhow::{Context, bail};
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values below a line of names.
    Csv,
    /// A JSON object a line.
    Json,
}

/// A file to which lines are appended, or standard output.
#[derive(Debug)]
pub struct Lines {
    format: Format,
    /// Open file; `None` for standard output.
    file: Option<Named>,
    /// True until the first line was written.
    is_new: bool,
}

#[derive(Debug)]
struct Named {
    path: PathBuf,
    file: File,
}

impl Lines {
    /// Opens the target, and keeps what a file contains.
    ///
    /// # Errors
    /// If the file cannot be written, or is a CSV file with other columns.
    pub fn open(target: &Target, format: Format) -> anyhow::Result<Lines> {
        let file = match target {
            Target::Stdout => None,
            Target::File(path) => {
                let file = append(path)?;
                if format == Format::Csv {
                    check_columns(path)?;
                }
                Some(Named {
                    path: path.clone(),
                    file,
                })
            }
        };
        Ok(Lines {
            format,
            file,
            is_new: true,
        })
    }

    /// Returns true if the lines go to standard output.
    pub fn have_stdout(&self) -> bool {
        self.file.is_none()
    }

    /// Writes the head of the file, if it needs one now.
    pub fn begin(&mut self, start: &Start) -> anyhow::Result<()> {
        let is_empty = self.follow()?;
        // A JSON file that goes on begins a watch as well.
        let needs_head = is_empty || (self.is_new && self.format == Format::Json);
        self.is_new = false;
        if !needs_head {
            return Ok(());
        }
        match self.format {
            Format::Csv => self.write(columns().as_bytes()),
            Format::Json => self.write(&json(start)?),
        }
    }

    /// Writes a line.
    pub fn write_record(&mut self, start: &Start, record: &Record) -> anyhow::Result<()> {
        self.begin(start)?;
        match self.format {
            Format::Csv => self.write(&csv_line(record, false)?),
            Format::Json => self.write(&json(record)?),
        }
    }

    /// Writes a value as one line of JSON.
    #[cfg(feature = "archive")]
    pub fn write_json(&mut self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        self.follow()?;
        self.write(&json(value)?)
    }

    /// Opens the file anew if another program has renamed or removed it. Returns true if it is empty.
    fn follow(&mut self) -> anyhow::Result<bool> {
        let Some(named) = &mut self.file else {
            return Ok(self.is_new);
        };
        let about = |e| cannot_look(&named.path, e);
        let open = named.file.metadata().map_err(about)?;
        let is_same = match named.path.metadata() {
            Ok(there) => is_same(&open, &there),
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => return Err(cannot_look(&named.path, e)),
        };
        let now = match is_same {
            true => open,
            false => {
                named.file = append(&named.path)?;
                let opened = named.file.metadata();
                opened.map_err(|e| cannot_look(&named.path, e))?
            }
        };
        // A pipe or a device has no length.
        Ok(match now.is_file() {
            true => now.len() == 0,
            false => self.is_new,
        })
    }

    /// Writes a line in one call, so that a rotation never splits it.
    fn write(&mut self, line: &[u8]) -> anyhow::Result<()> {
        match &mut self.file {
            None => {
                let mut out = io::stdout().lock();
                out.write_all(line)
                    .and_then(|()| out.flush())
                    .context("cannot write to standard output")
            }
            Some(named) => {
                let written = named.file.write_all(line);
                written
                    .map_err(|e| cannot_write::with_advice(&named.path, e))
                    .with_context(|| cannot_write::file(&named.path))
            }
        }
    }
}

fn cannot_look(path: &Path, e: io::Error) -> anyhow::Error {
    anyhow::Error::new(e).context(format!("cannot look at {}", path.display()))
}

fn append(path: &Path) -> anyhow::Result<File> {
    let file = File::options().append(true).create(true).open(path);
    file.map_err(|e| cannot_write::with_advice(path, e))
        .with_context(|| cannot_write::file(path))
}

/// Checks that a file which exists has the columns that will be appended.
fn check_columns(path: &Path) -> anyhow::Result<()> {
    // A device, such as the null device, has no columns.
    if !path.is_file() {
        return Ok(());
    }
    let mut first = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    // Reads no more than a line of names can have.
    let mut file = BufReader::new(io::Read::take(file, 4096));
    file.read_until(b'\n', &mut first)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if !first.is_empty() && first != columns().as_bytes() {
        bail!(
            "cannot append to {}: it has other columns; name another file, or remove this one",
            path.display()
        );
    }
    Ok(())
}

/// Returns true if both describe the same file.
#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Returns true if both describe the same file, as far as this system says.
#[cfg(not(unix))]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    a.created().ok() == b.created().ok()
}

fn columns() -> String {
    let line = csv_line(&Record::default(), true).unwrap_or_default();
    let end = line.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&line[..end]).into_owned()
}

fn csv_line(record: &Record, with_columns: bool) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new()
        .has_headers(with_columns)
        .from_writer(Vec::new());
    writer.serialize(record)?;
    Ok(writer.into_inner()?)
}

fn json(value: &impl serde::Serialize) -> anyhow::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
