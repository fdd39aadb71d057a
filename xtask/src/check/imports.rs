//! Imports between the files of a crate, read from the text.

use super::{shown, sources};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Name of the module of `lib.rs`, or of `main.rs` if there is no library.
pub const ROOT: &str = "lib";

/// Texts of a crate's files by module.
pub type Texts = BTreeMap<String, String>;

/// Imports of a file from its own crate, by module paths.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// Reads the files below the folder `src` of a crate.
pub fn texts(src: &Path) -> Result<Texts> {
    let files = sources(src)?.into_iter();
    let mut texts: Texts = files
        .map(|(path, text)| (module(&shown(src, &path)), text))
        .collect();
    if !texts.contains_key(ROOT)
        && let Some(main) = texts.remove("main")
    {
        texts.insert(ROOT.to_owned(), main);
    }
    texts.remove("main");
    Ok(texts)
}

/// Returns the module of a file: `engine/mod.rs` is `engine`, `engine/commit.rs` is `engine::commit`.
pub fn module(file: &str) -> String {
    let path = file.trim_end_matches(".rs").replace('/', "::");
    path.strip_suffix("::mod").unwrap_or(&path).to_owned()
}

/// Returns the imports of each file except the crate's root.
pub fn imports(texts: &Texts) -> Imports {
    let known: BTreeSet<&str> = texts.keys().map(String::as_str).collect();
    let files = texts.iter().filter(|(name, _)| *name != ROOT);
    files
        .map(|(name, text)| {
            let used = paths(text, name, &known)
                .iter()
                .filter_map(|path| nearest(path, &known))
                .filter(|to| to != name)
                .collect();
            (name.clone(), used)
        })
        .collect()
}

/// Returns the paths in the code of a file, including those that begin with a child's name.
pub fn paths(text: &str, module: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let code = code(text);
    let base = if module == ROOT { "" } else { module };
    let mut paths = used(&code, base);
    for (at, word) in words(&code) {
        let is_first = !code[..at].ends_with([':', '.']);
        let child = match base {
            "" => word.to_owned(),
            _ => format!("{base}::{word}"),
        };
        if is_first && code[at + word.len()..].starts_with("::") && known.contains(child.as_str()) {
            tree(&code[at..], base, &mut paths);
        }
    }
    paths
}

/// Returns the text without comments and without its unit tests.
pub fn code(text: &str) -> String {
    let shipped = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let lines = shipped.lines().map(|l| l.split("//").next().unwrap_or(""));
    lines.flat_map(|l| [l, "\n"]).collect()
}

/// Returns the paths that begin with `crate::`, `super::` or `self::`, and those that begin with a
/// child's name in a `use`. All are relative to the crate's root.
pub fn used(code: &str, module: &str) -> Vec<String> {
    let mut used = Vec::new();
    let mut rest = 0;
    for (at, word) in words(code) {
        let begins = match word {
            "crate" | "super" | "self" => code[at + word.len()..].starts_with("::"),
            _ => after_use(code, at),
        };
        if at >= rest && begins {
            rest = code.len() - tree(&code[at..], module, &mut used).len();
        }
    }
    used
}

/// Returns true if a path starts at `at` that a `use` imports.
fn after_use(code: &str, at: usize) -> bool {
    let line = code[..at].rsplit('\n').next().unwrap_or("").trim();
    line == "use" || line.starts_with("pub") && line.ends_with(" use")
}

/// Returns the identifiers and keywords of a text, with their offsets.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let texts = code.split(move |c| !is_part(c));
    let at = move |word: &str| word.as_ptr() as usize - code.as_ptr() as usize;
    texts.filter(|w| !w.is_empty()).map(move |w| (at(w), w))
}

/// Returns the names that are imported from the crate's root although no file there has that name.
pub fn re_exports(code: &str, name: &str, texts: &BTreeMap<String, String>) -> Vec<String> {
    let paths = used(code, name).into_iter();
    let tops = paths.map(|p| p.split("::").next().unwrap_or("").to_owned());
    let is_file = |top: &String| texts.keys().any(|m| m.split("::").next() == Some(top));
    tops.filter(|top| !is_file(top)).collect()
}

/// Adds the paths of the use tree at the start of a text; they are relative to `base`. Returns the text
/// after the tree.
fn tree<'a>(text: &'a str, base: &str, used: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let (path, mut rest) = text.split_at(end.unwrap_or(text.len()));
    let mut joined = base.to_owned();
    for part in path.split("::").filter(|part| !part.is_empty()) {
        joined = match part {
            "crate" => String::new(),
            "self" => joined,
            "super" => joined.rsplit_once("::").map_or("", |(up, _)| up).to_owned(),
            _ if joined.is_empty() => part.to_owned(),
            _ => format!("{joined}::{part}"),
        };
    }
    if !rest.starts_with('{') || !(path.is_empty() || path.ends_with("::")) {
        used.push(joined);
        return rest;
    }
    while let Some(inner) = rest.strip_prefix(['{', ',']) {
        if inner.trim_start().starts_with('}') {
            rest = inner.trim_start();
            break;
        }
        rest = tree(inner, &joined, used);
        // Skips ` as name` and `*`.
        let end = rest.find([',', '}', ';']);
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

/// Returns the file that contains the item of a path.
pub fn nearest(path: &str, known: &BTreeSet<&str>) -> Option<String> {
    let mut path = path;
    loop {
        if known.contains(path) {
            return Some(path.to_owned());
        }
        path = path.rsplit_once("::")?.0;
    }
}
