//! Rule: text that is forbidden in source files and that no lint finds.

use super::{Violation, shown, sources};
use anyhow::Result;
use std::path::Path;

/// Marks of unfinished work. Each is written in two halves, because otherwise this file would contain
/// them.
const UNFINISHED: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
const UNSAFE: &str = concat!("unsafe", "_code");
/// Files that may allow `unsafe`: the crate of the system calls, SQLite's C interface, and one test that forks.
const UNSAFE_IN: [&str; 4] = [
    "crates/device-os/",
    "crates/sqlite/src/ffi/",
    "crates/sqlite-extension/",
    "crates/logforce/tests/fork.rs",
];

/// Finds the marks in every Rust file of the repository.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for dir in ["crates", "examples", "fuzz", "xtask"] {
        for (path, text) in sources(&root.join(dir))? {
            let file = shown(root, &path);
            for (number, line) in text.lines().enumerate() {
                if let Some((what, instead)) = mark(&file, line.trim_start()) {
                    let place = format!("{file}:{}", number + 1);
                    found.push(Violation::new(place, what, instead));
                }
            }
        }
    }
    Ok(found)
}

/// Returns the violation in the line and its remedy.
fn mark(file: &str, line: &str) -> Option<(&'static str, &'static str)> {
    let has = |sought: &str| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == sought)
    };
    let example = line.trim_start_matches(['/', '!', ' ']);
    if UNFINISHED.into_iter().any(has) {
        Some((
            "unfinished work",
            "finish it, or open an issue and describe the state and the reason in the comment",
        ))
    } else if line.starts_with("//") {
        example.starts_with("```ignore").then_some((
            "an example that is not compiled",
            "mark it `no_run`, `compile_fail` or `text`, or let it run",
        ))
    } else {
        let forbids = line.contains("forbid(") || line.contains("deny(");
        let may = UNSAFE_IN.iter().any(|place| file.starts_with(place));
        (has(UNSAFE) && !forbids && !may).then_some((
            "`unsafe` is allowed here",
            "use a safe wrapper (rustix), or put the call into crates/device-os",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_found_and_what_only_looks_like_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let [fix, xs] = UNFINISHED;
        let allow = format!("#![allow(dead_code, {UNSAFE})]\n");
        write("crates/core/src/a.rs", &format!("//\n// {fix}: later\n"));
        write("crates/core/tests/b.rs", &format!("f(); // {xs}\n"));
        write("examples/e/src/c.rs", "//! One:\n//! ```ignore\n");
        write("fuzz/d.rs", &allow);
        write("xtask/e.rs", &format!("#![expect(\n    {UNSAFE}\n)]\n"));
        for allowed in ["device-os/src/a.rs", "logforce/tests/fork.rs"] {
            write(&format!("crates/{allowed}"), &allow);
        }
        let passes = format!("#![forbid({UNSAFE})]\n//! ```no_run\nfn {xs}X() {{}}\n");
        write("crates/core/src/f.rs", &passes);
        write("fuzz/target/built.rs", &allow);
        let found = check(root.path()).unwrap();
        let places: Vec<&str> = found.iter().map(|v| v.place.as_str()).collect();
        let expected = "crates/core/src/a.rs:2 crates/core/tests/b.rs:1 examples/e/src/c.rs:2 \
                        fuzz/d.rs:1 xtask/e.rs:2";
        assert_eq!(places.join(" "), expected);
    }
}
