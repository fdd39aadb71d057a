//! How long a file may get.

use super::{Violation, shown};
use anyhow::{Context, Result};
use std::path::Path;

/// Lines that a source file of a crate may have.
const LONGEST: usize = 700;

/// Finds the files that are too long.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for entry in list(&root.join("crates"))? {
        let src = entry.join("src");
        if src.is_dir() {
            walk(root, &src, &mut found)?;
        }
    }
    Ok(found)
}

fn list(dir: &Path) -> Result<Vec<std::path::PathBuf>> {
    let name = || dir.display().to_string();
    let entries = std::fs::read_dir(dir).with_context(name)?;
    let paths: std::io::Result<Vec<_>> = entries.map(|e| e.map(|e| e.path())).collect();
    let mut paths = paths.with_context(name)?;
    paths.sort();
    Ok(paths)
}

fn walk(root: &Path, dir: &Path, found: &mut Vec<Violation>) -> Result<()> {
    for path in list(dir)? {
        if path.is_dir() {
            walk(root, &path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text =
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let lines = text.lines().count();
            if lines > LONGEST {
                found.push(Violation::new(
                    shown(root, &path),
                    format!("has {lines} lines, more than {LONGEST}"),
                    "split it by subject",
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("crates/a/src/below");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(root.path().join("crates/a/tests")).unwrap();
        let long = "\n".repeat(LONGEST + 1);
        std::fs::write(deep.join("long.rs"), &long).unwrap();
        std::fs::write(deep.join("short.rs"), &long[1..]).unwrap();
        std::fs::write(root.path().join("crates/a/tests/long.rs"), &long).unwrap();
        let found = check(root.path()).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let said = found[0].to_string();
        assert!(
            said.contains("crates/a/src/below/long.rs: has 701"),
            "{said}"
        );
    }
}
