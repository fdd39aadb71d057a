//! Java properties (`server.properties`, `zoo.cfg`), and the OPTIONS file of RocksDB, whose lines are alike.

use super::Reader;
use std::path::Path;

/// Stands for a character that was given by its number, or in another encoding.
const UNREAD: char = char::REPLACEMENT_CHARACTER;

/// Reads the file.
pub fn read(reader: &mut Reader<'_>, path: &Path) -> anyhow::Result<()> {
    let text = reader.text(path)?;
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_owned();
        while is_continued(&whole) {
            whole.pop();
            match lines.next() {
                Some((_, next)) => whole.push_str(next.trim_start()),
                None => break,
            }
        }
        let (name, value) = split(&whole);
        if name.contains(UNREAD) || (reader.wanted(&name).is_some() && value.contains(UNREAD)) {
            reader.not_understood(
                path,
                n + 1,
                "write the characters, not their numbers (\\u…)",
            );
        }
        reader.keep(&name, value, path, n + 1);
    }
    Ok(())
}

/// Returns true if the line goes on: it ends with an odd number of backslashes.
fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// Splits at the first `=`, `:` or space that no backslash precedes.
fn split(line: &str) -> (String, String) {
    let mut name = String::new();
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => push_escaped(&mut name, chars.next().map(|(_, c)| c)),
            '=' | ':' => return (name, unescaped(line[at + 1..].trim())),
            c if c.is_whitespace() => {
                let rest = line[at..].trim_start();
                let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
                return (name, unescaped(rest.trim()));
            }
            c => name.push(c),
        }
    }
    (name, String::new())
}

/// Returns the value without the backslashes that Java takes away.
fn unescaped(text: &str) -> String {
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => push_escaped(&mut value, chars.next()),
            c => value.push(c),
        }
    }
    value
}

/// Appends the character behind a backslash. The number of a character (`\u0041`) is not read.
fn push_escaped(text: &mut String, c: Option<char>) {
    text.extend(c.map(|c| if c == 'u' { UNREAD } else { c }));
}
