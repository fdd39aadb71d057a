//! Code of `docs/guide` and of the README, compiled and run. The pages may show only lines of these files, so
//! they cannot show code that does not compile.

mod backup;
mod files;
mod many;
mod pages;
mod store;
mod tasks;

use crate::common::examples::too_weak;
use crate::common::*;
use logforce::inspect::{RepairOptions, repair};
use logforce::{
    Batch, Error, ErrorKind, Guarantee, Lsn, Options, Policy, Position, Record, Tuning, Verdict,
};
use std::path::Path;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Files in which the code blocks of the pages must occur.
const SOURCES: [&str; 8] = [
    include_str!("mod.rs"),
    include_str!("backup.rs"),
    include_str!("files.rs"),
    include_str!("many.rs"),
    include_str!("pages.rs"),
    include_str!("store.rs"),
    include_str!("tasks.rs"),
    include_str!("../../../examples/quickstart.rs"),
];

/// Returns the lines without their indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

/// Returns the blocks of Rust code in a page.
fn blocks(page: &str) -> Vec<&str> {
    let after = |rest: &'static str, text| str::split_once(text, rest).map(|(_, after)| after);
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(begun) = after("```rust\n", rest) {
        let (block, behind) = begun.split_once("```").expect("a block that ends");
        found.push(block);
        rest = behind;
    }
    found
}

/// Returns true if all lines of the block occur in one of the sources, one after the other.
fn is_run(block: &str) -> bool {
    let block = lines(block);
    let holds = |source: &&str| lines(source).windows(block.len()).any(|w| w == block);
    !block.is_empty() && SOURCES.iter().any(holds)
}

#[test]
fn the_pages_show_code_that_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_dir(root.join("docs/guide")).unwrap();
    let mut pages: Vec<_> = guide.map(|e| e.unwrap().path()).collect();
    pages.extend(["README.md", "crates/logforce/README.md"].map(|page| root.join(page)));
    let mut seen = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap().replace('\r', "");
        for block in blocks(&text) {
            assert!(
                is_run(block),
                "{} shows code that no test here runs:\n{block}",
                page.display()
            );
            seen += 1;
        }
    }
    assert!(seen >= 15, "{seen} blocks");
}

#[test]
fn a_line_that_is_not_run_is_noticed() {
    let page = "One:\n```rust\nlet one = log.commit(b\"one coffee, 2.50\")?;\n```\nand\n```rust\nno();\n```\n";
    let found = blocks(page);
    assert_eq!(found.len(), 2);
    assert!(is_run(found[0]) && !is_run(found[1]) && !is_run(""));
}

#[test]
fn opening() -> Result<()> {
    let home = temp();
    if too_weak(home.path()) {
        return Ok(());
    }
    let dir = &home.path().join("sales.log");
    {
        let log = logforce::open_or_create(dir, Options::new())?;
        let report = log.recovered();
        println!(
            "new: {}, closed cleanly: {}, ends at {}, {} bytes scanned",
            report.created, report.clean, report.end, report.scanned
        );
        assert!(report.created);
        log.commit(b"one coffee, 2.50")?;
        log.close()?;
    }
    {
        let log = logforce::open_existing(dir, Options::new())?;
        for record in log.read_from(log.front_lsn())? {
            let record = record?;
            apply(record.start, &record.data);
        }
        assert!(log.recovered().clean);
        let second = logforce::open_existing(dir, Options::new());
        assert!(matches!(second, Err(Error::Locked { .. })));
        log.close()?;
    }
    let options = Options::new()
        .require(Guarantee::OsCrash) // less is promised
        .require_verdict(Verdict::Unknown) // less is known of what is promised
        .segment_size(16 << 20);
    let log = logforce::open_existing(dir, options)?;
    println!(
        "{} by {}, {}: {}",
        log.guarantee(),
        log.recovered().method,
        log.recovered().verdict,
        log.recovered().evidence
    );
    log.close()?;
    let shared = Options::new()
        .require(Guarantee::OsCrash)
        .directory_mode(0o750) // the group may enter and list
        .file_mode(0o640); // the group may read
    logforce::open_existing(dir, shared)?.close()?;
    Ok(())
}

fn apply(at: Lsn, data: &[u8]) {
    assert!(at > Lsn::ORIGIN && !data.is_empty());
}

#[test]
fn appending() -> Result<()> {
    let home = temp();
    let log = logforce::open_or_create(home.path().join("log"), options())?;
    let record = b"page view";

    let one = log.commit(b"one coffee, 2.50")?;
    println!("{} survives {}", one.start, one.guarantee);

    let two = log.append(b"two teas, 4.00")?;
    let three = log.append(b"a cake, 3.20")?;
    log.force(three.end)?; // makes everything below durable, two and three

    log.commit(Batch::of(&[b"debit A 5.00", b"credit B 5.00"]))?; // both or neither after a crash

    let within = Duration::from_millis(20);
    let done = log.commit_with(
        record,
        Policy::Write {
            force_within: within,
        },
    )?;
    if done.guarantee < log.guarantee() {
        log.force(done.end)?; // this one has to be durable now after all
    }

    let handle = log.submit(b"order 17", Policy::Force)?; // staged, and on its way
    let done = handle.wait()?;
    assert!(two.end < three.end && done.guarantee == log.guarantee());
    assert!(log.durable_lsn() >= done.end);

    smol::block_on(async {
        let done = log.commit_async(b"order 18").await?; // waits for space, and until it is durable
        assert!(log.durable_lsn() >= done.end);
        Result::Ok(())
    })?;
    log.commit(b"")?; // a record may be empty
    assert_eq!(log.read_from(log.front_lsn())?.count(), 9);
    Ok(())
}

/// Reaction of a program to an error of a commit.
#[derive(Debug, PartialEq)]
enum Next {
    Retry,
    Reopen,
    Stop,
}

fn after(error: &Error) -> Next {
    match error.kind() {
        ErrorKind::NoSpace | ErrorKind::Full => Next::Retry, // once there is space
        ErrorKind::WouldBlock | ErrorKind::Io => Next::Retry, // nothing was accepted
        ErrorKind::Poisoned => Next::Reopen, // unacknowledged records may or may not be there
        _ => Next::Stop,
    }
}

#[test]
fn errors() -> Result<()> {
    let home = temp();
    let log = logforce::open_or_create(home.path().join("log"), options())?;
    let copy = log.clone();
    log.close()?;
    let Err(error) = copy.commit(b"too late") else {
        return Err("a closed log took a record".into());
    };
    assert_eq!(after(&error), Next::Stop);
    assert_eq!(after(&Error::WouldBlock), Next::Retry);
    let poisoned = Error::Poisoned {
        durable: Lsn(8192),
        cause: Error::Closed.into(),
    };
    assert_eq!(after(&poisoned), Next::Reopen);
    // The table has a row for each kind.
    let table = include_str!("../../../../../docs/guide/errors.md");
    let kinds = include_str!("../../../../core/src/error/mod.rs");
    let (_, kinds) = kinds.split_once("pub enum ErrorKind {").unwrap();
    let (kinds, _) = kinds.split_once("\n}").unwrap();
    let mut seen = 0;
    for kind in kinds
        .lines()
        .map(str::trim)
        .filter(|l| l.ends_with(',') && !l.starts_with("//"))
    {
        let kind = kind.trim_end_matches(',');
        assert!(table.contains(&format!("| `{kind}` |")), "{kind}");
        seen += 1;
    }
    assert!(seen >= 19, "{seen} kinds");
    Ok(())
}

#[test]
fn damage() -> Result<()> {
    let home = temp();
    let dir = &home.path().join("log");
    let log = logforce::create_new(dir, options())?;
    for n in 0..60 {
        log.commit(record(n, 20_000))?;
    }
    log.close()?;
    std::fs::remove_file(&segments(dir)[2])?;

    let log = match logforce::open_existing(dir, options()) {
        Err(error) if error.kind() == ErrorKind::Damaged => {
            let report = repair(dir, &RepairOptions::new())?; // gives up acknowledged records
            eprintln!("{error}\nrepaired: {report:?}");
            logforce::open_existing(dir, options())?
        }
        opened => opened?,
    };
    let kept = read_all(&log).len() as u64;
    assert!(0 < kept && kept < 60, "{kept}");
    Ok(())
}

#[test]
fn reading() -> Result<()> {
    let home = temp();
    let dir = &home.path().join("log");
    let log = logforce::open_or_create(
        dir,
        options().tuning(Tuning::new().idle_stamp(Duration::from_millis(5))),
    )?;
    let at = log.commit(b"one coffee, 2.50")?;

    let record = log.read_at(at.start)?;
    assert_eq!(record.data, b"one coffee, 2.50");

    for record in log.read_from(log.front_lsn())? {
        let record = record?;
        println!("{}: {} bytes", record.start, record.data.len());
    }

    let mut follower = log.follow_lsn(log.front_lsn())?;
    while let Some(record) = follower.try_next()? {
        apply(record.start, &record.data);
    }

    let mut position = None;
    replicate(dir, &mut position)?;
    assert!(position.as_ref().is_some_and(|p| p.lsn() >= at.end));
    log.truncate_back(at.start)?;
    log.commit(b"two coffees, 5.00")?;
    replicate(dir, &mut position)?;
    assert!(position.is_some_and(|p| p.lsn() > at.end));
    Ok(())
}

/// Another process: follows until nothing has come for a second. `position` is kept with what was
/// applied.
fn replicate(dir: &Path, position: &mut Option<Position>) -> Result<()> {
    let log = logforce::read_only(dir)?;
    let mut front = log.front_lsn();
    let mut follower = loop {
        let begun = match &*position {
            Some(position) => log.follow(position),
            None => log.follow_lsn(front),
        };
        match begun {
            // The log was truncated at the back meanwhile, or a backup was restored.
            Err(Error::Voided { from, .. } | Error::Diverged { from, .. }) => undo(from, position),
            // The log was truncated at the front in between.
            Err(Error::Truncated { front: now, .. }) if position.is_none() => front = now,
            other => break other?,
        }
    };
    loop {
        let next = follower.next_timeout(Duration::from_secs(1));
        *position = Some(follower.position());
        match next {
            Ok(Some(record)) => keep(&record),
            Ok(None) => return Ok(()), // nothing for a second
            Err(Error::Voided { from, .. }) => undo(from, position), // and it goes on behind the range
            Err(other) => return Err(other.into()), // Diverged too: the next call goes back
        }
    }
}

fn keep(record: &Record) {
    apply(record.start, &record.data);
}

/// Forgets the records that were applied from `from` on.
fn undo(from: Lsn, position: &mut Option<Position>) {
    assert!(from > Lsn::ORIGIN);
    *position = position.take().map(|position| position.back_to(from));
}

#[test]
fn tuning() -> Result<()> {
    let home = temp();
    let log = logforce::open_or_create(home.path().join("log"), options())?;

    let before = log.stats();
    log.commit(b"one coffee, 2.50")?;
    let stats = log.stats().difference(&before);
    println!("{stats}");
    println!("p99 of a commit: {:?} ns", stats.commit.quantile(0.99));
    println!("records per batch: {:?}", stats.records_per_batch());
    println!("commit to force: {:?}", stats.commit_to_force_ratio());
    if stats.oldest_io_age > Duration::from_secs(5) {
        eprintln!("the device hangs");
    }
    assert_eq!(stats.counters.records, 1);
    Ok(())
}
