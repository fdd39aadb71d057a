//! Rule: the listing of the public API is up to date. It has each name, method, field and variant that a
//! user of the crate `logforce` can write, with its signature. The listing is in the repository, so that
//! a review shows each change.
//!
//! The listing is made from the sources and not by the compiler: it needs no nightly compiler, builds
//! nothing, and takes a fraction of a second. It misses definitions by the project's macros, and auto
//! traits.

mod print;
mod source;

use super::Violation;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Path of the listing, below the root.
const LISTING: &str = "crates/logforce/public-api.txt";
/// Maximum number of names at the root of the crate `logforce`, modules included.
const ROOT_NAMES: usize = 45;
/// Maximum number of public methods of `Log`.
const LOG_METHODS: usize = 32;
/// Crates that contribute to the public API, by directory below `crates`.
const CRATES: &[&str] = &[
    "logforce",
    "core",
    "pages",
    "device",
    "format",
    "calibrate",
    "device-os",
];

/// Writes the listing.
pub fn command() -> Result<bool> {
    let root = Workspace::find()?.root;
    let path = root.join(LISTING);
    std::fs::write(&path, listing(&root)?.text).with_context(|| path.display().to_string())?;
    println!("{LISTING}: written");
    Ok(true)
}

/// Compares the listing with the sources, and its size with the limits.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let now = listing(root)?;
    let mut found = Vec::new();
    let kept = std::fs::read_to_string(root.join(LISTING)).unwrap_or_default();
    if let Some(difference) = first_difference(&kept, &now.text) {
        found.push(Violation::new(
            LISTING,
            format!("is not the public surface: {difference}"),
            "if the change is intended, run `cargo xtask public-api`",
        ));
    }
    let limits = [
        ("names at the root", now.root_names, ROOT_NAMES),
        ("methods on `Log`", now.log_methods, LOG_METHODS),
    ];
    for (what, count, limit) in limits {
        if count > limit {
            found.push(Violation::new(
                LISTING,
                format!("has {count} {what}, more than {limit}"),
                "use or extend an existing name, or add a module",
            ));
        }
    }
    Ok(found)
}

/// Public API as text, and its size.
struct Listing {
    text: String,
    root_names: usize,
    log_methods: usize,
}

fn listing(root: &Path) -> Result<Listing> {
    let dirs: Vec<(String, PathBuf)> = CRATES
        .iter()
        .map(|name| (crate_name(name), root.join("crates").join(name).join("src")))
        .collect();
    let sources = source::Sources::read(&dirs)?;
    let surface = sources.surface("logforce")?;
    let lines = print::lines(&surface);
    let root_names = surface.root_names;
    let log = surface
        .items
        .iter()
        .find(|item| item.name == "logforce::Log");
    let log_methods = log.map_or(0, |log| print::methods(log).len());
    let head = format!(
        "# The public surface of the crate `logforce`; written by `cargo xtask public-api`.\n\
         # {root_names} names at the root, {log_methods} methods on `Log`.\n"
    );
    Ok(Listing {
        text: head + &lines.join("\n") + "\n",
        root_names,
        log_methods,
    })
}

/// Returns the name of the crate in `crates/DIR`, as the sources spell it.
fn crate_name(dir: &str) -> String {
    match dir {
        "logforce" => "logforce".to_owned(),
        dir => format!("logforce_{}", dir.replace('-', "_")),
    }
}

fn first_difference(kept: &str, now: &str) -> Option<String> {
    let (mut kept, mut now) = (kept.lines(), now.lines());
    loop {
        match (kept.next(), now.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => {
                let line = |line: Option<&str>| line.unwrap_or("(end)").trim().to_owned();
                return Some(format!(
                    "the file has `{}`, the sources `{}`",
                    line(a),
                    line(b)
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[(&str, &str)]) -> String {
        let root = tempfile::tempdir().unwrap();
        for name in CRATES {
            let src = root.path().join("crates").join(name).join("src");
            std::fs::create_dir_all(&src).unwrap();
            std::fs::write(src.join("lib.rs"), "").unwrap();
        }
        for (path, text) in files {
            let path = root.path().join("crates").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        listing(root.path()).unwrap().text
    }

    #[test]
    fn re_exports_are_followed_and_what_is_hidden_is_not_listed() {
        let text = listed(&[
            (
                "logforce/src/lib.rs",
                "pub mod disk { pub use logforce_core::Kind as Sort; }\n\
                 pub use logforce_core::Log; fn own() {} \
                 #[doc(hidden)] pub mod internal { pub use logforce_core::Secret; }",
            ),
            (
                "core/src/lib.rs",
                "mod log; mod other; pub use log::Log; pub use other::*; pub struct Secret;",
            ),
            (
                "core/src/log/mod.rs",
                "mod more; #[derive(Clone)] pub struct Log { private: u8 } \
                 impl Log { pub fn close(self) -> Result<()> { Ok(()) } #[doc(hidden)] pub fn seam(&self) {} }",
            ),
            (
                "core/src/log/more.rs",
                "use super::Log; impl Log { pub fn append(&self, records: impl Append) {} fn own() {} } \
                 impl std::fmt::Debug for Log { fn fmt(&self) {} }",
            ),
            (
                "core/src/other.rs",
                "#[non_exhaustive] pub enum Kind { One, Two { why: &'static str }, #[doc(hidden)] Three }",
            ),
        ]);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "# 2 names at the root, 2 methods on `Log`.",
                "struct logforce::Log: Clone, Debug",
                "    fn append(&self, records: impl Append)",
                "    fn close(self) -> Result<()>",
                "mod logforce::disk",
                "enum logforce::disk::Sort (non_exhaustive)",
                "    One",
                "    Two { why: &'static str }",
            ]
        );
    }

    #[test]
    fn a_difference_names_both_lines() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let told = first_difference("a\nb\n", "a\n").unwrap();
        assert_eq!(told, "the file has `b`, the sources `(end)`");
    }
}
