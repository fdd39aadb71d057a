//! Removal of private paths from a report: the path of the checkout on the sender's disk, and the home
//! folder, which contains the sender's name.

use crate::workspace::Workspace;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Paths and their replacements, the longest first, because one path can contain another.
#[derive(Debug)]
pub struct Private(Vec<(String, &'static str)>);

impl Private {
    pub fn of(workspace: &Workspace) -> Private {
        let home = std::env::var_os(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
        Private::new([
            (workspace.target.clone(), "<target>"),
            (workspace.root.clone(), "<checkout>"),
            (home.map(PathBuf::from).unwrap_or_default(), "<home>"),
            (std::env::temp_dir(), "<temp>"),
        ])
    }

    fn new<const N: usize>(paths: [(PathBuf, &'static str); N]) -> Private {
        let mut all: Vec<(String, &'static str)> = paths
            .into_iter()
            .flat_map(|(path, name)| {
                let all = spellings(&path);
                all.into_iter().map(move |s| (s, name))
            })
            // Excludes `/` and `C:\`, which would hide every path and reveal nothing.
            .filter(|(path, _)| path.trim_end_matches(['/', '\\', ':']).len() > 2)
            .collect();
        all.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        all.dedup();
        Private(all)
    }

    /// Replaces the paths in every string of `value`.
    pub fn hide(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hidden(text),
            Value::Array(values) => values.iter_mut().for_each(|v| self.hide(v)),
            Value::Object(fields) => fields.values_mut().for_each(|v| self.hide(v)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn hidden(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, name) in &self.0 {
            text = replaced(&text, path, name);
        }
        text
    }
}

/// Returns the spellings of a path: as given, with links resolved, and as programs on Windows print it.
fn spellings(path: &Path) -> Vec<String> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    [path, &real]
        .map(|p| p.to_string_lossy().trim_start_matches(r"\\?\").to_owned())
        .into_iter()
        .flat_map(|p| {
            let p = p.trim_end_matches(['/', '\\']).to_owned();
            // Debug output doubles the separators there.
            [p.replace('\\', "/"), p.replace('\\', r"\\"), p]
        })
        .collect()
}

/// Replaces a path, ignoring case: the same path is printed with `c:` and `C:`.
fn replaced(text: &str, path: &str, name: &str) -> String {
    let (lower, wanted) = (text.to_ascii_lowercase(), path.to_ascii_lowercase());
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in lower.match_indices(&wanted) {
        out += &text[done..at];
        out += name;
        done = at + wanted.len();
    }
    out + &text[done..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_hidden_wherever_they_are_the_longest_first() {
        let private = Private::new([
            ("/home/ann".into(), "<home>"),
            ("/home/ann/src/logforce".into(), "<checkout>"),
            ("/".into(), "<root>"),
            (PathBuf::new(), "<none>"),
        ]);
        let mut value = json!({
            "a": ["/home/ann/src/logforce/x.rs:3", 1, null, true],
            "b": {"c": "at /Home/Ann/y and /home/ann, / too"},
        });
        private.hide(&mut value);
        let hidden = json!({
            "a": ["<checkout>/x.rs:3", 1, null, true],
            "b": {"c": "at <home>/y and <home>, / too"},
        });
        assert_eq!(value, hidden);
    }

    #[test]
    fn paths_of_windows_are_hidden_in_each_spelling() {
        let private = Private::new([(r"C:\Users\Ann".into(), "<home>")]);
        for (said, shown) in [
            (r"\\?\C:\Users\Ann\x", r"\\?\<home>\x"),
            ("c:/users/ann/x", "<home>/x"),
            (r#""C:\\Users\\Ann\\x""#, r#""<home>\\x""#),
        ] {
            assert_eq!(private.hidden(said), shown);
        }
    }
}
