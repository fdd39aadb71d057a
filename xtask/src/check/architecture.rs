//! Rule: ARCHITECTURE.md names every crate.

use super::{Violation, shown};
use crate::workspace::Workspace;

/// Finds the crates that the document does not name. Without a document, nothing is checked.
pub fn check(workspace: &Workspace, document: Option<&str>) -> Vec<Violation> {
    let Some(document) = document else {
        return Vec::new();
    };
    workspace
        .crates
        .iter()
        .filter_map(|c| {
            shown(&workspace.root, &c.dir)
                .strip_prefix("crates/")
                .map(str::to_owned)
        })
        .filter(|dir| !names(document, dir))
        .map(|dir| {
            Violation::new(
                format!("crates/{dir}"),
                "is not in ARCHITECTURE.md",
                format!("add a line on the purpose of `{dir}`"),
            )
        })
        .collect()
}

/// Returns true if the document names the directory: in backquotes, as `dir/` or as `crates/dir`.
fn names(document: &str, dir: &str) -> bool {
    if document.contains(&format!("`{dir}`")) {
        return true;
    }
    let of_a_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    document.match_indices(dir).any(|(at, _)| {
        let (before, after) = (&document[..at], &document[at + dir.len()..]);
        if before.ends_with("crates/") {
            return !after.starts_with(of_a_word);
        }
        after.starts_with('/') && !before.ends_with(of_a_word) && !before.ends_with('/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Crate;

    #[test]
    fn a_crate_that_is_not_named_is_found() {
        let krate = |dir: &str| Crate {
            is_published: true,
            name: dir.to_owned(),
            dir: format!("/w/{dir}").into(),
            dependencies: Vec::new(),
        };
        let workspace = Workspace {
            root: "/w".into(),
            target: "/t".into(),
            crates: ["crates/device", "crates/device-os", "crates/log", "xtask"]
                .map(krate)
                .into(),
        };
        let found = |document| -> Vec<String> {
            let found = check(&workspace, Some(document));
            found.iter().map(|v| v.place.clone()).collect()
        };
        assert_eq!(
            found("  device/  the contract\n  log/  it\n"),
            ["crates/device-os"]
        );
        assert_eq!(
            found("`crates/device-os` and a log and mylog/ and crates/log"),
            ["crates/device"]
        );
        assert_eq!(found("| `device` | `log` |"), ["crates/device-os"]);
        assert_eq!(check(&workspace, None), []);
    }
}
