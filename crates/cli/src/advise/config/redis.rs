//! `redis.conf` and its includes.

use super::{Reader, beside, unquoted};
use std::path::Path;

/// Reads the file and its includes.
pub fn read(reader: &mut Reader<'_>, path: &Path) -> anyhow::Result<()> {
    file(reader, path, 0)
}

fn file(reader: &mut Reader<'_>, path: &Path, depth: usize) -> anyhow::Result<()> {
    reader.check_depth(depth, path)?;
    let text = reader.text(path)?;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line
            .split_once(char::is_whitespace)
            .map_or((line, ""), |(name, value)| (name, unquoted(value)));
        match name.eq_ignore_ascii_case("include") {
            true if value.contains(['*', '?', '[']) => {
                let why = "a pattern of file names is not followed: name the files one by one";
                reader.not_understood(path, n + 1, why);
            }
            // The server starts a relative path at its working directory, which the file does not tell.
            true => file(reader, &beside(path, value), depth + 1)?,
            false => reader.keep(name, value, path, n + 1),
        }
    }
    Ok(())
}
