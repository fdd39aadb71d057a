//! Accounts with transfers by many threads: a state machine with checkpoints and a log of limited size. Every
//! acknowledged transfer survives a crash, a `kill -9` or a loss of power.
//!
//! ```text
//! cargo run -p logforce --example accounts DIR run --threads 8 --transfers 10000
//! cargo run -p logforce --example accounts DIR transfer 3 7 250
//! cargo run -p logforce --example accounts DIR show
//! cargo run -p logforce --example accounts DIR check
//! ```
//!
//! `run` prints a line for each transfer that is durable. Kill it at any point: every transfer that it has
//! printed is still there. A transfer consists of two entries that the log appends atomically, so the
//! balances always add up to 0. Transfers are numbered, so a missing entry or one applied twice is noticed.
//!
//! A program with one thread can be simpler: see `kv.rs`.

use logforce::{Batch, Error, ErrorKind, Log, Lsn, Options, checkpoint};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "\
usage: accounts DIR run [--threads N] [--transfers M]
       accounts DIR transfer FROM TO CENTS
       accounts DIR checkpoint
       accounts DIR show
       accounts DIR check

Keeps 100 accounts, 0 to 99, in DIR. `run` and `transfer` create them if there are none.
  run         makes M transfers (1000) with N threads (4), and prints each once it is durable
  transfer    makes one transfer between two different accounts
  checkpoint  writes a checkpoint; `run` writes one whenever the log gets long
  show        prints the number of transfers, and each balance that is not 0
  check       exits with status 1 unless all transfers are there and the balances add up to 0";

const ACCOUNTS: usize = 100;
/// Size of a segment in bytes: small, so that a few hundred transfers need a checkpoint. A real program would
/// allow its log some GiB.
const SEGMENT: u64 = 256 << 10;
const LOG_SIZE: u64 = 1 << 20;

/// One side of a transfer, stored as one record.
struct Entry {
    /// Number of the transfer: 1, 2, 3, … Both of its entries have the same number.
    number: u64,
    account: u64,
    cents: i64,
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let words = [self.number, self.account, self.cents as u64];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn decode(bytes: &[u8]) -> Result<Entry> {
        let bytes: [u8; 24] = bytes
            .try_into()
            .map_err(|_| "this record is not an entry")?;
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[8 * i + k]));
        Ok(Entry {
            number: word(0),
            account: word(1),
            cents: word(2) as i64,
        })
    }
}

/// The balances, and the part of the log that they contain.
#[derive(Clone, PartialEq)]
struct State {
    balances: Vec<i64>,
    entries: u64,
    /// End of the last record that the balances contain.
    applied: Lsn,
}

impl State {
    fn new() -> State {
        State {
            balances: vec![0; ACCOUNTS],
            entries: 0,
            applied: Lsn::ORIGIN,
        }
    }

    fn transfers(&self) -> u64 {
        self.entries / 2
    }

    /// Returns the account and its balance after the entry. The entry must belong to the next transfer.
    fn after(&self, entry: &Entry) -> Result<(usize, i64)> {
        let last = self.transfers();
        if entry.number != last + 1 {
            return Err(format!("transfer {} follows transfer {last}", entry.number).into());
        }
        let account = usize::try_from(entry.account)?;
        let balance = self.balances.get(account).ok_or("no such account")?;
        let after = balance.checked_add(entry.cents);
        Ok((account, after.ok_or("the balance would be too large")?))
    }

    /// Applies an entry that ends at `end`.
    fn apply(&mut self, entry: &Entry, end: Lsn) -> Result<()> {
        let (account, balance) = self.after(entry)?;
        self.balances[account] = balance;
        self.entries += 1;
        self.applied = end;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let sum: i128 = self.balances.iter().map(|b| i128::from(*b)).sum();
        if sum != 0 || !self.entries.is_multiple_of(2) {
            let entries = self.entries;
            return Err(format!("the balances of {entries} entries add up to {sum}").into());
        }
        Ok(())
    }
}

struct Accounts {
    dir: PathBuf,
    log: Log,
    state: Mutex<State>,
    /// Lock that allows one checkpoint at a time. With two at once, the older file could replace the newer
    /// one after the log was truncated to the newer.
    checkpoints: Mutex<()>,
}

/// Locks the mutex, even after a panic under the lock: a panic cannot leave a change half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Accounts {
    /// Opens the accounts: reads the checkpoint, then applies the later records of the log.
    fn open(dir: &str, makes: bool) -> Result<Accounts> {
        let dir = PathBuf::from(dir);
        let options = Options::new().segment_size(SEGMENT).max_log_size(LOG_SIZE);
        let path = dir.join("log");
        let log = if makes {
            fs::create_dir_all(&dir)
                .map_err(|e| format!("cannot create {}: {e}", dir.display()))?;
            // Syncs the directory's name first. Otherwise a power cut could remove the directory with
            // everything in it.
            if cfg!(unix) {
                File::open(dir.join(".."))?.sync_all()?;
            }
            logforce::open_or_create(path, options)?
        } else {
            // Creates nothing: a wrong path would pass for accounts without transfers.
            logforce::open_existing(path, options)?
        };
        let mut state = match read_checkpoint(&dir)? {
            Some(state) if log.front_lsn() <= state.applied => state,
            None if log.meta().is_none() => State::new(),
            _ => {
                let dir = dir.display();
                return Err(format!("the checkpoint in {dir} is missing or is not the last one, and the log no longer contains its records: restore a backup").into());
            }
        };
        // After a crash between a checkpoint and its truncation the log still contains records that are in
        // the checkpoint. Applying them again would move money twice.
        let front = log.front_lsn();
        for record in log.read_from(front.max(state.applied))? {
            let record = record?;
            state.apply(&Entry::decode(&record.data)?, record.end)?;
        }
        state.applied = state.applied.max(front);
        state.check()?;
        Ok(Accounts {
            dir,
            log,
            state: Mutex::new(state),
            checkpoints: Mutex::default(),
        })
    }

    /// Moves money. Returns the transfer's number when the transfer is durable.
    fn transfer(&self, from: usize, to: usize, cents: u32) -> Result<u64> {
        let (number, end) = loop {
            match self.append_and_apply(from, to, cents)? {
                Some(done) => break done,
                // The log has reached its maximum size and accepted nothing: this thread frees space.
                None => self.checkpoint()?,
            }
        };
        // Waits without the lock, so that threads that wait here share one device write.
        self.log.force(end)?;
        Ok(number)
    }

    /// Appends and applies a transfer under one lock. So the state changes in the order of the log, and a
    /// checkpoint knows how much of the log it contains. Returns `None` if the log is full.
    fn append_and_apply(&self, from: usize, to: usize, cents: u32) -> Result<Option<(u64, Lsn)>> {
        let mut state = lock(&self.state);
        let number = state.transfers() + 1;
        let entry = |account: usize, cents| Entry {
            number,
            account: account as u64,
            cents,
        };
        let cents = i64::from(cents);
        let entries = [entry(from, -cents), entry(to, cents)];
        // Checks before the append that the entries can be applied: an entry in the log must be applicable.
        for entry in &entries {
            state.after(entry)?;
        }
        let records = entries.each_ref().map(Entry::encode);
        // After a crash the log contains both entries or neither.
        let end = match self.log.append(records.iter().collect::<Batch>()) {
            Ok(at) => at.end,
            Err(e) if e.kind() == ErrorKind::Full => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        for entry in &entries {
            state.apply(entry, end)?;
        }
        Ok(Some((number, end)))
    }

    /// Writes the state into a file, and truncates the log up to the last record in it.
    fn checkpoint(&self) -> Result<()> {
        let _one_at_a_time = lock(&self.checkpoints);
        let state = lock(&self.state).clone();
        // Uses the position of this copy, not `durable_lsn()`: a later transfer may be durable by then, and
        // the truncation would lose it.
        self.log.force(state.applied)?; // nothing in a checkpoint that the log may lose
        write_checkpoint(&self.dir, &state)?;
        // Records that a checkpoint exists. Otherwise a deleted checkpoint would pass for accounts without
        // transfers.
        if self.log.meta().is_none() {
            self.log.set_meta(b"there is a checkpoint")?;
        }
        Ok(self.log.truncate_front(state.applied)?)
    }

    /// Writes a checkpoint whenever the log requests one, until the log is closed.
    fn take_checkpoints(&self) -> Result<()> {
        let mut requests = self.log.checkpoint_requests();
        while requests.next_blocking().is_some() {
            match self.checkpoint() {
                Err(e) if is_closed(&*e) => break,
                other => other?,
            }
        }
        Ok(())
    }
}

fn is_closed(e: &(dyn std::error::Error + 'static)) -> bool {
    let error = e.downcast_ref::<Error>();
    error.is_some_and(|e| e.kind() == ErrorKind::Closed)
}

/// Writes the checkpoint durably. A crash before this returns leaves the previous one or the new one.
fn write_checkpoint(dir: &Path, state: &State) -> Result<()> {
    let mut bytes = state.entries.to_le_bytes().to_vec();
    bytes.extend(state.balances.iter().flat_map(|b| b.to_le_bytes()));
    Ok(checkpoint::write(
        dir.join("checkpoint"),
        state.applied,
        &bytes,
    )?)
}

fn read_checkpoint(dir: &Path) -> Result<Option<State>> {
    let Some(found) = checkpoint::read(dir.join("checkpoint"))? else {
        return Ok(None);
    };
    let (words, rest) = found.state.as_chunks();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    match words.next() {
        Some(entries) if words.len() == ACCOUNTS && rest.is_empty() => Ok(Some(State {
            applied: found.lsn,
            entries,
            balances: words.map(|word| word as i64).collect(),
        })),
        _ => Err("the checkpoint was written by another program".into()),
    }
}

/// Returns the `n`-th transfer of `run`: two pseudo-random accounts and an amount.
fn chosen(n: u64) -> (usize, usize, u32) {
    let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let from = (mixed >> 40) as usize % ACCOUNTS;
    let to = (from + 1 + (mixed >> 20) as usize % (ACCOUNTS - 1)) % ACCOUNTS;
    (from, to, 1 + (mixed >> 54) as u32)
}

/// Makes transfers with `threads` threads, while another thread writes the checkpoints.
fn run(accounts: &Accounts, threads: u64, transfers: u64) -> Result<()> {
    let found = lock(&accounts.state).transfers();
    writeln!(io::stdout(), "found {found}")?;
    let (next, failed) = (&AtomicU64::new(0), &AtomicBool::new(false));
    let work = || -> Result<()> {
        while !failed.load(Relaxed) {
            let n = next.fetch_add(1, Relaxed);
            if n >= transfers {
                break;
            }
            let (from, to, cents) = chosen(found + n);
            let number = accounts.transfer(from, to, cents)?;
            writeln!(io::stdout(), "transfer {number}")?;
        }
        Ok(())
    };
    // A thread that fails ends the others, because they could no longer report their transfers.
    let work = || work().inspect_err(|_| failed.store(true, Relaxed));
    thread::scope(|scope| {
        let checkpoints = scope.spawn(move || {
            let taken = accounts.take_checkpoints();
            // Ends all threads: without checkpoints the log would get full.
            taken.inspect_err(|_| failed.store(true, Relaxed))
        });
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut outcome = Ok(());
        for worker in workers {
            outcome = outcome.and(
                worker
                    .join()
                    .unwrap_or_else(|_| Err("a thread panicked".into())),
            );
        }
        // Forces everything, and ends the requests, so that the checkpoint thread ends.
        let closed = accounts.log.clone().close();
        let taken = checkpoints.join();
        let taken = taken.unwrap_or_else(|_| Err("the checkpoint thread panicked".into()));
        outcome.and(taken).and(closed.map_err(Into::into))
    })?;
    let total = lock(&accounts.state).transfers();
    Ok(writeln!(io::stdout(), "total {total}")?)
}

fn show(state: &State) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "transfers {}", state.transfers())?;
    for (account, cents) in state.balances.iter().enumerate().filter(|(_, c)| **c != 0) {
        let sign = if *cents < 0 { "-" } else { "" };
        let cents = cents.unsigned_abs();
        writeln!(
            out,
            "account {account}: {sign}{}.{:02}",
            cents / 100,
            cents % 100
        )?;
    }
    Ok(())
}

enum Command {
    Run { threads: u64, transfers: u64 },
    Transfer(usize, usize, u32),
    Checkpoint,
    Show,
    Check,
}

/// Parses all arguments before anything is created. Returns the directory and the command, or `None` if the
/// arguments are invalid.
fn arguments<'a>(args: &[&'a str]) -> Option<(&'a str, Command)> {
    let (dir, command) = args.split_first()?;
    let command = match *command {
        ["run", ref options @ ..] => {
            let (mut threads, mut transfers) = (4, 1000);
            let (pairs, rest) = options.as_chunks();
            for [name, value] in pairs {
                match *name {
                    "--threads" => {
                        threads = value.parse().ok().filter(|n| (1..=1000).contains(n))?
                    }
                    "--transfers" => transfers = value.parse().ok()?,
                    _ => return None,
                }
            }
            rest.is_empty()
                .then_some(Command::Run { threads, transfers })?
        }
        ["transfer", from, to, cents] => {
            let account = |text: &str| text.parse().ok().filter(|n| *n < ACCOUNTS);
            let (from, to) = (account(from)?, account(to)?);
            (from != to).then_some(Command::Transfer(from, to, cents.parse().ok()?))?
        }
        ["checkpoint"] => Command::Checkpoint,
        ["show"] => Command::Show,
        ["check"] => Command::Check,
        _ => return None,
    };
    (!dir.starts_with('-')).then_some((dir, command))
}

fn execute(dir: &str, command: &Command) -> Result<()> {
    let makes = matches!(command, Command::Run { .. } | Command::Transfer(..));
    // Opening checks the numbers of the transfers and the sum.
    let accounts = Accounts::open(dir, makes)?;
    match *command {
        Command::Run { threads, transfers } => return run(&accounts, threads, transfers),
        Command::Transfer(from, to, cents) => {
            let number = accounts.transfer(from, to, cents)?;
            writeln!(io::stdout(), "transfer {number}")?;
        }
        Command::Checkpoint => accounts.checkpoint()?,
        Command::Show => show(&lock(&accounts.state))?,
        Command::Check => {
            let transfers = lock(&accounts.state).transfers();
            writeln!(
                io::stdout(),
                "{transfers} transfers, the balances add up to 0"
            )?;
        }
    }
    Ok(accounts.log.close()?)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.contains(&"--help") || args.contains(&"-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some((dir, command)) = arguments(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Prints the error's message instead of its debug form.
    match execute(dir, &command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
