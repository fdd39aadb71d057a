//! YAML, as far as configurations use it: mappings by indentation, and scalars. A wanted name in any other
//! form is reported as not understood.

use super::{Reader, before_comment, unquoted};
use std::path::Path;

/// Reads the file. The names of nested keys are joined by dots, such as `storage.dbPath`.
pub fn read(reader: &mut Reader<'_>, path: &Path) -> anyhow::Result<()> {
    let text = reader.text(path)?;
    parse(reader, path, &text);
    Ok(())
}

/// Keeps the settings of a text.
pub fn parse(reader: &mut Reader<'_>, path: &Path, text: &str) {
    // Keys that the present line is nested in, with their indentation.
    let mut outer: Vec<(usize, String)> = Vec::new();
    // Indentation of the key whose lines of text follow.
    let mut literal: Option<usize> = None;
    for (n, raw) in text.lines().enumerate() {
        let line = without_comment(raw);
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line.is_empty() || line == "---" || line == "..." {
            continue;
        }
        match literal {
            Some(key) if indent > key => continue,
            _ => literal = None,
        }
        outer.retain(|(i, _)| *i < indent);
        let Some((key, value)) = key_and_value(line) else {
            mentioned(reader, path, n + 1, line);
            continue;
        };
        let mut name: String = outer.iter().map(|(_, key)| format!("{key}.")).collect();
        name.push_str(key);
        match value.chars().next() {
            None => outer.push((indent, key.to_owned())),
            Some('|' | '>') => literal = Some(indent),
            Some('{' | '[' | '&' | '*' | '!') => {
                mentioned(reader, path, n + 1, line);
            }
            Some(_) => reader.keep(&name, unquoted(value), path, n + 1),
        }
    }
}

/// Returns the line without its comment, which a space precedes.
fn without_comment(line: &str) -> &str {
    let mut from = 0;
    loop {
        let kept = before_comment(&line[from..], '#').len() + from;
        let before = line[..kept].chars().next_back();
        if kept == line.len() || before.is_none_or(char::is_whitespace) {
            return line[..kept].trim_end();
        }
        from = kept + 1;
    }
}

/// Splits `key: value`; `None` for an element of a list and for anything else.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    if line.starts_with("- ") || line == "-" {
        return None;
    }
    let (key, value) = match line.split_once(": ") {
        Some(parts) => parts,
        None => (line.strip_suffix(':')?, ""),
    };
    let key = unquoted(key);
    let is_plain = !key.is_empty() && !key.contains(['{', '[', '"', '\'', ',']);
    is_plain.then_some((key, value.trim()))
}

/// Reports a line in which the last part of a wanted name stands.
fn mentioned(reader: &mut Reader<'_>, path: &Path, line: usize, text: &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut words = text.split(|c| !is_part(c));
    let leaf = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let names: Vec<String> = reader.wanted.iter().map(|name| leaf(name)).collect();
    if words.any(|word| names.iter().any(|name| name == word)) {
        let why = "write it as `name: value` on a separate line";
        reader.not_understood(path, line, why);
    }
}
