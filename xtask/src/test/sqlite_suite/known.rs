//! Known differences, from the page that explains them.

use super::compare::Difference;
use anyhow::{Result, bail};

/// Page with the known differences. The lines of its code blocks are read.
const PAGE: &str = include_str!("differences.md");

/// Known differences of one test file.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// Suite and file, as `Job` prints them.
    pub file: String,
    /// Names of test cases; `*` stands for any text.
    pub cases: Vec<String>,
    /// True if these cases may fail; false if they may only be missing.
    pub may_fail: bool,
}

/// Returns the list of the page.
pub fn list() -> Result<Vec<Known>> {
    parse(PAGE)
}

/// Reads lines `SUITE/FILE: CASE CASE …` in code blocks. The language of a block is `failed` or `missing`.
fn parse(page: &str) -> Result<Vec<Known>> {
    let mut known = Vec::new();
    let mut may_fail = None;
    for line in page.lines() {
        match (line, may_fail) {
            ("```failed", None) => may_fail = Some(true),
            ("```missing", None) => may_fail = Some(false),
            ("```", Some(_)) => may_fail = None,
            (_, Some(may_fail)) => match line.split_once(": ") {
                Some((file, cases)) => known.push(Known {
                    file: file.to_owned(),
                    cases: cases.split_whitespace().map(str::to_owned).collect(),
                    may_fail,
                }),
                None => bail!("differences.md: no `FILE: CASE` in the line {line}"),
            },
            (_, None) if line.starts_with("```") => {
                bail!("differences.md: a block must be `failed` or `missing`: {line}")
            }
            _ => {}
        }
    }
    Ok(known)
}

/// Differences of a file, beside the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub unlisted: Vec<Difference>,
    /// Number of listed differences.
    pub listed: u64,
    /// Listed names that differ no longer.
    pub gone: Vec<String>,
}

/// Compares the differences of a file with the list.
pub fn check(list: &[Known], file: &str, found: &[Difference]) -> Checked {
    let mut checked = Checked::default();
    let mut listed = vec![false; found.len()];
    for known in list.iter().filter(|known| known.file == file) {
        for pattern in &known.cases {
            let is_of =
                |d: &Difference| matches(pattern, &d.case) && (known.may_fail || !d.has_failed);
            let before = checked.gone.len();
            checked.gone.push(pattern.clone());
            for (_, is_listed) in found.iter().zip(&mut listed).filter(|(d, _)| is_of(d)) {
                *is_listed = true;
                checked.gone.truncate(before);
            }
        }
    }
    for (difference, is_listed) in found.iter().zip(listed) {
        match is_listed {
            true => checked.listed += 1,
            false => checked.unlisted.push(difference.clone()),
        }
    }
    checked
}

/// Returns true if the text matches the pattern, in which `*` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cases: &[(&str, bool)]) -> Vec<Difference> {
        let difference = |(case, has_failed): &(&str, bool)| Difference {
            case: (*case).to_owned(),
            has_failed: *has_failed,
            detail: String::new(),
        };
        cases.iter().map(difference).collect()
    }

    #[test]
    fn the_page_can_be_read() {
        for known in list().unwrap() {
            assert!(known.file.ends_with(".test"), "{known:?}");
            assert!(!known.cases.is_empty(), "{known:?}");
        }
        assert!(parse("```failed\nno colon\n```\n").is_err());
        assert!(parse("```text\nfull/a.test: a\n```\n").is_err());
        assert_eq!(parse("full/a.test: outside\n").unwrap(), []);
    }

    #[test]
    fn unlisted_and_gone_differences_are_found() {
        let page = "```failed\nfull/a.test: a-1.* a-2\nfull/b.test: b-1\n```\n\
                    ```missing\nfull/a.test: a-3\n```\n";
        let list = parse(page).unwrap();
        let check = |cases: &[(&str, bool)]| check(&list, "full/a.test", &found(cases));
        let all = check(&[
            ("a-1.1", true),
            ("a-1.2", false),
            ("a-2", true),
            ("a-3", false),
        ]);
        assert_eq!((all.listed, all.unlisted.len(), all.gone.len()), (4, 0, 0));
        let others = [("a-22", true), ("b-1", true), ("a-3", true)];
        let more = check(&others);
        assert_eq!(more.unlisted, found(&others));
        assert_eq!(more.gone, ["a-1.*", "a-2", "a-3"]);
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("a*", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
