//! How long a file may get.

use super::Violation;
use super::source::File;

/// Lines that a source file of a crate may have.
const LONGEST: usize = 700;

/// Finds the files that are too long.
pub fn check(files: &[File]) -> Vec<Violation> {
    let in_crates = |f: &&File| {
        f.crate_and_rest()
            .is_some_and(|(_, r)| r.starts_with("src/"))
    };
    files
        .iter()
        .filter(in_crates)
        .filter_map(|f| {
            let lines = f.text.lines().count();
            (lines > LONGEST).then(|| {
                Violation::new(
                    &f.path,
                    format!("has {lines} lines, more than {LONGEST}"),
                    "split it by subject",
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found() {
        let long = "\n".repeat(LONGEST + 1);
        let files = [
            File::new("crates/a/src/long.rs", &long),
            File::new("crates/a/src/short.rs", &long[1..]),
            File::new("crates/a/tests/long.rs", &long),
        ];
        let found = check(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].to_string().contains("src/long.rs: has 701"),
            "{found:?}"
        );
    }
}
