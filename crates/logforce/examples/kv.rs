//! A key-value store: a map in memory, every change a record, a checkpoint now and then.
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
//! `bench` makes that many changes to 100 keys, prints a line for each that is durable, and writes a
//! checkpoint after every 1000. Kill it at any point: what it has printed is there.
//!
//! One thread, so `&mut self` is all the order that changes need. With many threads see
//! `accounts.rs`.

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

A key-value store in DIR, which is made if it is missing.
  checkpoint  writes all keys into a file and drops the log up to there
  bench       makes COUNT changes, says of each when it is durable, and a checkpoint after each 1000";

/// A store of keys and values.
struct Store {
    dir: PathBuf,
    log: Log,
    map: BTreeMap<String, String>,
    /// End of the last record that is in the map.
    applied: Lsn,
}

/// A change, as a record: `Some` sets, `None` removes.
fn encode(key: &str, value: Option<&str>) -> Vec<u8> {
    let mut record = vec![u8::from(value.is_some())];
    for text in [Some(key), value].into_iter().flatten() {
        record.extend_from_slice(&(text.len() as u32).to_le_bytes());
        record.extend_from_slice(text.as_bytes());
    }
    record
}

/// Takes a text off the front.
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
        other => return Err(format!("no change is of kind {other}").into()),
    }
    Ok(())
}

impl Store {
    /// Opens the store, or makes one: the checkpoint, and what the log has since.
    fn open(dir: impl Into<PathBuf>) -> Result<Store> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
        // Its name, before anything in it counts: a power cut could take the whole directory.
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
                return Err(format!("the checkpoint in {dir} is missing or is not the last one, and the log no longer has what was in it: restore a backup").into());
            }
        };
        let mut applied = covered;
        // Not from the front: between a checkpoint and the truncation that follows it there may have
        // been a crash, and then the log still has what the checkpoint covers.
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

    /// Changes the map by the records, all or none of them. Durable when this returns.
    fn change(&mut self, records: &[Vec<u8>]) -> Result<()> {
        let done = self.log.commit(records.iter().collect::<Batch>())?;
        for record in records {
            apply(&mut self.map, record)?;
        }
        self.applied = done.end;
        Ok(())
    }

    /// Writes the map into a file, and drops the log that it covers.
    fn checkpoint(&self) -> Result<()> {
        let pairs = self.map.iter();
        let bytes: Vec<u8> = pairs.flat_map(|(k, v)| encode(k, Some(v))).collect();
        checkpoint::write(self.dir.join("checkpoint"), self.applied, &bytes)?;
        // A checkpoint that somebody deletes must not pass for an empty store.
        if self.log.meta().is_none() {
            self.log.set_meta(b"there is a checkpoint")?;
        }
        // Up to what the map has, and not `durable_lsn()`: once there is a second thread, a record
        // may be durable and not in this map, and the truncation would lose it.
        Ok(self.log.truncate_front(self.applied)?)
    }
}

/// What the last checkpoint covers, and its map.
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

/// Change number `n` of a run that anybody can predict.
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
        // Both or none: the count says which changes are there.
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

/// What to do with the store.
enum Command<'a> {
    Change(&'a str, Option<&'a str>),
    Get(&'a str),
    List,
    Checkpoint,
    Bench(u64),
}

/// The store's directory and the command; `None` if they are unusable. All of it is looked at before
/// a store is made.
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
    // Keys and values are text: what is none is replaced.
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
    // Printed as it reads, not in its debug form.
    match run(dir, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
