//! Rule: backquoted paths, `Type::member` and function names in the documentation exist in the code.

use super::imports::words;
use super::links::pages;
use super::{Violation, all_files, shown};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// Pages about the past, which may use names of that time.
const PAST: [&str; 3] = ["CHANGELOG.md", "docs/bugs-found.md", "docs/decisions/"];

/// Pages whose bare names with an underscore are names from the code. On other pages they may belong to
/// other programs.
const OF_THE_CODE: [&str; 4] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/internals.md",
    "docs/guide/",
];

/// Finds names that do not exist.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut files = Vec::new();
    all_files(root, root, &mut files)?;
    let names = Names::read(root, &files)?;
    let mut found = Vec::new();
    for page in pages(root)? {
        let name = shown(root, &page);
        if PAST.iter().any(|past| name.starts_with(past)) {
            continue;
        }
        let text = std::fs::read_to_string(&page).with_context(|| name.clone())?;
        let bare = OF_THE_CODE.iter().any(|page| name.starts_with(page));
        for (line, token) in backquoted(&text) {
            if let Some(what) = names.missing(token, bare) {
                found.push(Violation::new(
                    format!("{name}:{line}"),
                    format!("names the {what} `{token}`, which is not there"),
                    "use its current name",
                ));
            }
        }
    }
    Ok(found)
}

/// Returns the text between backquotes outside code blocks, with line numbers.
fn backquoted(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (n, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        if !in_block && !is_fence {
            found.extend(
                line.split('`')
                    .skip(1)
                    .step_by(2)
                    .map(|token| (n + 1, token)),
            );
        }
    }
    found
}

/// Names in the repository.
#[derive(Default)]
struct Names {
    /// Suffixes of the paths of files and folders.
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
    /// Words of each source file.
    sources: Vec<HashSet<String>>,
    /// Indexes of the source files that define a type, or implement something for it.
    types: BTreeMap<String, Vec<usize>>,
    /// Types defined in the repository.
    defined: HashSet<String>,
}

impl Names {
    fn read(root: &Path, files: &[String]) -> Result<Names> {
        let mut names = Names::default();
        for file in files {
            names.path(file);
            if file.ends_with(".rs") {
                let text =
                    std::fs::read_to_string(root.join(file)).with_context(|| file.clone())?;
                names.source(&text);
            }
        }
        Ok(names)
    }

    fn path(&mut self, file: &str) {
        let ends = |path: &str| -> Vec<String> {
            let parts: Vec<&str> = path.split('/').collect();
            (0..parts.len()).map(|n| parts[n..].join("/")).collect()
        };
        self.files.extend(ends(file));
        let mut folder = file;
        while let Some((above, _)) = folder.rsplit_once('/') {
            folder = above;
            self.folders.extend(ends(folder));
        }
    }

    fn source(&mut self, text: &str) {
        let all: Vec<&str> = words(text).map(|(_, word)| word).collect();
        let mut types = HashMap::new();
        for pair in all.windows(2) {
            if matches!(pair[0], "struct" | "enum" | "trait" | "union" | "type") {
                types.insert(pair[1], true);
            }
        }
        for line in text.lines().filter(|l| l.trim_start().starts_with("impl")) {
            for (_, word) in words(line) {
                types.entry(word).or_insert(false);
            }
        }
        for (name, is_defined) in types {
            let sources = self.types.entry(name.to_owned()).or_default();
            sources.push(self.sources.len());
            if is_defined {
                self.defined.insert(name.to_owned());
            }
        }
        self.sources
            .push(all.into_iter().map(str::to_owned).collect());
    }

    /// Returns the kind of a name that does not exist.
    fn missing(&self, token: &str, bare: bool) -> Option<&'static str> {
        let is_path = |c: char| c.is_alphanumeric() || "_-./".contains(c);
        let path = token.trim_start_matches("../").trim_start_matches("./");
        if token.chars().all(is_path) && [".rs", ".md", ".toml"].iter().any(|e| path.ends_with(e)) {
            return (!self.files.contains(path)).then_some("file");
        }
        if token.chars().all(is_path) && (path.ends_with('/') || path.starts_with("crates/")) {
            let folder = path.trim_end_matches('/');
            let is_there = self.folders.contains(folder) || self.files.contains(folder);
            return (!is_there && folder.contains(char::is_alphanumeric)).then_some("folder");
        }
        let name = token.split('(').next().unwrap_or(token);
        let is_name = |c: char| c.is_alphanumeric() || "_:".contains(c);
        if !name.chars().all(is_name) {
            return None;
        }
        let parts: Vec<&str> = name.split("::").collect();
        match parts[..] {
            [.., owner, member] if owner.starts_with(char::is_uppercase) => {
                let sources = self.types.get(owner).into_iter().flatten();
                let is_there = sources
                    .into_iter()
                    .any(|n| self.sources[*n].contains(member));
                (self.defined.contains(owner) && !is_there).then_some("member")
            }
            [name] if bare && name.contains('_') && name.starts_with(char::is_lowercase) => {
                let is_there = self.sources.iter().any(|words| words.contains(name));
                (!is_there).then_some("name")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_is_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "crates/a/src/low/log.rs",
            "pub struct Log {\n    pub len: u64,\n}\nimpl Log {\n    pub fn open() {}\n}\nfn do_it() {}\n",
        );
        write(
            "README.md",
            "`log.rs` `low/log.rs` `crates/a/src/low/log.rs` `low/` `crates/a/src` `Log::open` `a::Log::open(x)`\n\
             `Log::len` `Vec::nothing` `do_it` `do_it()` `a b_c`\n```\n`Log::shut`\n```\n",
        );
        assert_eq!(check(root.path()).unwrap(), []);
        for wrong in [
            "high/log.rs",
            "high/",
            "crates/b/src",
            "Log::shut",
            "Log::shut(x)",
            "do_nothing",
            "do_nothing()",
        ] {
            write("README.md", &format!("# A\n\n`{wrong}`\n"));
            let found = check(root.path()).unwrap();
            assert_eq!(found.len(), 1, "{wrong}");
            let said = found[0].to_string();
            assert!(said.contains("README.md:3: names the"), "{said}");
            assert!(said.contains(&format!("`{wrong}`")), "{said}");
        }
        for past in ["docs/decisions/1.md", "CHANGELOG.md"] {
            write("README.md", "");
            write(past, "`Log::shut`\n");
            assert_eq!(check(root.path()).unwrap(), []);
        }
    }
}
