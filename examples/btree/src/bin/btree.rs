//! A tree on the command line: `btree --help`.

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
";

/// Lines of `load` in a commit.
const LOAD: usize = 1000;

type Outcome = Result<bool, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.iter().any(|a| matches!(*a, "-h" | "--help")) {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let outcome = match &args[..] {
        [dir, "put", key, value] => create(dir).and_then(|t| put(&t, key, value)),
        [dir, "load"] => create(dir).and_then(|t| load(&t)),
        [dir, "get", key] => open(dir).and_then(|t| get(&t, key)),
        [dir, "del", key] => open(dir).and_then(|t| Ok(t.delete(key)?)),
        [dir, "scan", rest @ ..] => open(dir).and_then(|t| scan(&t, rest)),
        [dir, "check"] => open(dir).and_then(|t| check(&t)),
        [dir, "stat"] => open(dir).and_then(|t| stat(&t)),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
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
        println!("{}", String::from_utf8_lossy(value));
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
    println!("{keys} keys");
    Ok(true)
}

fn scan(tree: &Tree, args: &[&str]) -> Outcome {
    let is_reverse = args.contains(&"--reverse");
    let bounds: Vec<&str> = args.iter().copied().filter(|a| *a != "--reverse").collect();
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
    for problem in &report.problems {
        println!("{problem}");
    }
    match report.is_whole() {
        true => println!("whole: {} keys in {} pages", report.keys, report.page_count),
        false => println!("{} problems", report.problems.len()),
    }
    Ok(report.is_whole())
}

fn stat(tree: &Tree) -> Outcome {
    let view = tree.snapshot()?;
    let report = view.check()?;
    let nodes = report.leaf_pages + report.inner_pages;
    let size = u64::from(tree.file().page_size());
    println!("keys          {}", report.keys);
    println!("height        {}", report.height);
    println!("pages         {} of {size} bytes", report.page_count);
    println!("  leaves      {}", report.leaf_pages);
    println!("  inner       {}", report.inner_pages);
    println!("  values      {}", report.value_pages);
    println!("  free        {}", report.free_pages);
    println!(
        "filled        {} %",
        100 * report.used_bytes / (nodes * size).max(1)
    );
    println!("last commit   {}", view.commit());
    println!("survives      {}", tree.file().guarantee());
    Ok(true)
}
