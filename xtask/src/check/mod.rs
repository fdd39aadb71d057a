//! `cargo xtask check`: the rules of the house that a compiler does not know.
//!
//! Each rule names what to do instead. What clippy and the compiler can tell (`unsafe`, panics in the
//! library, unfinished code) is in the lints of `Cargo.toml` and of each crate's `lib.rs`.

mod architecture;
mod directions;
mod size;

use crate::workspace::Workspace;
use anyhow::Result;
use std::fmt;
use std::path::Path;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// File and line, or the crate.
    place: String,
    /// What is there, and which rule it breaks.
    what: String,
    /// What to do about it.
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

/// All violations in the workspace.
pub fn all(workspace: &Workspace) -> Result<Vec<Violation>> {
    let mut found = directions::check(workspace, directions::TABLE);
    found.extend(size::check(&workspace.root)?);
    let picture = std::fs::read_to_string(workspace.root.join("ARCHITECTURE.md")).ok();
    found.extend(architecture::check(workspace, picture.as_deref()));
    Ok(found)
}

/// The command. True if nothing was found.
pub fn command() -> Result<bool> {
    let workspace = Workspace::find()?;
    let found = all(&workspace)?;
    for violation in &found {
        println!("{violation}");
    }
    match found.len() {
        0 => println!("check: nothing found"),
        1 => println!("check: 1 violation"),
        n => println!("check: {n} violations"),
    }
    Ok(found.is_empty())
}

/// A path as it is printed and compared: relative to the root, with slashes.
fn shown(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    relative.to_string_lossy().replace('\\', "/")
}
