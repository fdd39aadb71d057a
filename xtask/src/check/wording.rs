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
    let parts = parts(root)?;
    for name in committed.keys().filter(|name| !parts.contains_key(*name)) {
        let what = format!("has a part {name}, which does not exist");
        found.push(Violation::new(COMMITTED, what, "remove the line"));
    }
    for (name, part) in parts {
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
        part.page(&shown(root, &page), &text);
    }
    Ok(parts)
}

impl Part {
    fn source(&mut self, file: &str, text: &str) {
        for Prose { line, kind, text } in prose(text) {
            let place = format!("{file}:{line}");
            self.words(&place, &text);
            if !matches!(kind, Kind::Inner | Kind::Outer) {
                continue;
            }
            self.counts.comments += 1;
            if OPENINGS.iter().any(|opening| text.starts_with(opening)) {
                self.counts.openings += 1;
                self.places.push(format!("{place}: opening: {text}"));
            }
        }
    }

    /// Counts the words of a page, by paragraphs and by rows of tables.
    fn page(&mut self, file: &str, text: &str) {
        let mut paragraph = String::new();
        let mut begin = 1;
        for (n, line) in text.lines().chain([""]).enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('|') {
                self.words(&format!("{file}:{begin}"), &paragraph);
                paragraph.clear();
            }
            if paragraph.is_empty() {
                begin = n + 1;
            }
            if !line.is_empty() {
                paragraph += line;
                paragraph.push(' ');
            }
        }
        self.words(&format!("{file}:{begin}"), &paragraph);
    }

    fn words(&mut self, place: &str, text: &str) {
        let text = text.trim();
        let lower = text.to_lowercase();
        for word in WORDS {
            let is_word = |at: usize| {
                let end = &lower[at + word.len()..];
                let (before, end) = (lower[..at].chars().next_back(), end.chars().next());
                // In `{told}` it is a variable.
                let is_letter =
                    |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "_{".contains(c));
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
    /// A doc comment about what contains it.
    Inner,
    /// A doc comment about what follows it.
    Outer,
    Comment,
    Literal,
}

/// A string literal, or a comment: lines of one kind without anything between them.
struct Prose {
    /// First line, counted from 1.
    line: usize,
    kind: Kind,
    /// Lines, joined by spaces.
    text: String,
}

/// End of a string literal.
struct End {
    marks: String,
    is_raw: bool,
}

/// Returns comments and string literals of a source.
fn prose(source: &str) -> Vec<Prose> {
    let mut found: Vec<Prose> = Vec::new();
    // Last line of the latest comment with nothing else in its line.
    let mut commented = 0;
    // The literal in which a line begins.
    let mut inside: Option<End> = None;
    for (n, text) in source.lines().enumerate() {
        let mut rest = text;
        let line = n + 1;
        loop {
            if let Some(end) = &inside {
                let at = end.position(rest);
                let part = &rest[..at.unwrap_or(rest.len())];
                if let Some(literal) = found.last_mut() {
                    literal.text.push(' ');
                    literal.text += part.trim().trim_end_matches('\\').trim_end();
                }
                let Some(at) = at else { break };
                rest = &rest[at + end.marks.len()..];
                inside = None;
            }
            let Some(at) = rest.find(['"', '/', '\'']) else {
                break;
            };
            let (before, from) = rest.split_at(at);
            if let Some(text) = from.strip_prefix("//") {
                let (kind, text) = kind_of(text);
                let text = text.trim();
                let is_alone = before.trim().is_empty();
                let goes_on = is_alone && commented + 1 == line;
                match found.last_mut().filter(|last| goes_on && last.kind == kind) {
                    Some(last) => last.text = format!("{} {text}", last.text),
                    None => found.push(Prose {
                        line,
                        kind,
                        text: text.to_owned(),
                    }),
                }
                commented = if is_alone { line } else { 0 };
                break;
            }
            if let Some(literal) = from.strip_prefix('"') {
                inside = Some(End::after(before));
                found.push(Prose {
                    line,
                    kind: Kind::Literal,
                    text: String::new(),
                });
                rest = literal;
                continue;
            }
            // A character: `'"'` begins no literal.
            let character = ["'\"'", "'\\\"'"].into_iter().find(|c| from.starts_with(c));
            rest = &from[character.map_or(1, str::len)..];
        }
    }
    found
}

/// Returns the kind of a comment, from what follows its two slashes, and its text.
fn kind_of(text: &str) -> (Kind, &str) {
    match (text.strip_prefix('!'), text.strip_prefix('/')) {
        (Some(text), _) => (Kind::Inner, text),
        (_, Some(text)) if !text.starts_with('/') => (Kind::Outer, text),
        _ => (Kind::Comment, text),
    }
}

impl End {
    /// Returns the end of the literal whose first quotation mark follows `before`.
    fn after(before: &str) -> End {
        let unhashed = before.trim_end_matches('#');
        let is_raw = unhashed.ends_with('r');
        let hashes = if is_raw {
            before.len() - unhashed.len()
        } else {
            0
        };
        let marks = format!("\"{}", "#".repeat(hashes));
        End { marks, is_raw }
    }

    /// Returns the position in `text`, if the literal ends there.
    fn position(&self, text: &str) -> Option<usize> {
        let mut from = 0;
        loop {
            let at = from + text[from..].find(&self.marks)?;
            let slashes = text[..at].len() - text[..at].trim_end_matches('\\').len();
            // In a raw literal a backslash escapes nothing.
            if self.is_raw || slashes.is_multiple_of(2) {
                return Some(at);
            }
            from = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn openings_are_those_of_doc_comments() {
        for (openings, comments, source) in [
            (1, 1, "//! What is here.\n//! What is not the first line.\n"),
            (1, 2, "//! A module.\n/// Whether it is.\n"),
            (2, 2, "/// Of one.\nfn f() {}\n/// That of two.\n"),
            (0, 0, "// What is no doc comment.\n//// Nor is this.\n"),
            (0, 1, "/// Whatever it is.\n"),
            (1, 1, "let path = r\"\\\\.\\\";\n/// Where it is.\n"),
            (1, 1, "let quote = '\"';\n/// Which it is.\n"),
            (1, 1, "let quote = '\\\"';\n/// Which it is.\n"),
        ] {
            let (found, _, all) = counts(source);
            assert_eq!((found, all), (openings, comments), "{source}");
        }
        for opening in OPENINGS {
            assert_eq!(counts(&format!("/// {opening}it.\n")).0, 1, "{opening}");
        }
    }

    #[test]
    fn words_are_those_of_prose() {
        for (words, source) in [
            (0, "fn told(room: u8) {}\n"),
            (0, "// The bug room_taken is retold.\n"),
            (0, "// There is no log.\n"),
            (0, "let text = \"{told}\";\n"),
            (1, "// Nobody reads it.\n"),
            (2, "let text = \"nobody\"; // nobody\n"),
            (2, "let text = r#\"a \"told\" \\\"#; // nobody\n"),
            (1, "let text = \"a \\\" worth\";\n"),
            (1, "let text = \"so \\\n    many lines\";\n"),
            (1, "/// A line that is\n/// no longer whole.\n"),
            (0, "f(); // a line that is\n// no longer whole\n"),
            (0, "// A line that is\nf(); // no longer whole\n"),
        ] {
            assert_eq!(counts(source).1, words, "{source}");
        }
        for word in WORDS {
            assert_eq!(counts(&format!("// {word}.\n")).1, 1, "{word}");
        }
        let mut part = Part::default();
        part.page("a.md", "One that is\nno page.\n\nTwo.\n\nNobody.\n");
        assert_eq!(part.counts.words, 2);
        assert!(part.places[1].starts_with("a.md:6:"), "{:?}", part.places);
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
        assert!(!command(root, None).unwrap(), "it commits a rise");
        write("README.md", "");
        write(COMMITTED, "b: 0 0\n");
        assert_eq!(check(root).unwrap().len(), 1);
        for folder in ["benches", "crates/c", "docs/new", "examples", "fuzz"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        write(COMMITTED, "");
        write("benches/b.rs", "/// What.\n// Nobody.\n");
        write("examples/e.rs", "// Nobody.\n");
        write("fuzz/f.rs", "// Nobody.\n");
        write("crates/c/c.rs", "// Nobody.\n");
        write("docs/new/n.md", "Nobody.\n");
        assert_eq!(check(root).unwrap().len(), 5);
        write(COMMITTED, "a: 1\n");
        check(root).unwrap_err();
    }
}
