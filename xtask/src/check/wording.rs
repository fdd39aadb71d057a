//! Wording: counts of openings and words that make readers stop, by part of the repository.
//!
//! The committed counts may only fall: a ratchet. A single use may be right, and a ban would only invite
//! detours.

use super::{Violation, links, list, shown, sources};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::AddAssign;
use std::path::Path;

/// Committed counts, by part.
const COMMITTED: &str = "xtask/src/check/wording.txt";

/// Part that the pages of the documentation are.
const PAGES: &str = "docs";

/// Openings of doc comments that leave the reader with a clause and no sentence.
const OPENINGS: [&str; 11] = [
    "How ",
    "Of ",
    "That of ",
    "Up to how ",
    "What ",
    "Where ",
    "Whether ",
    "Which ",
    "Who ",
    "Whose ",
    "Why ",
];

/// Words of comments, messages and pages for which there are plainer or more exact ones.
const WORDS: [&str; 22] = [
    "are no",
    "are none",
    "as yet",
    "at one go",
    "come to nothing",
    "is no",
    "is none",
    "nobody",
    "of its own",
    "of ours",
    "of their own",
    "room",
    "so few",
    "so many",
    "so much",
    "somebody",
    "take along",
    "taken along",
    "takes along",
    "told",
    "took along",
    "worth",
];

/// Counts of a part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// Doc comments that begin with one of [`OPENINGS`].
    openings: usize,
    /// Uses of [`WORDS`].
    words: usize,
    /// Doc comments.
    comments: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.openings += other.openings;
        self.words += other.words;
        self.comments += other.comments;
    }
}

/// Counts of a part, and the counted places.
#[derive(Debug, Default)]
struct Part {
    counts: Counts,
    places: Vec<String>,
}

/// Finds parts whose counts are not the committed ones.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let committed = committed(root)?;
    let mut found = Vec::new();
    for (name, part) in parts(root)? {
        let (openings, words) = committed.get(&name).copied().unwrap_or_default();
        let counts = part.counts;
        let mut compare = |what: &str, now: usize, before: usize| {
            let instead = match now > before {
                true => format!("reword: `cargo xtask wording {name}` lists them"),
                false if now < before => {
                    "commit the lower number: `cargo xtask wording`".to_owned()
                }
                false => return,
            };
            let what = format!("has {now} {what}, and {before} are committed");
            found.push(Violation::new(name.clone(), what, instead));
        };
        compare("doc comments with a bad opening", counts.openings, openings);
        compare("words to avoid", counts.words, words);
    }
    Ok(found)
}

/// The command: lists the places of one part, or prints all counts and commits those that fell. False if a
/// count rose.
pub fn command(root: &Path, part: Option<&str>) -> Result<bool> {
    let parts = parts(root)?;
    if let Some(name) = part {
        let part = parts.get(name);
        let names = || parts.keys().cloned().collect::<Vec<_>>().join(", ");
        let part = part.with_context(|| format!("there is no part {name}, only {}", names()))?;
        part.places.iter().for_each(|place| println!("{place}"));
        return Ok(true);
    }
    println!("part          bad openings  doc comments  words to avoid");
    for (name, Part { counts: c, .. }) in &parts {
        let percent = 100.0 * c.openings as f64 / c.comments.max(1) as f64;
        let Counts {
            openings,
            words,
            comments,
        } = c;
        println!("{name:12}  {openings:4}  {percent:4.1} %  {comments:12}  {words:14}");
    }
    let before = committed(root)?;
    let risen: Vec<_> = parts
        .iter()
        .filter(|(name, part)| {
            let (openings, words) = before.get(*name).copied().unwrap_or_default();
            part.counts.openings > openings || part.counts.words > words
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if !risen.is_empty() {
        println!("not committed: {} rose", risen.join(", "));
        return Ok(false);
    }
    let mut text = String::from(
        "# part: doc comments with a bad opening, words to avoid. Written by `cargo xtask wording`; may only fall.\n",
    );
    for (name, part) in &parts {
        writeln!(
            text,
            "{name}: {} {}",
            part.counts.openings, part.counts.words
        )?;
    }
    std::fs::write(root.join(COMMITTED), text)
        .with_context(|| format!("cannot write {COMMITTED}"))?;
    Ok(true)
}

/// Committed counts of openings and words.
fn committed(root: &Path) -> Result<BTreeMap<String, (usize, usize)>> {
    let text = std::fs::read_to_string(root.join(COMMITTED))
        .with_context(|| format!("cannot read {COMMITTED}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let wrong = || format!("{COMMITTED}: not `part: N N`: {line}");
            let (name, counts) = line.split_once(": ").with_context(wrong)?;
            let (openings, words) = counts.split_once(' ').with_context(wrong)?;
            ensure!(!name.is_empty(), wrong());
            let number = |n: &str| n.parse().with_context(wrong);
            Ok((name.to_owned(), (number(openings)?, number(words)?)))
        })
        .collect()
}

/// Parts of the repository: each crate, the folders beside them, and the pages.
fn parts(root: &Path) -> Result<BTreeMap<String, Part>> {
    let mut folders = vec![];
    if root.join("crates").is_dir() {
        folders.extend(list(&root.join("crates"))?);
    }
    let beside = ["benches", "examples", "fuzz", "xtask"];
    folders.extend(beside.map(|folder| root.join(folder)));
    let mut parts = BTreeMap::new();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let part: &mut Part = parts.entry(name.into_owned()).or_default();
        for (path, text) in sources(&folder)? {
            // The list itself.
            if !path.ends_with(file!()) {
                part.source(&shown(root, &path), &text);
            }
        }
    }
    let part: &mut Part = parts.entry(PAGES.to_owned()).or_default();
    for page in links::pages(root)? {
        let text = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        for (line, text) in text.lines().enumerate() {
            part.words(&format!("{}:{}", shown(root, &page), line + 1), text);
        }
    }
    Ok(parts)
}

impl Part {
    fn source(&mut self, file: &str, text: &str) {
        let mut before = None;
        for Prose { line, kind, text } in prose(text) {
            let place = format!("{file}:{line}");
            self.words(&place, text);
            let begins = before != Some((line - 1, kind));
            before = Some((line, kind));
            if kind != Kind::Doc || !begins {
                continue;
            }
            self.counts.comments += 1;
            if OPENINGS
                .iter()
                .any(|opening| text.trim_start().starts_with(opening))
            {
                self.counts.openings += 1;
                self.places
                    .push(format!("{place}: opening: {}", text.trim()));
            }
        }
    }

    fn words(&mut self, place: &str, text: &str) {
        let text = text.trim();
        let lower = text.to_lowercase();
        for word in WORDS {
            let is_word = |at: usize| {
                let end = &lower[at + word.len()..];
                let (before, end) = (lower[..at].chars().next_back(), end.chars().next());
                let is_letter =
                    |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                let is_there = lower[..at].trim_end().ends_with("there");
                !is_letter(before) && !is_letter(end) && !is_there
            };
            let uses = lower
                .match_indices(word)
                .filter(|(at, _)| is_word(*at))
                .count();
            self.counts.words += uses;
            if uses > 0 {
                self.places.push(format!("{place}: {word}: {text}"));
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Doc,
    Comment,
    Literal,
}

/// One line of a comment or of a string literal.
struct Prose<'a> {
    /// Counted from 1.
    line: usize,
    kind: Kind,
    text: &'a str,
}

/// Comments and string literals of a source.
fn prose(source: &str) -> Vec<Prose<'_>> {
    let mut found = Vec::new();
    // Marks that end the literal in which a line begins.
    let mut inside: Option<String> = None;
    for (n, text) in source.lines().enumerate() {
        let mut rest = text;
        let line = n + 1;
        loop {
            if let Some(end) = &inside {
                let at = literal_end(rest, end);
                let text = &rest[..at.unwrap_or(rest.len())];
                found.push(Prose {
                    line,
                    kind: Kind::Literal,
                    text,
                });
                let Some(at) = at else { break };
                rest = &rest[at + end.len()..];
                inside = None;
            }
            let Some(at) = rest.find(['"', '/', '\'']) else {
                break;
            };
            let from = &rest[at..];
            if let Some(comment) = from.strip_prefix("//") {
                let doc = comment
                    .strip_prefix(['/', '!'])
                    .filter(|d| !d.starts_with('/'));
                let kind = if doc.is_some() {
                    Kind::Doc
                } else {
                    Kind::Comment
                };
                found.push(Prose {
                    line,
                    kind,
                    text: doc.unwrap_or(comment),
                });
                break;
            }
            if let Some(literal) = from.strip_prefix('"') {
                let hashes = rest[..at].len() - rest[..at].trim_end_matches('#').len();
                let raw = rest[..at].trim_end_matches('#').ends_with('r');
                inside = Some(match raw {
                    true => format!("\"{}", "#".repeat(hashes)),
                    false => "\"".to_owned(),
                });
                rest = literal;
                continue;
            }
            // A character: `'"'` begins no literal.
            let skipped = ["'\"'", "'\\\"'"].into_iter().find(|c| from.starts_with(c));
            rest = &from[skipped.map_or(1, str::len)..];
        }
    }
    found
}

/// Position at which a literal ends in `text`.
fn literal_end(text: &str, end: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(end)?;
        let slashes = text[..at].len() - text[..at].trim_end_matches('\\').len();
        // In raw literals a backslash escapes nothing.
        if slashes.is_multiple_of(2) || end.len() > 1 {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r##"
//! What is here.
//! What is not the first line.

/// Returns a word that nobody reads.
fn f() -> char {
    // Nobody reads it; how many are there?
    let roomy = "there is no room"; // "quoted": of ours
    let raw = r#"a "told" \"#;
    let escaped = "a \" worth";
    let over = "two \
                so many lines";
    '"'
}

/// Whether it is.
fn told() {}
"##;

    fn counts(source: &str) -> (usize, usize, usize) {
        let mut part = Part::default();
        part.source("f.rs", source);
        let Counts {
            openings,
            words,
            comments,
        } = part.counts;
        (openings, words, comments)
    }

    #[test]
    fn openings_and_words_are_counted_where_they_are_prose() {
        // Nobody (2), room, of ours, told, worth, so many.
        assert_eq!(counts(SOURCE), (2, 7, 3));
        assert_eq!(counts("fn told(room: u8) {}\n"), (0, 0, 0));
        assert_eq!(counts("/// There is no log. It is no log.\n"), (0, 1, 1));
    }

    #[test]
    fn counts_may_only_fall() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for folder in ["crates/a/src", "xtask/src/check"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let write = |file: &str, text: &str| std::fs::write(root.join(file), text).unwrap();
        write("README.md", "Somebody.\n");
        write("crates/a/src/lib.rs", "/// What it is.\n");
        write(COMMITTED, "# head\na: 1 0\ndocs: 0 1\n");
        assert_eq!(check(root).unwrap(), []);
        write(
            "crates/a/src/lib.rs",
            "/// What is it.\n/// More.\n\n/// Of it.\n",
        );
        let found = check(root).unwrap();
        assert!(found[0].to_string().contains("a: has 2"), "{found:?}");
        assert!(!command(root, None).unwrap());
        write("crates/a/src/lib.rs", "/// A thing.\n");
        let found = check(root).unwrap();
        assert!(found[0].to_string().contains("lower"), "{found:?}");
        assert!(command(root, None).unwrap());
        assert_eq!(check(root).unwrap(), []);
        write("README.md", "Somebody, somebody.\n");
        assert_eq!(check(root).unwrap().len(), 1);
        command(root, Some("a")).unwrap();
        command(root, Some("b")).unwrap_err();
        write(COMMITTED, "a: 1\n");
        check(root).unwrap_err();
    }
}
