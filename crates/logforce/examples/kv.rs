//! A key-value store: a map in memory, one log record for each change, occasional checkpoints.
//!
//! ```text
//! cargo run -p logforce --example kv DIR set KEY VALUE
//! cargo run -p logforce --example kv DIR get KEY
//! cargo run -p logforce --example kv DIR del KEY
//! cargo run -p logforce --example kv DIR list
//! cargo run -p logforce --example kv DIR checkpoint
//! cargo run -p logforce --example kv DIR bench 10000
//! ```
//!
//! `bench` makes that many changes to 100 keys. It prints a line for each change that is durable, and writes
//! a checkpoint after every 1000. Kill it at any point: every change that it has printed is still there.
//!
//! The program has one thread, so `&mut self` orders the changes. For many threads see `accounts.rs`.

use logforce::{Batch, Log, Lsn, Options, checkpoint};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
usage: kv DIR set KEY VALUE
       kv DIR get KEY
       kv DIR del KEY
       kv DIR list
       kv DIR checkpoint
       kv DIR bench COUNT

A key-value store in DIR, which is created if it is missing.
  checkpoint  writes all keys into a file and truncates the log
  bench       makes COUNT changes, prints each once it is durable, writes a checkpoint after each 1000";

/// A store of keys and values.
struct Store {
    dir: PathBuf,
    log: Log,
    map: BTreeMap<String, String>,
    /// End of the last record that the map contains.
    applied: Lsn,
}

/// Encodes a change as a record: `Some` sets the key, `None` removes it.
fn encode(key: &str, value: Option<&str>) -> Vec<u8> {
    let mut record = vec![u8::from(value.is_some())];
    for text in [Some(key), value].into_iter().flatten() {
        record.extend_from_slice(&(text.len() as u32).to_le_bytes());
        record.extend_from_slice(text.as_bytes());
    }
    record
}

/// Removes a text from the front of `bytes` and returns it.
fn text(bytes: &mut &[u8]) -> Result<String> {
    let (len, rest) = bytes.split_first_chunk().ok_or("too short")?;
    let len = u32::from_le_bytes(*len) as usize;
    let (text, rest) = rest.split_at_checked(len).ok_or("too short")?;
    *bytes = rest;
    Ok(String::from_utf8(text.to_vec())?)
}

fn apply(map: &mut BTreeMap<String, String>, mut record: &[u8]) -> Result<()> {
    let (kind, rest) = record.split_first().ok_or("an empty record")?;
    record = rest;
    let key = text(&mut record)?;
    match kind {
        0 => drop(map.remove(&key)),
        1 => drop(map.insert(key, text(&mut record)?)),
        other => return Err(format!("unknown kind of change: {other}, expected 0 or 1").into()),
    }
    Ok(())
}

impl Store {
    /// Opens or creates the store: reads the checkpoint, then applies the later records of the log.
    fn open(dir: impl Into<PathBuf>) -> Result<Store> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|e| format!("cannot create {}: {e}", dir.display()))?;
        // Syncs the directory's name first. Otherwise a power cut could remove the directory with everything
        // in it.
        if cfg!(unix) {
            File::open(dir.join(".."))?.sync_all()?;
        }
        let log = logforce::open_or_create(dir.join("log"), Options::new().segment_size(1 << 20))?;
        let front = log.front_lsn();
        let (covered, mut map) = match read_checkpoint(&dir)? {
            Some((covered, map)) if front <= covered => (covered, map),
            None if log.meta().is_none() => (front, BTreeMap::new()),
            _ => {
                let dir = dir.display();
                return Err(format!("the checkpoint in {dir} is missing or is not the last one, and the log no longer contains its records: restore a backup").into());
            }
        };
        let mut applied = covered;
        // Does not read from the front: after a crash between a checkpoint and its truncation the log still
        // contains records that are in the checkpoint.
        for record in log.read_from(covered)? {
            let record = record?;
            apply(&mut map, &record.data)?;
            applied = record.end;
        }
        Ok(Store {
            dir,
            log,
            map,
            applied,
        })
    }

    /// Applies all of the records to the map, or none. They are durable when this returns.
    fn change(&mut self, records: &[Vec<u8>]) -> Result<()> {
        let done = self.log.commit(records.iter().collect::<Batch>())?;
        for record in records {
            apply(&mut self.map, record)?;
        }
        self.applied = done.end;
        Ok(())
    }

    /// Writes the map into a file, and truncates the log up to the last record in it.
    fn checkpoint(&self) -> Result<()> {
        let pairs = self.map.iter();
        let bytes: Vec<u8> = pairs.flat_map(|(k, v)| encode(k, Some(v))).collect();
        checkpoint::write(self.dir.join("checkpoint"), self.applied, &bytes)?;
        // Records that a checkpoint exists. Otherwise a deleted checkpoint would pass for an empty store.
        if self.log.meta().is_none() {
            self.log.set_meta(b"there is a checkpoint")?;
        }
        // Truncates to the end of the map's records, not to `durable_lsn()`. With a second thread a record
        // could be durable and not be in this map yet, and the truncation would lose it.
        Ok(self.log.truncate_front(self.applied)?)
    }
}

/// Reads the last checkpoint: the LSN up to which it contains the log, and its map.
fn read_checkpoint(dir: &Path) -> Result<Option<(Lsn, BTreeMap<String, String>)>> {
    let Some(found) = checkpoint::read(dir.join("checkpoint"))? else {
        return Ok(None);
    };
    let mut map = BTreeMap::new();
    let mut rest = &found.state[..];
    while let Some((1, pair)) = rest.split_first() {
        rest = pair;
        map.insert(text(&mut rest)?, text(&mut rest)?);
    }
    Ok(Some((found.lsn, map)))
}

/// Returns change number `n` of a predictable run.
fn predicted(n: u64) -> (String, Option<String>) {
    let key = format!("key {}", n * 7919 % 100);
    (key, (n % 5 != 4).then(|| format!("value {n}")))
}

fn bench(store: &mut Store, count: u64) -> Result<()> {
    let key = "changes so far";
    let done: u64 = store.map.get(key).map_or(Ok(0), |n| n.parse())?;
    let mut out = io::stdout().lock();
    writeln!(out, "found {done}")?;
    let began = Instant::now();
    for n in done + 1..=count {
        let (changed, value) = predicted(n);
        // Commits both or none: the count says which changes are in the store.
        let counted = n.to_string();
        let records = [
            encode(&changed, value.as_deref()),
            encode(key, Some(&counted)),
        ];
        store.change(&records)?;
        writeln!(out, "change {n}")?;
        out.flush()?;
        if n % 1000 == 0 {
            store.checkpoint()?;
        }
    }
    let rate = count.saturating_sub(done) as f64 / began.elapsed().as_secs_f64();
    writeln!(out, "{rate:.0} changes a second")?;
    Ok(())
}

/// A command of the user.
enum Command<'a> {
    Change(&'a str, Option<&'a str>),
    Get(&'a str),
    List,
    Checkpoint,
    Bench(u64),
}

/// Parses all arguments before a store is created. Returns the store's directory and the command, or `None`
/// if the arguments are invalid.
fn arguments<'a>(args: &[&'a str]) -> Option<(&'a str, Command<'a>)> {
    let (dir, command) = args.split_first()?;
    let command = match *command {
        ["set", key, value] => Command::Change(key, Some(value)),
        ["del", key] => Command::Change(key, None),
        ["get", key] => Command::Get(key),
        ["list"] => Command::List,
        ["checkpoint"] => Command::Checkpoint,
        ["bench", count] => Command::Bench(count.parse().ok()?),
        _ => return None,
    };
    (!dir.starts_with('-')).then_some((dir, command))
}

fn run(dir: &str, command: Command) -> Result<()> {
    let mut store = Store::open(dir)?;
    match command {
        Command::Change(key, value) => store.change(&[encode(key, value)])?,
        Command::Get(key) => {
            let value = store.map.get(key).ok_or_else(|| format!("no key {key}"))?;
            writeln!(io::stdout(), "{value}")?;
        }
        Command::List => {
            let mut out = io::stdout().lock();
            for (key, value) in &store.map {
                writeln!(out, "{key}\t{value}")?;
            }
        }
        Command::Checkpoint => store.checkpoint()?,
        Command::Bench(count) => bench(&mut store, count)?,
    }
    Ok(store.log.close()?)
}

fn main() -> ExitCode {
    // Keys and values are text: invalid UTF-8 is replaced.
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["--help" | "-h", ..] = args[..] {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some((dir, command)) = arguments(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Prints the error's message instead of its debug form.
    match run(dir, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
