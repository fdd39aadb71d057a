//! YAML, as far as configurations use it: mappings by indentation, and scalars. A wanted name in any other
//! form is reported as not understood.

use super::{Reader, before_comment, unquoted};
use std::path::Path;

/// Reads the file. The names of nested keys are joined by dots, such as `storage.dbPath`.
pub fn read(reader: &mut Reader<'_>, path: &Path) -> anyhow::Result<()> {
    let text = reader.text(path)?;
    if let Some(line) = parse(reader, path, &text) {
        reader.not_understood(
            path,
            line,
            "it is not YAML, or not its simple form `name: value`",
        );
    }
    Ok(())
}

/// Keeps the settings of a text. Returns the number of the first line that is not understood; one that may belong to
/// a wanted setting is reported.
pub fn parse(reader: &mut Reader<'_>, path: &Path, text: &str) -> Option<usize> {
    let mut foreign: Option<usize> = None;
    // Keys that the present line is nested in, with their indentation.
    let mut outer: Vec<(usize, String)> = Vec::new();
    // Indentation of the key whose lines of text follow.
    let mut literal: Option<usize> = None;
    // The last key, with its indentation and whether it has a value: the next line may continue it.
    let mut last: Option<(usize, String, bool)> = None;
    // Brackets that are open, and the line of the first.
    let mut flow: Option<(usize, usize)> = None;
    for (n, raw) in text.lines().enumerate() {
        let line = without_comment(raw);
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line.is_empty() || line == "---" || line == "..." || line.starts_with('%') {
            continue;
        }
        if let Some((open, first)) = flow {
            mentioned(reader, path, n + 1, line);
            flow = open_brackets(line, open).map(|open| (open, first));
            continue;
        }
        match literal {
            Some(key) if indent > key => continue,
            _ => literal = None,
        }
        let is_item = line == "-" || line.starts_with("- ");
        if is_item {
            // A list may stand at the indentation of its key.
            outer.retain(|(i, _)| *i < indent);
            let key = last
                .as_ref()
                .filter(|(i, _, has_value)| *i <= indent && !has_value);
            match key {
                Some((_, name, _)) if reader.wanted(name).is_some() => {
                    let name = name.clone();
                    item(reader, path, n + 1, &name, line);
                }
                _ => mentioned(reader, path, n + 1, line),
            }
            let value = line.trim_start_matches('-').trim();
            if value.ends_with(['|', '>']) {
                literal = Some(indent);
            }
            flow = open_brackets(line, 0).map(|open| (open, n + 1));
            continue;
        }
        let Some((key, value)) = key_and_value(line) else {
            match &last {
                // The value, or more of it, on a separate line.
                Some((i, name, _)) if indent > *i => {
                    if reader.wanted(name).is_some() {
                        let why = format!("write `{name}: value` on one line");
                        reader.not_understood(path, n + 1, &why);
                    }
                }
                _ => foreign = foreign.or(Some(n + 1)),
            }
            mentioned(reader, path, n + 1, line);
            continue;
        };
        outer.retain(|(i, _)| *i < indent);
        let mut name: String = outer.iter().map(|(_, key)| format!("{key}.")).collect();
        name.push_str(key);
        let is_wanted = reader.wanted(&name).is_some();
        last = Some((indent, name.clone(), !value.is_empty()));
        match value.chars().next() {
            None => outer.push((indent, key.to_owned())),
            Some(c @ ('|' | '>' | '{' | '[' | '&' | '*' | '!')) => {
                match is_wanted {
                    true => {
                        let why = format!("write `{name}: value` on a separate line");
                        reader.not_understood(path, n + 1, &why);
                    }
                    false => mentioned(reader, path, n + 1, line),
                }
                match c {
                    '|' | '>' => literal = Some(indent),
                    '{' | '[' => flow = open_brackets(value, 0).map(|open| (open, n + 1)),
                    // The lines below may define or repeat any key.
                    _ => foreign = foreign.or(Some(n + 1)),
                }
            }
            Some(quote @ ('"' | '\'')) if value.len() < 2 || !value.ends_with(quote) => {
                foreign = foreign.or(Some(n + 1));
            }
            Some(_) => reader.keep(&name, unquoted(value), path, n + 1),
        }
    }
    foreign.or(flow.map(|(_, first)| first))
}

/// Keeps an element of the list of a wanted setting: all are joined by commas.
fn item(reader: &mut Reader<'_>, path: &Path, line: usize, name: &str, text: &str) {
    let value = unquoted(text.trim_start_matches('-')).to_owned();
    let last = reader.configuration.found.last_mut();
    match last.filter(|f| f.name == name) {
        Some(list) => {
            list.value.push(',');
            list.value.push_str(&value);
        }
        None => reader.keep(name, value, path, line),
    }
}

/// Returns the number of brackets that are open behind a line; `None` if all are closed.
fn open_brackets(line: &str, open: usize) -> Option<usize> {
    let opened = line.matches(['[', '{']).count();
    let closed = line.matches([']', '}']).count();
    Some((open + opened).saturating_sub(closed)).filter(|open| *open > 0)
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

/// Splits `key: value`; `None` for anything else.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    if line.starts_with("- ") || line.starts_with("--- ") || line.starts_with("? ") {
        return None;
    }
    let (key, value) = match line.split_once(": ") {
        Some(parts) => parts,
        None => (line.strip_suffix(':')?, ""),
    };
    let key = unquoted(key.trim());
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
