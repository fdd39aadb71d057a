//! Rule: the listings of the public API are up to date. They have each name, method, field and variant that a
//! user of the crates `logforce`, `logforce-crashtest` and `logforce-openraft` can write, with its signature. The
//! listings are in the repository, so that a review shows each change.
//!
//! A listing is made from the sources and not by the compiler: it needs no nightly compiler, builds
//! nothing, and takes a fraction of a second. It misses definitions by the project's macros, and auto
//! traits.

mod print;
mod source;

use super::Violation;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Public API of a crate that users name.
struct Api {
    /// Directory of the crate, below `crates`.
    krate: &'static str,
    /// Crates that contribute to it, by directory below `crates`.
    crates: &'static [&'static str],
    /// Maximum number of names at the root, modules included.
    root_names: usize,
    /// The type with the most methods, and their maximum number.
    largest: (&'static str, usize),
}

const APIS: [Api; 3] = [
    Api {
        krate: "logforce",
        crates: &[
            "logforce",
            "core",
            "commit",
            "pages",
            "device",
            "format",
            "calibrate",
            "device-os",
        ],
        root_names: 48,
        largest: ("Log", 34),
    },
    Api {
        krate: "crashtest",
        crates: &["crashtest"],
        root_names: 7,
        largest: ("Crashtest", 10),
    },
    Api {
        krate: "openraft",
        crates: &["openraft"],
        root_names: 3,
        largest: ("v09::LogStore", 2),
    },
];

/// Writes the listings.
pub fn command() -> Result<bool> {
    let root = Workspace::find()?.root;
    for api in &APIS {
        let path = api.path();
        let file = root.join(&path);
        std::fs::write(&file, api.listing(&root)?.text)
            .with_context(|| file.display().to_string())?;
        println!("{path}: written");
    }
    Ok(true)
}

/// Compares the listings with the sources, and their size with the limits.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for api in &APIS {
        found.extend(api.check(root)?);
    }
    Ok(found)
}

/// Public API as text, and its size.
struct Listing {
    text: String,
    root_names: usize,
    methods: usize,
}

impl Api {
    /// Returns the path of the listing, below the root.
    fn path(&self) -> String {
        format!("crates/{}/public-api.txt", self.krate)
    }

    fn check(&self, root: &Path) -> Result<Vec<Violation>> {
        let path = self.path();
        let now = self.listing(root)?;
        let mut found = Vec::new();
        let kept = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        if let Some(difference) = first_difference(&kept, &now.text) {
            found.push(Violation::new(
                &path,
                format!("is not the public surface: {difference}"),
                "if the change is intended, run `cargo xtask public-api`",
            ));
        }
        let (largest, most) = self.largest;
        let limits = [
            (
                "names at the root".to_owned(),
                now.root_names,
                self.root_names,
            ),
            (format!("methods on `{largest}`"), now.methods, most),
        ];
        for (what, count, limit) in limits {
            if count > limit {
                found.push(Violation::new(
                    &path,
                    format!("has {count} {what}, more than {limit}"),
                    "use or extend an existing name, or add a module",
                ));
            }
        }
        Ok(found)
    }

    fn listing(&self, root: &Path) -> Result<Listing> {
        let dirs: Vec<(String, PathBuf)> = self
            .crates
            .iter()
            .map(|name| (crate_name(name), root.join("crates").join(name).join("src")))
            .collect();
        let sources = source::Sources::read(&dirs)?;
        let name = crate_name(self.krate);
        let surface = sources.surface(&name)?;
        let lines = print::lines(&surface);
        let root_names = surface.root_names;
        let largest = format!("{name}::{}", self.largest.0);
        let largest = surface.items.iter().find(|item| item.name == largest);
        let methods = largest.map_or(0, |item| print::methods(item).len());
        let head = format!(
            "# The public surface of the crate `{}`; written by `cargo xtask public-api`.\n\
             # {root_names} names at the root, {methods} methods on `{}`.\n",
            name.replace('_', "-"),
            self.largest.0
        );
        Ok(Listing {
            text: head + &lines.join("\n") + "\n",
            root_names,
            methods,
        })
    }
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
        for name in APIS[0].crates {
            let src = root.path().join("crates").join(name).join("src");
            std::fs::create_dir_all(&src).unwrap();
            std::fs::write(src.join("lib.rs"), "").unwrap();
        }
        for (path, text) in files {
            let path = root.path().join("crates").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        APIS[0].listing(root.path()).unwrap().text
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
    fn methods_by_dereference_are_listed() {
        let text = listed(&[
            (
                "logforce/src/lib.rs",
                "pub struct File(logforce_core::Inner); impl File { pub fn open() -> File { File } } \
                 impl std::ops::Deref for File { type Target = logforce_core::Inner; }",
            ),
            (
                "core/src/lib.rs",
                "pub struct Inner; impl Inner { pub fn read(&self) {} pub fn close(self) {} \
                 #[doc(hidden)] pub fn seam(&self) {} pub fn new() -> Inner { Inner } }",
            ),
        ]);
        assert!(
            text.contains("    fn open() -> File\n    fn read(&self)"),
            "{text}"
        );
        for hidden in ["close", "seam", "new"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }

    #[test]
    fn a_difference_names_both_lines() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let told = first_difference("a\nb\n", "a\n").unwrap();
        assert_eq!(told, "the file has `b`, the sources `(end)`");
    }
}
