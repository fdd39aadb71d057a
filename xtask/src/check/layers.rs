//! Rule: the layers of `core` and `pages`. They define which folders may use which others, by imports
//! and by method calls.

use super::Violation;
use super::imports::{ROOT, Texts, code, imports, re_exports, texts, words};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// Folders and files at the top of `core`, the lowest first. Each may use those before it.
const CORE: &[(&str, &str)] = &[
    ("names", "the names of files"),
    ("error", "errors and their remedies"),
    ("policy", "kinds of commits"),
    ("types", "values that the log returns"),
    ("batch", "records of an append"),
    ("options", "options of the user"),
    ("trace", "spans and events"),
    ("sync", "poison, reasons of wake-ups, the pool of threads"),
    ("environment", "state shared by many logs of a process"),
    ("storage", "files: the control file, segments, reads"),
    (
        "scan",
        "batches in order, the end of the log, a walk over the whole log",
    ),
    ("state", "state under the mutex: memory only"),
    ("metrics", "counters and timings"),
    ("read", "readers, followers, inspection"),
    ("backup", "a copy of a log while it is written"),
    ("engine", "append, commit, publish"),
    ("truncation", "front, back, pins"),
    ("background", "the log's own threads"),
    ("recovery", "builds the parts of an engine from files"),
    ("log", "the public handle"),
];

/// Folders and files at the top of `pages`, the lowest first.
const PAGES: &[(&str, &str)] = &[
    ("error", "errors and their remedies"),
    ("types", "values that a page file returns"),
    ("changes", "changes of a transaction, maps by page number"),
    ("cache", "pages in memory, up to a limit"),
    ("page", "a page as users see it"),
    ("growth", "growth of files"),
    ("uses", "uses of the files, for which closing waits"),
    ("files", "the directory and its files"),
    ("file_read", "complete reads of a file"),
    ("header", "the two header slots"),
    ("options", "options of the user"),
    ("logged", "commits through a log"),
    ("cow", "commits by copy-on-write"),
    ("inspect", "inspection of a page file"),
    ("dispatch", "choice of the commit mode"),
    ("backup", "a copy of a committed state"),
    ("snapshot", "a committed state, for users"),
    ("commit_handle", "a commit that was submitted"),
    ("transaction", "changes in progress"),
    ("page_file", "the public handle"),
];

/// Compares the imports and the method calls with the layers of their crate.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut all = Vec::new();
    for (name, layers) in [("core", CORE), ("pages", PAGES)] {
        let src = root.join("crates").join(name).join("src");
        all.extend(found(name, &texts(&src)?, layers));
    }
    Ok(all)
}

/// Returns the name of a module for messages.
fn place(name: &str, module: &str) -> String {
    format!("crates/{name}, module {module}")
}

fn found(name: &str, texts: &Texts, layers: &[(&str, &str)]) -> Vec<Violation> {
    let imports = imports(texts);
    let place = |module: &str| place(name, module);
    let rank = |module: &str| {
        let top = module.split("::").next().unwrap_or(module);
        layers.iter().position(|(name, _)| *name == top)
    };
    let mut found = Vec::new();
    for (from, used) in &imports {
        let Some(own) = rank(from) else {
            found.push(Violation::new(
                place(from),
                "is in no layer",
                "add its folder to a layer in xtask/src/check/layers.rs",
            ));
            continue;
        };
        for to in used.iter().filter(|to| rank(to).is_some_and(|r| r > own)) {
            found.push(Violation::new(
                place(from),
                format!("uses {to}, which is above it"),
                "move the code that it needs down, or pass it in; the layers are in \
                         xtask/src/check/layers.rs",
            ));
        }
    }
    for (from, text) in texts.iter().filter(|(name, _)| *name != ROOT) {
        for name in re_exports(&code(text), from, texts) {
            found.push(Violation::new(
                place(from),
                format!("uses {name} by its re-export"),
                "import it from the file that defines it, so that its layer is visible",
            ));
        }
    }
    found.extend(calls_upwards(name, texts, &rank));
    found
}

/// Returns the calls of methods whose `impl` stands above the caller and above its own type. A caller
/// can have such a type without an import that shows the method. Other types from above cannot be had
/// without an import.
fn calls_upwards(
    crate_name: &str,
    texts: &Texts,
    rank: &impl Fn(&str) -> Option<usize>,
) -> Vec<Violation> {
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    let mut methods_of: BTreeMap<String, Vec<(String, &str)>> = BTreeMap::new();
    for (module, text) in texts {
        let code = code(text);
        for name in types_in(&code) {
            let own = rank(module).unwrap_or(0);
            let lowest = types.entry(name).or_insert(own);
            *lowest = own.min(*lowest);
        }
        for (owner, name) in methods(&code) {
            methods_of.entry(name).or_default().push((owner, module));
        }
    }
    let mut found = Vec::new();
    for (from, text) in texts.iter().filter(|(name, _)| *name != ROOT) {
        let own = rank(from);
        for (owner, name) in calls(&code(text)) {
            let places = methods_of.get(&name).into_iter().flatten();
            let places: Vec<_> = places
                .filter(|(of, _)| owner.as_ref().is_none_or(|owner| owner == of))
                .collect();
            // A method of the same name may also be defined below, and the name alone does not
            // distinguish them.
            let all_above = places.iter().all(|(_, to)| rank(to) > own);
            let may_have = |of: &str| types.get(of).is_some_and(|at| Some(*at) <= own);
            let defined = places.iter().find(|(of, _)| may_have(of));
            if let Some((of, to)) = defined.filter(|_| all_above) {
                found.push(Violation::new(
                    place(crate_name, from),
                    format!("calls {of}::{name}, which {to} above it defines"),
                    "move the method down, or pass in its result; if another type's method is meant, \
                         rename one of them",
                ));
            }
        }
    }
    found
}

/// Returns the names of the types that a text defines.
fn types_in(code: &str) -> Vec<String> {
    let words: Vec<_> = words(code).collect();
    let pairs = words.iter().zip(words.iter().skip(1));
    let types = pairs.filter(|((_, w), _)| matches!(*w, "struct" | "enum" | "union"));
    types.map(|(_, (_, name))| (*name).to_owned()).collect()
}

/// Returns the methods in the `impl` blocks of a formatted text, except those of traits: the type and
/// the name.
fn methods(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut head = line.trim().trim_start_matches("unsafe ").to_owned();
        if !head.starts_with("impl ") && !head.starts_with("impl<") {
            continue;
        }
        while !head.contains('{') {
            let Some(more) = lines.next() else { break };
            head = format!("{head} {}", more.trim());
        }
        let Some(owner) = owner(&head).filter(|_| !head.ends_with('}')) else {
            continue;
        };
        for line in lines.by_ref() {
            if line.trim_end() == format!("{indent}}}") {
                break;
            }
            let inner = line
                .strip_prefix(indent)
                .and_then(|l| l.strip_prefix("    "));
            let inner = inner.filter(|l| !l.starts_with(' ')).unwrap_or("");
            let name = inner.split_once("fn ").map(|(_, name)| words(name).next());
            if let Some(Some((_, name))) = name {
                found.push((owner.clone(), name.to_owned()));
            }
        }
    }
    found
}

/// Returns the type of an `impl` block, unless the block implements a trait.
fn owner(head: &str) -> Option<String> {
    let head = head.strip_prefix("impl")?.split('{').next()?;
    let after = match head.strip_prefix('<') {
        Some(_) => &head[generics(head)..],
        None => head,
    };
    let path = after.split(['<', ' ']).find(|part| !part.is_empty())?;
    let is_trait = after.contains(" for ");
    (!is_trait).then(|| path.rsplit("::").next().unwrap_or(path).to_owned())
}

/// Returns the end of the generics at the start of a text.
fn generics(text: &str) -> usize {
    let mut depth = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
        before = c;
    }
    text.len()
}

/// Returns the calls `.name(`, and all paths `Type::name`, which may be passed on as functions: the type
/// if it is given, and the name.
fn calls(code: &str) -> Vec<(Option<String>, String)> {
    let words: Vec<_> = words(code).collect();
    let mut found = Vec::new();
    for (i, (at, name)) in words.iter().enumerate() {
        let before = code[..*at].trim_end();
        let after = code[at + name.len()..].trim_start();
        if before.ends_with('.') && (after.starts_with('(') || after.starts_with("::<")) {
            found.push((None, (*name).to_owned()));
        }
        let of = i.checked_sub(1).and_then(|i| words.get(i));
        if before.ends_with("::")
            && let Some((_, of)) = of.filter(|(_, of)| of.starts_with(char::is_uppercase))
        {
            let owner = (*of != "Self").then(|| (*of).to_owned());
            found.push((owner, (*name).to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::imports::{module, used};
    use super::*;

    const TWO: &[(&str, &str)] = &[("low", "below"), ("high", "above")];

    fn said(files: &[(&str, &str)]) -> String {
        let texts = files.iter().map(|(f, t)| (module(f), (*t).to_owned()));
        let texts = texts.collect();
        let found = found("core", &texts, TWO);
        found.iter().map(|v| format!("{v}\n")).collect()
    }

    #[test]
    fn downwards_passes() {
        let high = "use crate::low::{Kind, part::Other};\n// crate::high\nuse std::fmt;\n";
        let tests = "#[cfg(test)]\nmod tests {\n use crate::high::X;\n}\n";
        let files = [
            ("low/mod.rs", "pub mod part;\n"),
            ("low/part.rs", tests),
            ("high.rs", high),
            ("lib.rs", "pub use high::X;"),
        ];
        assert_eq!(said(&files), "");
    }

    #[test]
    fn upwards_and_nowhere_are_found() {
        let files = [
            ("low/part.rs", "fn f(x: crate::high::X) {}\n"),
            ("high.rs", ""),
        ];
        let text = said(&files);
        assert!(text.contains("module low::part: uses high"), "{text}");
        let text = said(&[("low.rs", "use crate::{Kind};\n")]);
        assert!(
            text.contains("module low: uses Kind by its re-export"),
            "{text}"
        );
        let text = said(&[("new.rs", "")]);
        assert!(text.contains("module new: is in no layer"), "{text}");
    }

    #[test]
    fn every_super_goes_one_up() {
        for path in ["super::super::high::X", "self::super::super::{high::X}"] {
            let low = format!("use {path};\n");
            let files = [("low/part.rs", low.as_str()), ("high.rs", "")];
            let text = said(&files);
            assert!(text.contains("module low::part: uses high"), "{text}");
        }
        let low = [
            ("low/mod.rs", ""),
            (
                "low/a/b.rs",
                "use super::super::c::C;\nuse super::{super::c::D};\n",
            ),
            ("low/c.rs", ""),
        ];
        assert_eq!(said(&low), "");
        let text = said(&[("low/part.rs", "use super::super::*;\n")]);
        assert!(text.contains("by its re-export"), "{text}");
    }

    #[test]
    fn a_use_tree_is_read_to_its_end() {
        let paths = |code: &str| used(code, "low::part").join(" ");
        assert_eq!(
            paths("use crate::{low::{a::A, b::{self, B as C}}, high::X};\nuse x::Y;\n"),
            "low::a::A low::b low::b::B high::X low::part::x::Y"
        );
        assert_eq!(
            paths("    pub(crate) use crate::low::{\n a::{A, *},\n super::high::X,\n};\n"),
            "low::a::A low::a high::X"
        );
        let files = [
            ("low/part.rs", "use crate::{low::{a::A, b::B}, high::X};\n"),
            ("low/mod.rs", ""),
            ("high.rs", ""),
        ];
        let text = said(&files);
        assert!(text.contains("module low::part: uses high"), "{text}");
    }

    /// A type below, and a method that a folder above adds to it.
    const ADDED: &str = "use crate::low::T;\n\nimpl<'a, F> T<'a, F>\nwhere\n    F: Fn(),\n{\n    \
                         pub(crate) fn added(&self) {\n        fn inner() {}\n    }\n}\n\n\
                         impl Drop for T<'_> {\n    fn drop(&mut self) {}\n}\n";

    #[test]
    fn a_call_of_a_method_above_is_found() {
        let calls = [
            "t.added();",
            "t\n        .added();",
            "t.added::<u8>();",
            "T::added(&t);",
            "ts.for_each(T::added);",
            "Self::added(t);",
        ];
        for call in calls {
            let low = format!("pub struct T;\n\nfn f(t: &T) {{\n    {call}\n}}\n");
            let files = [("low/mod.rs", low.as_str()), ("high/more.rs", ADDED)];
            let text = said(&files);
            assert!(
                text.contains("module low: calls T::added, which high::more above it defines"),
                "{call}: {text}"
            );
            assert_eq!(text.lines().count(), 1, "{call}: {text}");
        }
    }

    #[test]
    fn other_calls_are_not() {
        let low = "pub struct T;\n\nimpl T {\n    fn own(&self) {\n        drop(self.added);\n    \
                   }\n}\n\nfn f(t: &T) {\n    t.own();\n    t.drop();\n    t.inner();\n    \
                   // t.added();\n    added(t);\n    Other::added(t);\n}\n";
        let above = "fn f(t: &T) {\n    t.added();\n}\n";
        let files = [
            ("low.rs", low),
            ("high/more.rs", ADDED),
            ("high/mod.rs", above),
        ];
        assert_eq!(said(&files), "");
        // A method of that name also exists in the lower layer, so the call may mean that one.
        let same = "pub struct T;\n\nstruct U;\n\nimpl U {\n    fn added(&self) {\n    }\n}\n\n\
                    fn f(u: &U) {\n    u.added();\n}\n";
        assert_eq!(said(&[("low.rs", same), ("high.rs", ADDED)]), "");
        // A caller without that type calls another type's method.
        let high = "pub struct T;\n\nimpl T {\n    fn push(&self) {\n    }\n}\n";
        let low = "fn f(v: &mut Vec<u8>) {\n    v.push(0);\n}\n";
        assert_eq!(said(&[("low.rs", low), ("high.rs", high)]), "");
    }
}
