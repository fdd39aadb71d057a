//! `postgresql.conf`, its includes, and `postgresql.auto.conf` of the data directory.

use super::{Reader, beside, files_in};
use std::io::ErrorKind;
use std::path::Path;

/// Reads the file, its includes, and the settings that ALTER SYSTEM made.
pub fn read(reader: &mut Reader<'_>, path: &Path) -> anyhow::Result<()> {
    file(reader, path, 0)?;
    // initdb puts the file into the data directory itself.
    let version = beside(path, "PG_VERSION");
    if reader.configuration.of("data_directory").is_none() && version.exists() {
        let directory = std::path::absolute(beside(path, ""))?;
        reader.keep(
            "data_directory",
            directory.display().to_string(),
            &version,
            1,
        );
    }
    let named = reader.configuration.of("data_directory");
    let directory = beside(path, named.map_or("", |found| &found.value));
    // This file is read last, so its settings count.
    let auto = directory.join("postgresql.auto.conf");
    let has_one = match auto.metadata() {
        Ok(_) => true,
        Err(e) if e.kind() == ErrorKind::NotFound => false,
        Err(e) => {
            reader.unread(format!(
                "{} cannot be read ({e}): it holds the settings that ALTER SYSTEM made, and they count more",
                auto.display()
            ));
            false
        }
    };
    if has_one && auto.file_name() != path.file_name() {
        file(reader, &auto, 0)?;
    }
    Ok(())
}

fn file(reader: &mut Reader<'_>, path: &Path, depth: usize) -> anyhow::Result<()> {
    reader.check_depth(depth, path)?;
    let text = reader.text(path)?;
    for (n, line) in text.lines().enumerate() {
        let (name, value) = match setting(line) {
            Ok(Some(setting)) => setting,
            Ok(None) => continue,
            Err(why) => {
                reader.not_understood(path, n + 1, why);
                continue;
            }
        };
        match name.to_ascii_lowercase().as_str() {
            "include" => file(reader, &beside(path, &value), depth + 1)?,
            "include_if_exists" => {
                let included = beside(path, &value);
                if included.exists() {
                    file(reader, &included, depth + 1)?;
                }
            }
            "include_dir" => {
                for included in files_in(&beside(path, &value), ".conf")? {
                    file(reader, &included, depth + 1)?;
                }
            }
            _ => reader.keep(name, value, path, n + 1),
        }
    }
    Ok(())
}

/// Splits a line into a name and a value: `name = value`, `name value`, `name = 'it''s'`.
fn setting(line: &str) -> Result<Option<(&str, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    if name.is_empty() {
        return Err("it does not begin with the name of a setting");
    }
    let (value, behind) = match rest.strip_prefix('\'') {
        Some(quoted) => within_quotes(quoted).ok_or("the closing quote is missing")?,
        None => {
            let end = rest.find(|c: char| c.is_whitespace() || c == '#');
            let (value, behind) = rest.split_at(end.unwrap_or(rest.len()));
            (value.to_owned(), behind)
        }
    };
    let behind = behind.trim_start();
    if value.is_empty() && !rest.starts_with('\'') {
        return Err("the value is missing");
    }
    match behind.is_empty() || behind.starts_with('#') {
        true => Ok(Some((name, value))),
        false => Err("something stands behind the value"),
    }
}

/// Returns the text up to the closing quote, and what stands behind it.
fn within_quotes(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if text[at + 1..].starts_with('\'') => {
                chars.next();
                value.push('\'');
            }
            '\'' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}
