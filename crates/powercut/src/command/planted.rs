//! Known bugs of the shipped code, each of which cuts or failing system calls have to find.

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The bugs that show when system calls fail.
const INJECTED: &[(&str, &str)] = &[
    (
        "any-error-is-damage",
        "whatever a read answers counts as damage",
    ),
    (
        "short-read-is-the-end",
        "a read that ends inside a file counts as its end",
    ),
    (
        "one-look-at-the-medium",
        "what the medium does not give just once counts as damage",
    ),
    ("failed-write-forgotten", "a failed write counts as done"),
    (
        "failed-barrier-forgotten",
        "a failed barrier counts as done",
    ),
    ("poison-forgotten", "the log goes on after a failure"),
    (
        "error-is-not-found",
        "an error while facts are gathered counts as nothing there",
    ),
    (
        "signal-is-an-error",
        "a call that a signal interrupts counts as failed",
    ),
];

/// The bugs that show on real filesystems; `--cfg planted` compiles them in. The other ones either
/// need a fault that no honest disk has, or the filesystems make up for them.
const BUGS: &[(&str, &str)] = &[
    ("barrier-left-out", "acknowledged before the barrier"),
    (
        "unforced-neighbour",
        "a write through behind an unforced one counts as a force",
    ),
    (
        "barrier-covers-what-came-later",
        "a barrier covers what was written while it ran",
    ),
    (
        "hole-under-watermark",
        "the watermark passes a write that has not landed",
    ),
    (
        "guarantee-overstated",
        "what is only written is said to survive loss of power",
    ),
    ("payload-checksum-ignored", "a torn payload is accepted"),
    (
        "segment-unforced",
        "a segment is used before its header is durable",
    ),
    (
        "segment-unannounced",
        "a segment is used that the control file does not know",
    ),
    ("control-unforced", "the control file is not forced"),
    (
        "front-not-written-down",
        "segments go before the control file says so",
    ),
    ("void-not-forced", "what was truncated is there again"),
    ("metadata-unforced", "the metadata is not forced"),
    ("metadata-in-one-slot", "torn metadata leaves none"),
    (
        "copy-unforced",
        "a repair changes the log before its copies are durable",
    ),
];

/// Live cuts and replayed states of each layout of a durable file.
const FILE_CYCLES: &str = "60";
const FILE_STATES: &str = "400";

/// The bugs of durable files that show on real filesystems. The other ones need an error of the disk, or the
/// filesystems make up for them.
const OF_FILES: &[(&str, &str)] = &[
    (
        "file-sync-covers-later-writes",
        "a sync counts for writes that completed while it ran",
    ),
    (
        "file-through-is-a-barrier",
        "a write through counts for earlier writes",
    ),
    (
        "file-write-counted-early",
        "a sync counts for writes that completed after it began",
    ),
    (
        "file-opened-unsynced",
        "an opening shows what a power cut takes back",
    ),
];

/// Live cuts and replayed states of each mode of SQLite.
const SQLITE_CYCLES: &str = "40";
const SQLITE_STATES: &str = "200";
/// Kills of each mode.
const SQLITE_KILLS: &str = "150";

/// The bugs of the SQLite VFS that power cuts show.
const SQLITE_CUT: &[(&str, &str)] = &[
    (
        "sqlite-header-zeroed-unsynced",
        "a journal is there again after its transaction was acknowledged",
    ),
    (
        "sqlite-group-not-waited-for",
        "a commit returns before the sync of its group",
    ),
    (
        "sqlite-checkpoint-unsynced",
        "a checkpoint overwrites pages before the log is durable",
    ),
    (
        "file-bound-not-kept",
        "a bounded commit does not wait for older ones that exceed the bound",
    ),
];

/// The bugs of the SQLite VFS that kills show, with stock SQLite beside it.
const SQLITE_KILLED: &[(&str, &str)] = &[
    (
        "sqlite-visible-before-written",
        "a commit is published before its frames are in the file",
    ),
    (
        "sqlite-rolled-back-frames-kept",
        "frames that were rolled back overwrite another connection's commit",
    ),
    (
        "sqlite-journal-identity-unchecked",
        "a journal is kept that another process has deleted",
    ),
    (
        "sqlite-database-before-journal",
        "a page is overwritten before its former content is in the journal",
    ),
    (
        "sqlite-super-journal-kept",
        "a journal is kept that names a super-journal",
    ),
];

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Only these.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Seed of all random choices of the first attempt; each further one takes the next.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Attempts to find a bug before it counts as missed.
    #[arg(long, default_value_t = 4)]
    attempts: u64,
    /// Filesystems whose power is cut.
    #[arg(long, default_value = "ext4,xfs")]
    filesystem: String,
    /// Live cuts on each.
    #[arg(long, default_value_t = 120)]
    cycles: u32,
    /// Replayed states of each.
    #[arg(long, default_value_t = 2400)]
    states: u32,
    /// Cases of system calls that fail.
    #[arg(long, default_value_t = 2500)]
    calls: u32,
}

/// Turns each on in turn. Fails if one is not found.
pub fn run(args: &Args) -> Result<ExitCode> {
    if !cfg!(planted) {
        bail!("known bugs are not compiled in; use `cargo xtask powercut planted`");
    }
    let [cycles, states, calls] = [args.cycles, args.states, args.calls].map(|n| n.to_string());
    let mut cuts = vec!["suite", "--unchecked", "--first"];
    cuts.extend(["--filesystem", &args.filesystem, "--cycles", &cycles]);
    cuts.extend(["--states", &states]);
    let calls = ["process", "--only", "inject", "--first", "--calls", &calls];
    let mut files = vec!["files", "--unchecked", "--first", "--filesystem"];
    files.extend([&args.filesystem, "--cycles", FILE_CYCLES]);
    files.extend(["--states", FILE_STATES]);
    let sqlite = ["sqlite", "--unchecked", "--first"];
    let mut sqlite_cuts = sqlite.to_vec();
    sqlite_cuts.extend(["--filesystem", &args.filesystem, "--cycles", SQLITE_CYCLES]);
    sqlite_cuts.extend(["--states", SQLITE_STATES, "--kills", "0"]);
    let mut sqlite_kills = sqlite.to_vec();
    sqlite_kills.extend(["--filesystem", "ext4", "--cycles", "0", "--states", "0"]);
    sqlite_kills.extend(["--kills", SQLITE_KILLS]);
    let all = [
        (BUGS, &cuts[..]),
        (INJECTED, &calls),
        (OF_FILES, &files),
        (SQLITE_CUT, &sqlite_cuts),
        (SQLITE_KILLED, &sqlite_kills),
    ];
    let all = all.into_iter();
    let all: Vec<_> = all
        .flat_map(|(bugs, words)| bugs.iter().map(move |bug| (bug, words)))
        .collect();
    for name in &args.names {
        if !all.iter().any(|((known, _), _)| known == name) {
            let known: Vec<_> = all.iter().map(|((n, _), _)| *n).collect();
            bail!("no known bug '{name}'; there are {}", known.join(", "));
        }
    }
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|n| n == name);
    let mut missed = 0;
    for ((name, what), words) in all.iter().filter(|((name, _), _)| wanted(name)) {
        let started = Instant::now();
        let mut found = Err(String::new());
        for seed in args.seed..args.seed + args.attempts {
            found = attempt(name, words, seed)?;
            if found.is_ok() {
                break;
            }
        }
        let took = started.elapsed();
        match found {
            Ok(found) => println!("caught     {name} ({what}), {took:.0?}: {found}"),
            Err(text) => {
                missed += 1;
                println!("NOT CAUGHT {name} ({what}), {took:.0?}");
                println!("{text}");
            }
        }
    }
    Ok(ExitCode::from(u8::from(missed > 0)))
}

/// Runs the suite with a bug turned on. Returns the invariant that it broke, or the output of a run that found nothing.
fn attempt(name: &str, words: &[&str], seed: u64) -> Result<Result<String, String>> {
    let out = Command::new(std::env::current_exe()?)
        .args(words)
        .args(["--seed", &seed.to_string()])
        .env("LOGFORCE_PLANTED", name)
        .output()
        .context("the suite")?;
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    // A broken invariant, not a complaint that there was too little of something.
    let mut lines = text.lines().map(str::trim);
    let broken = lines.find_map(|line| line.strip_prefix("BROKEN: "));
    Ok(match broken.filter(|_| out.status.code() == Some(1)) {
        Some(found) => Ok(found.trim().to_owned()),
        None => Err(text.into_owned()),
    })
}
