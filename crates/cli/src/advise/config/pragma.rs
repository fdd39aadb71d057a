//! Pragmas of SQLite in an SQL script, or in the source of a program: `PRAGMA synchronous = FULL`.

use super::Reader;
use std::path::Path;

/// Reads the pragmas of a file, in any text around them.
pub fn read(reader: &mut Reader<'_>, path: &Path) -> anyhow::Result<()> {
    let text = reader.text(path)?;
    for (n, line) in text.lines().enumerate() {
        let line = line.split("--").next().unwrap_or(line).to_ascii_lowercase();
        let mut rest = line.as_str();
        while let Some(at) = rest.find("pragma") {
            rest = &rest[at + "pragma".len()..];
            if let Some((name, value)) = pragma(rest) {
                reader.keep(name, value, path, n + 1);
            }
        }
    }
    Ok(())
}

/// Returns name and value of ` [schema.]name = value` and of ` name(value)`.
fn pragma(text: &str) -> Option<(&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = text.strip_prefix(char::is_whitespace)?.trim_start();
    let end = name.find(|c| !is_word(c) && c != '.')?;
    let (name, rest) = name.split_at(end);
    let name = name.rsplit('.').next().unwrap_or(name);
    let value = rest.trim_start().strip_prefix(['=', '('])?.trim_start();
    let value = value.trim_start_matches(['\'', '"']);
    let end = value.find(|c| !is_word(c)).unwrap_or(value.len());
    Some((name, &value[..end])).filter(|(_, value)| !value.is_empty())
}
