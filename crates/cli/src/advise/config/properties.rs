//! Java properties (`server.properties`, `zoo.cfg`), and the OPTIONS file of RocksDB, whose lines are alike.

use super::Reader;
use std::path::Path;

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
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '=' | ':' => return (name, line[at + 1..].trim().to_owned()),
            c if c.is_whitespace() => {
                let rest = line[at..].trim_start();
                let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
                return (name, rest.trim().to_owned());
            }
            c => name.push(c),
        }
    }
    (name, String::new())
}
