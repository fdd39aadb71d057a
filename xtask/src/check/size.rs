//! Rule: maximum length of a source file.

use super::{Violation, list, shown, sources};
use anyhow::Result;
use std::path::Path;

/// Maximum number of lines of a crate's source file.
const LONGEST: usize = 700;

/// Finds the files that are too long.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for entry in list(&root.join("crates"))? {
        let src = entry.join("src");
        if !src.is_dir() {
            continue;
        }
        for (path, text) in sources(&src)? {
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
    Ok(found)
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
