//! `cargo xtask check`: project rules that the compiler does not check.
//!
//! Each violation comes with a remedy. Rules that clippy and the compiler can check (`unsafe`, panics in
//! the library, unfinished code) are in the lints of `Cargo.toml` and of each crate's `lib.rs`.

mod architecture;
mod circles;
mod directions;
mod imports;
mod layers;
mod links;
mod marks;
mod prose;
pub mod public_api;
mod size;
mod wording;

use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// File and line, or crate.
    place: String,
    /// Violation.
    what: String,
    /// Remedy.
    instead: String,
}

impl Violation {
    fn new(
        place: impl Into<String>,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) -> Violation {
        Violation {
            place: place.into(),
            what: what.into(),
            instead: instead.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.what, self.instead)
    }
}

/// Returns all violations in the workspace.
pub fn all(workspace: &Workspace) -> Result<Vec<Violation>> {
    let mut found = directions::check(workspace, directions::TABLE);
    found.extend(layers::check(&workspace.root)?);
    found.extend(circles::check(&workspace.root)?);
    found.extend(size::check(&workspace.root)?);
    found.extend(marks::check(&workspace.root)?);
    found.extend(links::check(&workspace.root)?);
    found.extend(prose::check(&workspace.root)?);
    found.extend(wording::check(&workspace.root)?);
    found.extend(public_api::check(&workspace.root)?);
    let picture = std::fs::read_to_string(workspace.root.join("ARCHITECTURE.md")).ok();
    found.extend(architecture::check(workspace, picture.as_deref()));
    Ok(found)
}

/// Runs the command. Returns true if no violation was found.
pub fn command() -> Result<bool> {
    let workspace = Workspace::find()?;
    let found = all(&workspace)?;
    for violation in &found {
        println!("{violation}");
    }
    match found.len() {
        0 => println!("check: no violations"),
        1 => println!("check: 1 violation"),
        n => println!("check: {n} violations"),
    }
    Ok(found.is_empty())
}

/// Collects the files below a directory, without build output and git's files, by their paths from the root.
fn all_files(root: &Path, dir: &Path, files: &mut Vec<String>) -> Result<()> {
    for path in list(dir)? {
        let name = path.file_name().unwrap_or_default();
        match path.is_dir() {
            true if name != "target" && name != ".git" => all_files(root, &path, files)?,
            true => {}
            false => files.push(shown(root, &path)),
        }
    }
    Ok(())
}

/// Runs `cargo xtask wording`.
pub fn wording(part: Option<&str>) -> Result<bool> {
    wording::command(&Workspace::find()?.root, part)
}

/// Returns a path as it is printed and compared: relative to the root, with slashes.
fn shown(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    relative.to_string_lossy().replace('\\', "/")
}

/// Returns the entries of a directory, sorted.
fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let name = || dir.display().to_string();
    let entries = std::fs::read_dir(dir).with_context(name)?;
    let paths: std::io::Result<Vec<_>> = entries.map(|e| e.map(|e| e.path())).collect();
    let mut paths = paths.with_context(name)?;
    paths.sort();
    Ok(paths)
}

/// Returns the Rust files below a directory and their texts, without cargo's output.
fn sources(dir: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for path in list(dir)? {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                found.extend(sources(&path)?);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text =
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            found.push((path, text));
        }
    }
    Ok(found)
}
