//! `nats-server.conf` and its includes: nested blocks, `name: value`, `name = value` and `name value`.

use super::{Reader, beside};
use std::path::Path;

/// Other names of settings, as `server/opts.go` has them.
const OTHER_NAMES: [(&str, &str); 5] = [
    ("jetstream.sync", "jetstream.sync_interval"),
    ("jetstream.store", "jetstream.store_dir"),
    ("jetstream.storedir", "jetstream.store_dir"),
    ("store_dir", "jetstream.store_dir"),
    ("storedir", "jetstream.store_dir"),
];

/// Reads the file and its includes. The names of nested blocks are joined by dots.
pub fn read(reader: &mut Reader<'_>, path: &Path) -> anyhow::Result<()> {
    file(reader, path, &mut Vec::new(), 0)
}

/// A word of the file, or one of the signs that have a meaning.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Sign(char),
    /// End of a line, or a comma or semicolon.
    End,
}

fn file(
    reader: &mut Reader<'_>,
    path: &Path,
    outer: &mut Vec<String>,
    depth: usize,
) -> anyhow::Result<()> {
    reader.check_depth(depth, path)?;
    let text = reader.text(path)?;
    let level = outer.len();
    // Lists are skipped: no setting is in them.
    let mut lists = 0_usize;
    let mut words: Vec<String> = Vec::new();
    for (line, token) in tokens(&text) {
        match token {
            Token::Sign('[') => lists += 1,
            Token::Sign(']') => lists = lists.saturating_sub(1),
            _ if lists > 0 => {}
            Token::Sign('{') => {
                outer.push(words.join(" "));
                words.clear();
            }
            Token::Word(word) => words.push(word),
            Token::Sign('}') | Token::End => {
                let setting = std::mem::take(&mut words);
                match setting.as_slice() {
                    [name, included] if name == "include" => {
                        file(reader, &beside(path, included), outer, depth + 1)?;
                    }
                    [name, value] => keep(reader, path, line, outer, name, value),
                    _ => {}
                }
                if token == Token::Sign('}') && outer.len() > level {
                    outer.pop();
                }
            }
            Token::Sign(_) => {}
        }
    }
    if let [name, value] = words.as_slice() {
        keep(reader, path, text.lines().count(), outer, name, value);
    }
    outer.truncate(level);
    Ok(())
}

fn keep(
    reader: &mut Reader<'_>,
    path: &Path,
    line: usize,
    outer: &[String],
    name: &str,
    value: &str,
) {
    let mut parts = outer.to_vec();
    parts.push(name.to_owned());
    let name = parts.join(".").to_ascii_lowercase();
    let same = OTHER_NAMES.iter().find(|(other, _)| *other == name);
    let name = same.map_or(name.as_str(), |(_, name)| *name);
    if value.starts_with('$') && reader.wanted(name).is_some() {
        let why = "the value is a variable: write the value itself";
        return reader.not_understood(path, line, why);
    }
    reader.keep(name, value, path, line);
}

/// Splits the text into tokens, each with the number of its line.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let mut rest = line;
        loop {
            rest = rest.trim_start();
            let Some(c) = rest.chars().next() else { break };
            if c == '#' || rest.starts_with("//") {
                break;
            }
            let (token, used) = match c {
                '{' | '}' | '[' | ']' | ':' | '=' => (Token::Sign(c), 1),
                ',' | ';' => (Token::End, 1),
                '"' | '\'' => {
                    let inner = &rest[1..];
                    let end = inner.find(c).unwrap_or(inner.len());
                    (
                        Token::Word(inner[..end].to_owned()),
                        (end + 2).min(rest.len()),
                    )
                }
                _ => {
                    let is_end = |c: char| c.is_whitespace() || "{}[]=,;#".contains(c);
                    let end = rest.find(is_end).unwrap_or(rest.len());
                    // A colon belongs to the word, except at its end: `store_dir: C:/nats`.
                    let word = &rest[..end];
                    match word.split_once(':') {
                        Some((name, "")) => (Token::Word(name.to_owned()), end),
                        Some((name, value))
                            if tokens_begin(&tokens) && !value.starts_with("//") =>
                        {
                            (Token::Word(name.to_owned()), name.len() + 1)
                        }
                        _ => (Token::Word(word.to_owned()), end),
                    }
                }
            };
            // The block of a name may begin on the next line.
            if token == Token::Sign('{') && matches!(tokens.last(), Some((_, Token::End))) {
                tokens.pop();
            }
            tokens.push((n + 1, token));
            rest = &rest[used.max(1)..];
        }
        tokens.push((n + 1, Token::End));
    }
    tokens
}

/// Returns true if a setting begins after these tokens, so that the next word is a name.
fn tokens_begin(tokens: &[(usize, Token)]) -> bool {
    !matches!(
        tokens.last(),
        Some((_, Token::Word(_) | Token::Sign(':' | '=')))
    )
}
