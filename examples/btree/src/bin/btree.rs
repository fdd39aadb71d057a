//! Command-line tool for a tree: `btree --help`.

use logforce::pages::Options;
use logforce_btree::{Entry, Tree};
use std::error::Error;
use std::io::{BufRead, BufWriter, Write};
use std::process::ExitCode;

const USAGE: &str = "An ordered key-value store in the directory DIR

usage: btree DIR put KEY VALUE      durably; made if there is none
       btree DIR load               lines `KEY<tab>VALUE` from stdin, 1,000 in a commit
       btree DIR get KEY            status 1 if there is none
       btree DIR del KEY            status 1 if there is none
       btree DIR scan [FROM [TO]] [--reverse]
                                    keys from FROM on and below TO
       btree DIR check              walks the whole tree; status 1 if anything is wrong
       btree DIR stat

Status 2: these arguments cannot be used, or an error.
";

/// Lines of `load` per commit.
const LOAD: usize = 1000;

type Outcome = Result<bool, Box<dyn Error>>;

fn main() -> ExitCode {
    // Keys and values are text; invalid UTF-8 is replaced.
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.iter().any(|a| matches!(*a, "-h" | "--help")) {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let outcome = match &args[..] {
        [dir, ..] if dir.starts_with('-') => return unusable(),
        [_, "scan", rest @ ..] if bounds(rest).is_none() => return unusable(),
        [dir, "put", key, value] => create(dir).and_then(|t| put(&t, key, value)),
        [dir, "load"] => create(dir).and_then(|t| load(&t)),
        [dir, "get", key] => open(dir).and_then(|t| get(&t, key)),
        [dir, "del", key] => open(dir).and_then(|t| Ok(t.delete(key)?)),
        [dir, "scan", rest @ ..] => open(dir).and_then(|t| scan(&t, rest)),
        [dir, "check"] => open(dir).and_then(|t| check(&t)),
        [dir, "stat"] => open(dir).and_then(|t| stat(&t)),
        _ => return unusable(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("btree: {e}");
            ExitCode::from(2)
        }
    }
}

fn unusable() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

/// Returns the bounds of `scan`, if its arguments are valid.
fn bounds<'a>(args: &[&'a str]) -> Option<Vec<&'a str>> {
    let bounds: Vec<&str> = args.iter().copied().filter(|a| *a != "--reverse").collect();
    let usable = bounds.len() <= 2 && !bounds.iter().any(|b| b.starts_with("--"));
    usable.then_some(bounds)
}

fn create(dir: &str) -> Result<Tree, Box<dyn Error>> {
    Ok(Tree::open_or_create(dir, Options::new())?)
}

fn open(dir: &str) -> Result<Tree, Box<dyn Error>> {
    Ok(Tree::open_existing(dir, Options::new())?)
}

fn put(tree: &Tree, key: &str, value: &str) -> Outcome {
    tree.put(key, value)?;
    Ok(true)
}

fn get(tree: &Tree, key: &str) -> Outcome {
    let value = tree.get(key)?;
    if let Some(value) = &value {
        writeln!(std::io::stdout(), "{}", String::from_utf8_lossy(value))?;
    }
    Ok(value.is_some())
}

fn load(tree: &Tree) -> Outcome {
    let mut lines = std::io::stdin().lock().lines().peekable();
    let (mut keys, mut number) = (0, 0);
    while lines.peek().is_some() {
        let mut write = tree.begin()?;
        for line in lines.by_ref().take(LOAD) {
            let line = line?;
            number += 1;
            if line.is_empty() {
                continue;
            }
            let Some((key, value)) = line.split_once('\t') else {
                return Err(format!("line {number} has no tab between key and value").into());
            };
            write.put(key, value)?;
            keys += 1;
        }
        write.commit()?;
    }
    writeln!(std::io::stdout(), "{keys} keys")?;
    Ok(true)
}

fn scan(tree: &Tree, args: &[&str]) -> Outcome {
    let is_reverse = args.contains(&"--reverse");
    let bounds = bounds(args).unwrap_or_default();
    let view = tree.snapshot()?;
    let range = match bounds[..] {
        [] => view.iter(),
        [from] => view.range(from..),
        [from, to] => view.range(from..to),
        _ => return Err("scan takes FROM and TO, no more".into()),
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut print = |entry: Entry| {
        let (key, value) = (entry.key(), entry.value());
        let text = String::from_utf8_lossy;
        writeln!(out, "{}\t{}", text(key), text(value))
    };
    if is_reverse {
        for entry in range.rev() {
            print(entry?)?;
        }
    } else {
        for entry in range {
            print(entry?)?;
        }
    }
    out.flush()?;
    Ok(true)
}

fn check(tree: &Tree) -> Outcome {
    let report = tree.snapshot()?.check()?;
    let mut out = std::io::stdout().lock();
    for problem in &report.problems {
        writeln!(out, "{problem}")?;
    }
    match report.is_whole() {
        true => writeln!(
            out,
            "whole: {} keys in {} pages",
            report.keys, report.page_count
        )?,
        false => writeln!(out, "{} problems", report.problems.len())?,
    }
    Ok(report.is_whole())
}

fn stat(tree: &Tree) -> Outcome {
    let mut out = std::io::stdout().lock();
    let view = tree.snapshot()?;
    let report = view.check()?;
    let nodes = report.leaf_pages + report.inner_pages;
    let size = u64::from(tree.file().page_size());
    writeln!(out, "keys          {}", report.keys)?;
    writeln!(out, "height        {}", report.height)?;
    writeln!(out, "pages         {} of {size} bytes", report.page_count)?;
    writeln!(out, "  leaves      {}", report.leaf_pages)?;
    writeln!(out, "  inner       {}", report.inner_pages)?;
    writeln!(out, "  values      {}", report.value_pages)?;
    writeln!(out, "  free        {}", report.free_pages)?;
    writeln!(
        out,
        "filled        {} %",
        100 * report.used_bytes / (nodes * size).max(1)
    )?;
    writeln!(out, "last commit   {}", view.commit())?;
    writeln!(out, "survives      {}", tree.file().guarantee())?;
    Ok(true)
}
