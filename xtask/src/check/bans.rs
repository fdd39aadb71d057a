//! What may not be written, where, and what to write instead.

use super::Violation;
use super::allow::Allowed;
use super::source::{File, Token};

/// The crates that run inside a user's process: there an error is returned, never a panic.
const LIBRARY: [&str; 6] = [
    "format",
    "device",
    "core",
    "device-os",
    "calibrate",
    "logforce",
];

/// Where a ban holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// In every file, tests included.
    Everywhere,
    /// In what the library's crates ship.
    Shipped,
}

/// Something that may not be written.
#[derive(Debug)]
struct Ban {
    name: &'static str,
    /// The tokens that are it.
    tokens: &'static [&'static str],
    holds: Where,
    instead: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        name: "unsafe",
        tokens: &["unsafe"],
        holds: Where::Everywhere,
        instead: "use a safe wrapper (rustix), or a module of device-os that is listed, with its \
                  reason, in xtask/src/check/allow.rs",
    },
    Ban {
        name: "todo!",
        tokens: &["todo", "!"],
        holds: Where::Everywhere,
        instead: "write it, or return an error that says what is not there",
    },
    Ban {
        name: "unimplemented!",
        tokens: &["unimplemented", "!"],
        holds: Where::Everywhere,
        instead: "write it, or return an error that says what is not there",
    },
    Ban {
        name: "dbg!",
        tokens: &["dbg", "!"],
        holds: Where::Everywhere,
        instead: "take it out; what users need to see goes into an error or the statistics",
    },
    Ban {
        name: "#[ignore]",
        tokens: &["#", "[", "ignore"],
        holds: Where::Everywhere,
        instead: "print `skipped: ` and what is missing, and return",
    },
    Ban {
        name: ".unwrap()",
        tokens: &[".", "unwrap", "("],
        holds: Where::Shipped,
        instead: "return the error; where there can be none, say so with `let … else` and \
                  `unreachable!`",
    },
    Ban {
        name: ".expect()",
        tokens: &[".", "expect", "("],
        holds: Where::Shipped,
        instead: "return the error; where there can be none, say so with `let … else` and \
                  `unreachable!`",
    },
    Ban {
        name: "panic!",
        tokens: &["panic", "!"],
        holds: Where::Shipped,
        instead: "return an error; a log that cannot go on is poisoned",
    },
];

/// Marks of unfinished work, in comments; in two halves each, or this file would hold them.
const MARKS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

/// Finds what is banned, and the exceptions that nothing needs.
pub fn check(files: &[File], allowed: &[Allowed]) -> Vec<Violation> {
    let for_tests = test_paths(files);
    let mut found = Vec::new();
    let mut needed = vec![false; allowed.len()];
    for file in files {
        found.extend(marks(file));
        for ban in BANS {
            let exception = allowed
                .iter()
                .position(|a| a.ban == ban.name && a.path == file.path);
            let Some(tokens) = scope(ban, file, &for_tests) else {
                continue;
            };
            for line in lines_with(tokens, ban.tokens) {
                match exception {
                    Some(at) => needed[at] = true,
                    None => found.push(Violation::new(
                        format!("{}:{line}", file.path),
                        format!("`{}` may not be here", ban.name),
                        ban.instead,
                    )),
                }
            }
        }
    }
    for (exception, _) in allowed.iter().zip(needed).filter(|(_, needed)| !needed) {
        found.push(Violation::new(
            exception.path,
            format!(
                "has no `{}`, which is allowed there ({})",
                exception.ban, exception.why
            ),
            "take the exception out of xtask/src/check/allow.rs",
        ));
    }
    found
}

/// The tokens of the file for which the ban holds.
fn scope<'f>(ban: &Ban, file: &'f File, for_tests: &[String]) -> Option<&'f [Token]> {
    let tokens = file.tokens.as_ref()?;
    if ban.holds == Where::Everywhere {
        return Some(&tokens.all);
    }
    let (krate, rest) = file.crate_and_rest()?;
    let ships = LIBRARY.contains(&krate) && rest.starts_with("src/");
    let is_for_tests = for_tests.iter().any(|module| {
        let below = file.path.strip_prefix(module.as_str());
        below.is_some_and(|b| b == ".rs" || b.starts_with('/'))
    });
    (ships && !is_for_tests).then_some(&tokens.shipped)
}

/// The modules in files of their own that are compiled for tests only.
fn test_paths(files: &[File]) -> Vec<String> {
    let of = |file: &File| -> Vec<String> {
        let names = file.tokens.iter().flat_map(|t| &t.test_modules);
        names.map(|name| file.module(name)).collect()
    };
    files.iter().flat_map(of).collect()
}

/// The lines on which these tokens begin.
fn lines_with(tokens: &[Token], wanted: &[&str]) -> Vec<usize> {
    tokens
        .windows(wanted.len())
        .filter(|w| {
            w.iter()
                .zip(wanted)
                .all(|(token, word)| token.text == *word)
        })
        .map(|w| w[0].line)
        .collect()
}

/// What is banned in comments: marks of unfinished work, as words, and examples that nobody
/// compiles.
fn marks(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let example = line.trim_start().trim_start_matches(['/', '!', ' ']);
        if line.trim_start().starts_with("//") && example.starts_with("```ignore") {
            found.push(Violation::new(
                format!("{}:{}", file.path, number + 1),
                "an example that is not compiled",
                "make it `no_run`, `compile_fail` or `text`, or let it run",
            ));
        }
        for mark in words.filter(|w| MARKS.contains(w)) {
            found.push(Violation::new(
                format!("{}:{}", file.path, number + 1),
                format!("{mark} marks unfinished work"),
                "finish it, or open an issue and say in the comment what is so and why",
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> String {
        let found = check(&[File::new(path, text)], &[]);
        found.iter().map(|v| format!("{v}\n")).collect()
    }

    const SHIPPED: &str = "crates/core/src/a.rs";

    #[test]
    fn each_ban_finds_what_is_planted_and_says_what_to_do() {
        for (name, planted) in [
            ("unsafe", "fn f() {\n unsafe { g() } }"),
            ("todo!", "fn f() {\n todo!() }"),
            ("unimplemented!", "fn f() {\n unimplemented!() }"),
            ("dbg!", "fn f() {\n dbg!(1); }"),
            ("#[ignore]", "#[test]\n#[ignore = \"slow\"]\nfn f() {}"),
            (".unwrap()", "fn f() {\n g().unwrap(); }"),
            (".expect()", "fn f() { g()\n.expect(\"x\"); }"),
            ("panic!", "fn f() {\n panic!(\"x\"); }"),
            (MARKS[0], &format!("//\n// {}: later", MARKS[0])),
            (MARKS[1], &format!("//\n// {}", MARKS[1])),
            ("an example", "//! One:\n//! ```ignore\n//! ```"),
        ] {
            let text = said(SHIPPED, planted);
            assert_eq!(text.lines().count(), 1, "{name}: {text}");
            assert!(text.starts_with("crates/core/src/a.rs:2: "), "{text}");
            assert!(text.contains(name), "{text}");
            let instead = text.split_once("; ").unwrap().1;
            assert!(instead.len() > 20, "{text}");
        }
        for ban in BANS {
            assert!(!ban.instead.contains("  "), "{}", ban.name);
        }
    }

    #[test]
    fn words_that_only_look_like_it_pass() {
        let text = "#![deny(unsafe_code)]\n//! panic! and .unwrap() are unsafe\n\
                    #[expect(dead_code)]\n\
                    fn f() { g().unwrap_or(1); g().expect_err(\"x\"); h(\"todo!()\", XXXX); }";
        assert_eq!(said(SHIPPED, text), "");
    }

    #[test]
    fn tests_and_other_crates_may_unwrap() {
        let text = "fn f() { g().unwrap() }";
        assert_ne!(said(SHIPPED, text), "");
        for path in [
            "crates/core/tests/a.rs",
            "crates/measure/src/a.rs",
            "xtask/src/a.rs",
        ] {
            assert_eq!(said(path, text), "", "{path}");
        }
        assert_eq!(
            said(SHIPPED, &format!("#[cfg(test)]\nmod tests {{ {text} }}")),
            ""
        );
        let files = [
            File::new("crates/core/src/lib.rs", "#[cfg(test)]\nmod t;\nmod u;"),
            File::new("crates/core/src/t/deep.rs", text),
            File::new("crates/core/src/t.rs", text),
            File::new("crates/core/src/u.rs", text),
        ];
        let found = check(&files, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].place.contains("u.rs"));
    }

    #[test]
    fn an_exception_holds_for_its_file_and_ban_and_must_be_needed() {
        let exception = |path| Allowed {
            ban: "unsafe",
            path,
            why: "a test",
        };
        let planted = "fn f() { unsafe { g().unwrap() } }";
        let files = [File::new(SHIPPED, planted)];
        let found = check(&files, &[exception(SHIPPED), exception("crates/gone.rs")]);
        let text: String = found.iter().map(|v| format!("{v}\n")).collect();
        assert_eq!(found.len(), 2, "{text}");
        assert!(text.contains("`.unwrap()` may not"), "{text}");
        assert!(text.contains("crates/gone.rs: has no `unsafe`"), "{text}");
    }
}
