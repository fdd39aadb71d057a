//! Rule: no circles of imports. Two files of a crate that need each other are one subject split over two
//! files.
//!
//! A folder's `mod.rs` may share with the files below it: it uses them, and they use its definitions. In
//! the crates of [`STRICT`] they may not. A name that a file re-exports counts for the file that defines
//! it.

use super::imports::{Imports, ROOT, Texts, imports, nearest, paths, texts};
use super::{Violation, list, shown};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates in which a file below a folder may not use definitions of the folder's `mod.rs`, if that uses
/// the file.
const STRICT: &[&str] = &["crates/core"];

/// Finds the circles of every crate, including crates outside the workspace.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for dir in crates(root)? {
        let name = shown(root, &dir);
        let texts = texts(&dir.join("src"))?;
        found.extend(in_circles(&name, &texts, STRICT.contains(&name.as_str())));
    }
    Ok(found)
}

/// Returns the directories of the crates.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let mut dirs = ["xtask", "benches", "fuzz"]
        .map(|dir| root.join(dir))
        .to_vec();
    for folder in ["crates", "examples"].map(|folder| root.join(folder)) {
        if folder.is_dir() {
            dirs.extend(list(&folder)?);
        }
    }
    dirs.retain(|dir| dir.join("src").is_dir());
    Ok(dirs)
}

/// Returns the circles of a crate.
pub fn in_circles(name: &str, texts: &Texts, strict: bool) -> Vec<Violation> {
    let graph = if strict {
        imports(texts)
    } else {
        across_folders(texts)
    };
    let circles = circles(&graph).into_iter();
    let violation = |circle: Vec<String>| {
        Violation::new(
            format!("{name}, module {}", circle[0]),
            format!("is in a circle of imports: {}", circle.join(" → ")),
            "move the data that both need into a file that uses neither",
        )
    };
    circles.map(violation).collect()
}

/// Returns the imports of each file from other folders.
fn across_folders(texts: &Texts) -> Imports {
    let known: BTreeSet<&str> = texts.keys().map(String::as_str).collect();
    let mut uses: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    for (name, text) in texts {
        let uses = uses.entry(name).or_default();
        for path in paths(text, name, &known) {
            let file = nearest(&path, &known).unwrap_or_else(|| ROOT.to_owned());
            let item = path.strip_prefix(&file).unwrap_or(&path);
            let item = item.trim_start_matches("::").split("::").next();
            uses.push((file, item.unwrap_or("").to_owned()));
        }
    }
    let mut graph = Imports::new();
    for (name, used) in uses.iter().filter(|(name, _)| **name != ROOT) {
        let files = used.iter().map(|(file, item)| defining(&uses, file, item));
        let is_above =
            |file: &String| file == ROOT || format!("{name}::").starts_with(&format!("{file}::"));
        let files = files.filter(|file| !is_above(file)).collect();
        graph.insert((*name).to_owned(), files);
    }
    graph
}

/// Returns the file that defines an item, following the imports of files that re-export it.
fn defining(uses: &BTreeMap<&str, Vec<(String, String)>>, file: &str, item: &str) -> String {
    let mut file = file;
    let mut seen = BTreeSet::new();
    while seen.insert(file) {
        let imported = uses.get(file).into_iter().flatten();
        let mut imported = imported.filter(|(from, i)| i == item && from != file);
        match imported.next() {
            Some((from, _)) if !item.is_empty() => file = from,
            _ => break,
        }
    }
    file.to_owned()
}

/// Returns one circle for each file that is in a circle and in none of those already found.
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

/// Returns the shortest path along imports from a file back to itself.
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
    use super::super::imports::module;
    use super::*;

    fn found(files: &[(&str, &str)], strict: bool) -> String {
        let texts = files.iter().map(|(f, t)| (module(f), (*t).to_owned()));
        let found = in_circles("crates/a", &texts.collect(), strict);
        found.iter().map(|v| format!("{v}\n")).collect()
    }

    #[test]
    fn a_circle_is_found_once() {
        let files = [
            ("low/mod.rs", "mod a;\nuse a::A;\n"),
            ("low/a.rs", "use super::b::{B, C};\n"),
            ("low/b.rs", "use crate::low::D;\n"),
        ];
        let text = found(&files, true);
        assert!(text.contains("low → low::a → low::b → low"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let files = [
            ("low/mod.rs", "use part::{a::{A, B},\n c::C};\n"),
            ("low/part/c.rs", "use super::super::D;\n"),
        ];
        let text = found(&files, true);
        assert!(text.contains("low → low::part::c → low"), "{text}");
        let files = [
            ("low/mod.rs", "mod a;\nfn f() {\n    a::g();\n}\n"),
            ("low/a.rs", "use super::D;\n"),
        ];
        let text = found(&files, true);
        assert!(text.contains("low → low::a → low"), "{text}");
    }

    #[test]
    fn a_folder_shares_with_its_files() {
        let folder = "mod a;\nuse a::A;\npub struct D;\n";
        let files = [("low/mod.rs", folder), ("low/a.rs", "use super::D;\n")];
        assert_eq!(found(&files, false), "");
        let files = [
            (
                "low/mod.rs",
                "mod a;\nmod b;\npub use a::A;\npub use b::B;\n",
            ),
            ("low/a.rs", "fn a() -> super::B {}\n"),
            ("low/b.rs", "fn b() -> crate::A {}\n"),
            ("lib.rs", "mod low;\npub use low::A;\n"),
        ];
        let text = found(&files, false);
        assert!(text.contains("low::a → low::b → low::a"), "{text}");
        let files = [
            ("low/mod.rs", "mod a;\n"),
            ("low/a.rs", "use crate::high::f;\n"),
            ("high.rs", "fn f() {\n    crate::low::a::g();\n}\n"),
        ];
        let text = found(&files, false);
        assert!(text.contains("high → low::a → high"), "{text}");
    }
}
