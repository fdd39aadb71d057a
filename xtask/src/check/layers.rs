//! The layers of `core`: which of its folders may use which, and no circle among its files.

use super::{Violation, shown, sources};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The folders and files at the top of `core`, the lowest first. Each may use those before it.
pub const LAYERS: &[(&str, &str)] = &[
    ("names", "the names of files"),
    ("error", "what went wrong, and what to do"),
    ("policy", "what a commit waits for"),
    ("types", "what the log answers"),
    ("advisor", "the trait that chooses the method"),
    ("options", "what the owner asks for"),
    ("trace", "spans and events"),
    (
        "sync",
        "events, wakers, the lock that may be held across a device call",
    ),
    (
        "storage",
        "files: the control file, segments, what is read from them",
    ),
    (
        "scan",
        "batches in order, where the log ends, a walk over all of it",
    ),
    ("state", "what the mutex guards: pure memory"),
    ("metrics", "what is counted and timed"),
    ("read", "readers, followers, inspection"),
    ("engine", "append, commit, publish"),
    ("truncation", "front, back, pins"),
    ("background", "the log's own threads"),
    ("recovery", "from files to the parts of an engine"),
    ("log", "the public handle"),
];

/// What a file of a crate imports of the same crate, by module paths.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Compares the imports of `core` with its layers.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let src = root.join("crates/core/src");
    let mut texts = BTreeMap::new();
    for (path, text) in sources(&src)? {
        texts.insert(module(&shown(&src, &path)), text);
    }
    Ok(found(&texts, LAYERS))
}

fn found(texts: &BTreeMap<String, String>, layers: &[(&str, &str)]) -> Vec<Violation> {
    let imports = imports(texts);
    let place = |module: &str| format!("crates/core, module {module}");
    let rank = |module: &str| {
        let top = module.split("::").next().unwrap_or(module);
        layers.iter().position(|(name, _)| *name == top)
    };
    let mut found = Vec::new();
    for (from, used) in &imports {
        let Some(own) = rank(from) else {
            found.push(Violation::new(
                place(from),
                "is in no layer",
                "give its folder a place in xtask/src/check/layers.rs",
            ));
            continue;
        };
        for to in used.iter().filter(|to| rank(to).is_some_and(|r| r > own)) {
            found.push(Violation::new(
                place(from),
                format!("uses {to}, which is above it"),
                "move what it needs down, or hand it in; the layers are in \
                 xtask/src/check/layers.rs",
            ));
        }
    }
    for (from, text) in texts.iter().filter(|(name, _)| *name != "lib") {
        for name in re_exports(&code(text), texts) {
            found.push(Violation::new(
                place(from),
                format!("uses {name} by its re-export"),
                "import it from the file that defines it, so that its layer is seen",
            ));
        }
    }
    for circle in circles(&imports) {
        found.push(Violation::new(
            place(&circle[0]),
            format!("is in a circle of imports: {}", circle.join(" → ")),
            "move the data that both need into a file that uses neither",
        ));
    }
    found
}

/// The module of a file: `engine/mod.rs` is `engine`, `engine/commit.rs` is `engine::commit`.
fn module(file: &str) -> String {
    let path = file.trim_end_matches(".rs").replace('/', "::");
    path.strip_suffix("::mod").unwrap_or(&path).to_owned()
}

fn imports(texts: &BTreeMap<String, String>) -> Imports {
    let known: BTreeSet<&str> = texts.keys().map(String::as_str).collect();
    let files = texts.iter().filter(|(name, _)| *name != "lib");
    files
        .map(|(name, text)| {
            let used = used(&code(text), name)
                .iter()
                .filter_map(|path| nearest(path, &known))
                .filter(|to| to != name)
                .collect();
            (name.clone(), used)
        })
        .collect()
}

/// The text without comments and without its unit tests.
fn code(text: &str) -> String {
    let shipped = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let lines = shipped.lines().map(|l| l.split("//").next().unwrap_or(""));
    lines.flat_map(|l| [l, "\n"]).collect()
}

/// The paths that begin with `crate::` or `super::`, and those that begin with a child's name in a
/// `use`.
fn used(code: &str, module: &str) -> Vec<String> {
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let mut used = Vec::new();
    for (word, base) in [("crate::", ""), ("super::", parent)] {
        for (at, _) in code.match_indices(word) {
            used.extend(tree(&code[at + word.len()..], base));
        }
    }
    for line in code.lines() {
        let line = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub ");
        if let Some(path) = line.strip_prefix("use ") {
            used.extend(tree(path, module));
        }
    }
    used
}

/// What is imported from the crate's root, and no file there is named so.
fn re_exports(code: &str, texts: &BTreeMap<String, String>) -> Vec<String> {
    let paths = code.match_indices("crate::");
    let paths = paths.flat_map(|(at, word)| tree(&code[at + word.len()..], ""));
    let tops = paths.map(|p| p.split("::").next().unwrap_or("").to_owned());
    let is_file = |top: &String| texts.keys().any(|m| m.split("::").next() == Some(top));
    tops.filter(|top| !is_file(top)).collect()
}

/// The paths of a use tree, each behind `base`.
fn tree(text: &str, base: &str) -> Vec<String> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let (path, rest) = text.split_at(end.unwrap_or(text.len()));
    let joined = |name: &str| {
        let parts = [base, path.trim_end_matches("::"), name];
        let parts: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        parts.join("::")
    };
    match rest.strip_prefix('{').and_then(|r| r.split('}').next()) {
        Some(names) if path.is_empty() || path.ends_with("::") => {
            names.split(',').map(|n| joined(n.trim())).collect()
        }
        _ => vec![joined("")],
    }
}

/// The file that holds what a path names.
fn nearest(path: &str, known: &BTreeSet<&str>) -> Option<String> {
    let mut path = path.split(' ').next()?;
    loop {
        if known.contains(path) {
            return Some(path.to_owned());
        }
        path = path.rsplit_once("::")?.0;
    }
}

/// One circle for each file that is in one and in none that was found before.
fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for start in imports.keys() {
        if found.iter().flatten().any(|m| m == start) {
            continue;
        }
        found.extend(way_back(imports, start));
    }
    found
}

/// The shortest way along imports from a file back to it.
fn way_back(imports: &Imports, start: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.to_owned()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in imports.get(way.last()?).into_iter().flatten() {
                if next == start {
                    return Some([way, vec![start.to_owned()]].concat());
                }
                if seen.insert(next.clone()) {
                    longer.push([way.clone(), vec![next.clone()]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[(&str, &str)] = &[("low", "below"), ("high", "above")];

    fn said(files: &[(&str, &str)]) -> String {
        let texts = files.iter().map(|(f, t)| (module(f), (*t).to_owned()));
        let found = found(&texts.collect(), TWO);
        found.iter().map(|v| format!("{v}\n")).collect()
    }

    #[test]
    fn downwards_passes() {
        let high = "use crate::low::{Kind, part::Other};\n// crate::high\nuse std::fmt;\n";
        let tests = "#[cfg(test)]\nmod tests {\n use crate::high::X;\n}\n";
        let files = [
            ("low/mod.rs", "pub mod part;\n"),
            ("low/part.rs", tests),
            ("high.rs", high),
            ("lib.rs", "pub use high::X;"),
        ];
        assert_eq!(said(&files), "");
    }

    #[test]
    fn upwards_and_nowhere_are_found() {
        let files = [
            ("low/part.rs", "fn f(x: crate::high::X) {}\n"),
            ("high.rs", ""),
        ];
        let text = said(&files);
        assert!(text.contains("module low::part: uses high"), "{text}");
        let text = said(&[("low.rs", "use crate::{Kind};\n")]);
        assert!(
            text.contains("module low: uses Kind by its re-export"),
            "{text}"
        );
        let text = said(&[("new.rs", "")]);
        assert!(text.contains("module new: is in no layer"), "{text}");
    }

    #[test]
    fn a_circle_is_found_once() {
        let files = [
            ("low/mod.rs", "mod a;\nuse a::A;\n"),
            ("low/a.rs", "use super::b::{B, C};\n"),
            ("low/b.rs", "use crate::low::D;\n"),
        ];
        let text = said(&files);
        assert!(text.contains("low → low::a → low::b → low"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
