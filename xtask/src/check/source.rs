//! Source files as tokens, with and without what is compiled for tests only.

use super::shown;
use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::path::Path;

/// A source file.
#[derive(Debug)]
pub struct File {
    /// Relative to the root of the workspace.
    pub path: String,
    pub text: String,
    /// None if it is no Rust: then the compiler will say so.
    pub tokens: Option<Tokens>,
}

/// What a file says.
#[derive(Debug, Default)]
pub struct Tokens {
    /// All tokens, in order; a bracket is a token.
    pub all: Vec<Token>,
    /// The same without the items that are compiled for tests only.
    pub shipped: Vec<Token>,
    /// The modules in files of their own that are compiled for tests only.
    pub test_modules: Vec<String>,
}

/// A word or a sign. A literal is an empty one: what it says is data, and so is a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub line: usize,
    pub text: String,
}

impl File {
    /// A file of that text.
    pub fn new(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens: text.parse().ok().map(|stream: TokenStream| {
                let mut tokens = Tokens::default();
                flatten(stream.clone(), &mut tokens.all);
                ship(stream, &mut tokens);
                tokens
            }),
        }
    }

    /// The directory below `crates/` and the path in it, if it is of a crate.
    pub fn crate_and_rest(&self) -> Option<(&str, &str)> {
        self.path.strip_prefix("crates/")?.split_once('/')
    }

    /// Where the files of a module of this one are: their path, without `.rs` or `/`.
    pub fn module(&self, name: &str) -> String {
        let (dir, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match file {
            "mod.rs" | "lib.rs" | "main.rs" => format!("{dir}/{name}"),
            file => format!("{dir}/{}/{name}", file.trim_end_matches(".rs")),
        }
    }
}

/// All Rust files of the workspace, sorted.
pub fn files(root: &Path) -> Result<Vec<File>> {
    let mut found = Vec::new();
    for dir in ["crates", "xtask", "fuzz"] {
        let dir = root.join(dir);
        if dir.is_dir() {
            walk(root, &dir, &mut found)?;
        }
    }
    found.sort_by(|a: &File, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(root: &Path, dir: &Path, found: &mut Vec<File>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                walk(root, &path, found)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text =
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            found.push(File::new(&shown(root, &path), &text));
        }
    }
    Ok(())
}

/// The signs around a group.
fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

fn push(line: usize, text: impl Into<String>, out: &mut Vec<Token>) {
    let text = text.into();
    out.push(Token { line, text });
}

fn flatten(stream: TokenStream, out: &mut Vec<Token>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                push(group.span_open().start().line, open, out);
                flatten(group.stream(), out);
                push(group.span_close().start().line, close, out);
            }
            other => flat(&other, out),
        }
    }
}

/// A tree that is no group.
fn flat(tree: &TokenTree, out: &mut Vec<Token>) {
    let line = tree.span().start().line;
    match tree {
        TokenTree::Ident(word) => push(line, word.to_string(), out),
        TokenTree::Punct(sign) => push(line, sign.as_char(), out),
        TokenTree::Literal(_) | TokenTree::Group(_) => push(line, "", out),
    }
}

/// Collects what is shipped, and the names of the modules that are not.
fn ship(stream: TokenStream, tokens: &mut Tokens) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    // `#![cfg(test)]`: nothing in here is shipped.
    if trees
        .windows(3)
        .any(|w| is_sign(&w[0], '#') && is_sign(&w[1], '!') && is_test_attribute(&w[2]))
    {
        return;
    }
    let mut at = 0;
    while at < trees.len() {
        let attribute = trees.get(at + 1);
        if is_sign(&trees[at], '#') && attribute.is_some_and(is_test_attribute) {
            at = past_item(&trees, at + 2, &mut tokens.test_modules);
            continue;
        }
        match &trees[at] {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                push(group.span_open().start().line, open, &mut tokens.shipped);
                ship(group.stream(), tokens);
                push(group.span_close().start().line, close, &mut tokens.shipped);
            }
            other => flat(other, &mut tokens.shipped),
        }
        at += 1;
    }
}

/// The index behind the item that begins at `at`: it ends with a `;` or with a block.
fn past_item(trees: &[TokenTree], mut at: usize, test_modules: &mut Vec<String>) -> usize {
    let mut module = None;
    while let Some(tree) = trees.get(at) {
        at += 1;
        match tree {
            TokenTree::Ident(word) if word == "mod" => {
                module = trees.get(at).map(ToString::to_string);
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
            tree if is_sign(tree, ';') => {
                test_modules.extend(module);
                break;
            }
            _ => {}
        }
    }
    at
}

fn is_sign(tree: &TokenTree, sign: char) -> bool {
    matches!(tree, TokenTree::Punct(p) if p.as_char() == sign)
}

/// `[cfg(test)]` or `[cfg(all(test, …))]`.
fn is_test_attribute(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else {
        return false;
    };
    let mut flat = Vec::new();
    flatten(group.stream(), &mut flat);
    let words: Vec<&str> = flat.iter().map(|t| t.text.as_str()).collect();
    match words.as_slice() {
        ["cfg", "(", "test", ")"] => true,
        ["cfg", "(", "all", "(", conditions @ .., ")", ")"] => {
            let mut depth = 0_usize;
            conditions.iter().any(|&word| {
                match word {
                    "(" => depth += 1,
                    ")" => depth -= 1,
                    _ => {}
                }
                depth == 0 && word == "test"
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(tokens: &[Token]) -> String {
        let words: Vec<&str> = tokens.iter().map(|t| t.text.as_str()).collect();
        words.join(" ")
    }

    #[test]
    fn comments_and_literals_say_nothing() {
        let text =
            "// one\n/* two */ fn f<'a>() { \"three\"; r#\"fo\"ur\"#; b'x'; 'y' } /// five\n";
        let file = File::new("a.rs", text);
        let all = words(&file.tokens.unwrap().all);
        for gone in ["one", "two", "three", "fo", "x", "y", "five"] {
            assert!(!all.split(' ').any(|w| w == gone), "{gone} in {all}");
        }
        assert!(
            all.contains("fn f < ' a >") || all.contains("fn f < 'a >"),
            "{all}"
        );
    }

    #[test]
    fn what_is_for_tests_only_is_left_out() {
        let file = File::new(
            "crates/a/src/b.rs",
            "fn kept() { #[cfg(test)] gone(); also_kept() }\n\
             #[cfg(test)]\n#[derive(Debug)]\nstruct Gone;\n\
             #[cfg(all(unix, test))]\nmod inside { fn gone() {} }\n\
             #[cfg(test)]\npub(crate) mod outside;\n\
             #[cfg(not(test))]\nfn last() {}\n\
             #[cfg(all(unix, not(test)))]\nfn very_last() {}\n",
        );
        let tokens = file.tokens.as_ref().unwrap();
        let shipped = words(&tokens.shipped);
        for word in ["kept", "also_kept", "last", "very_last"] {
            assert!(shipped.contains(word), "{word} in {shipped}");
        }
        for word in ["gone", "Gone", "inside", "outside"] {
            assert!(!shipped.contains(word), "{word} in {shipped}");
            assert!(words(&tokens.all).contains(word));
        }
        assert_eq!(tokens.test_modules, ["outside"]);
        assert_eq!(file.module("outside"), "crates/a/src/b/outside");
        let lib = File::new("crates/a/src/lib.rs", "#![cfg(test)]\nfn gone() {}");
        assert_eq!(lib.module("m"), "crates/a/src/m");
        assert_eq!(lib.tokens.unwrap().shipped, []);
    }

    #[test]
    fn lines_are_counted_from_one() {
        let file = File::new("a.rs", "\nfn f() {\n    x\n}\n");
        let tokens = file.tokens.unwrap();
        let x = tokens.all.iter().find(|t| t.text == "x").unwrap();
        assert_eq!(x.line, 3);
        assert_eq!(tokens.all, tokens.shipped);
    }
}
