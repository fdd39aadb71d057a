//! An append-only journal with its own record format, in one file. Many threads append; those that wait at the
//! same time share one sync. An acknowledged record survives a crash, a `kill -9` or a loss of power.
//!
//! ```text
//! cargo run -p logforce --example journal FILE append TEXT
//! cargo run -p logforce --example journal FILE run --threads 8 --records 10000
//! cargo run -p logforce --example journal FILE list
//! ```
//!
//! Copy [`Journal`] if you need a format of your own. Otherwise use `logforce::Log`: it also tells a torn tail
//! from a damaged record in the middle. Here both end the journal, because nothing marks what was durable.
//!
//! The file: a magic number, then records (length, checksum, payload), then zeroes up to its end. Two rules
//! make it safe:
//!
//! 1. Records are written in the order of their positions, and a commit covers all earlier writes. So no
//!    acknowledged record has a hole before it.
//! 2. An opening overwrites everything behind the last whole record with zeroes. Otherwise a record that was
//!    cut off could come back behind a new one of the right length.

use logforce::file::{File, Options, Prepare};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "\
usage: journal FILE append TEXT
       journal FILE run [--threads N] [--records M]
       journal FILE list

Keeps records in FILE. `append` and `run` create it if it is missing.
  append  appends one record
  run     appends M records (1000) with N threads (4), and prints each once it is durable
  list    prints all records";

const MAGIC: [u8; 8] = *b"journal1";
/// Bytes of a record before its payload: length and checksum.
const HEADER: usize = 8;
/// Lengths of a payload, bytes. An opening finds another length where there are zeroes or a torn header.
const PAYLOAD: Range<usize> = 1..(16 << 20) + 1;
/// Space that is filled with zeroes ahead of the records, bytes: a commit then changes no metadata.
const AHEAD: u64 = 1 << 20;

/// An open journal.
pub struct Journal {
    file: File,
    /// Number of threads that are in [`append`](Self::append).
    appending: AtomicUsize,
    tail: Mutex<Tail>,
}

struct Tail {
    /// Position of the next record.
    end: u64,
    /// End of the file. From `end` to here all bytes are zero.
    prepared: u64,
}

impl Journal {
    /// Opens the journal, and calls `visit` with position and payload of each record.
    pub fn open(
        path: impl AsRef<Path>,
        options: Options,
        mut visit: impl FnMut(u64, &[u8]),
    ) -> Result<Journal> {
        // A second writer would write over the records of this one.
        let file = options.lock(true).open(path)?;
        let mut start = Vec::new();
        read(&file, &mut start, 0, AHEAD as usize)?;
        if !start.starts_with(&MAGIC) {
            // A creation that a crash has interrupted leaves only zeroes. Nothing else is overwritten.
            if file.len()? > AHEAD || start.iter().any(|b| *b != 0) {
                return Err(format!("{} is not a journal", file.path().display()).into());
            }
            file.prepare(0..AHEAD, Prepare::Written)?;
            file.write_commit(&MAGIC, 0)?;
        }
        let mut end = MAGIC.len() as u64;
        let mut window = Window::new(&file);
        while let Some(payload) = window.record(end)? {
            visit(end, payload);
            end += (HEADER + payload.len()) as u64;
        }
        let prepared = file.len()?;
        clear(&file, end..prepared)?;
        let tail = Mutex::new(Tail { end, prepared });
        let appending = AtomicUsize::new(0);
        Ok(Journal {
            file,
            appending,
            tail,
        })
    }

    /// Appends a record. Returns its position once it is durable, and with it every earlier record.
    ///
    /// After an error the record may be there or not. If the file has failed, so does every later call: open
    /// the journal again.
    pub fn append(&self, payload: &[u8]) -> Result<u64> {
        self.appending.fetch_add(1, SeqCst);
        let appended = self.append_counted(payload);
        self.appending.fetch_sub(1, SeqCst);
        appended
    }

    fn append_counted(&self, payload: &[u8]) -> Result<u64> {
        if !PAYLOAD.contains(&payload.len()) {
            let (len, most) = (payload.len(), PAYLOAD.end - 1);
            return Err(format!("a record has {len} bytes: 1 to {most} are possible").into());
        }
        // The file's own errors count after a panic, not the state of this lock.
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let at = tail.end;
        let end = at + (HEADER + payload.len()) as u64;
        if end > tail.prepared {
            // Nothing was written yet, so a full disk fails this record only.
            let ahead = end.next_multiple_of(AHEAD);
            self.file.prepare(tail.prepared..ahead, Prepare::Written)?;
            tail.prepared = ahead;
        }
        let mut record = (payload.len() as u32).to_le_bytes().to_vec();
        record.extend(checksum(at, payload).to_le_bytes());
        record.extend(payload);
        if self.appending.load(SeqCst) == 1 {
            // No other thread appends, so all earlier records are durable: one durable write is enough.
            self.file.write_commit(&record, at)?;
            tail.end = end;
            return Ok(at);
        }
        // Under the lock, so that the writes complete in the order of the positions.
        self.file.write_at(&record, at)?;
        tail.end = end;
        drop(tail);
        // Without the lock, so that threads that wait here share one sync. It covers all earlier records.
        self.file.commit()?;
        Ok(at)
    }

    /// Closes the journal, and releases its lock.
    pub fn close(self) -> Result<()> {
        Ok(self.file.close()?)
    }
}

/// Returns the checksum of a record. It contains the position, so that no copy of a record passes elsewhere.
fn checksum(at: u64, payload: &[u8]) -> u32 {
    let place = crc32c::crc32c(&at.to_le_bytes());
    crc32c::crc32c_append(place, payload)
}

/// Part of the file in memory, from which records are read.
struct Window<'a> {
    file: &'a File,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn new(file: &File) -> Window<'_> {
        Window {
            file,
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// Returns the bytes at `at`; `None` if the file ends before.
    fn bytes(&mut self, at: u64, len: usize) -> Result<Option<&[u8]>> {
        let end = self.start + self.bytes.len() as u64;
        if at < self.start || at + len as u64 > end {
            read(self.file, &mut self.bytes, at, len.max(AHEAD as usize))?;
            self.start = at;
        }
        let within = (at - self.start) as usize;
        Ok(self.bytes.get(within..within + len))
    }

    /// Returns the payload of the record at `at`; `None` if there is no whole record.
    fn record(&mut self, at: u64) -> Result<Option<&[u8]>> {
        let Some(header) = self.bytes(at, HEADER)? else {
            return Ok(None);
        };
        let [len, sum] = [0, 4].map(|i| u32::from_le_bytes(std::array::from_fn(|k| header[i + k])));
        if !PAYLOAD.contains(&(len as usize)) {
            return Ok(None);
        }
        let payload = self.bytes(at + HEADER as u64, len as usize)?;
        Ok(payload.filter(|p| checksum(at, p) == sum))
    }
}

/// Reads `len` bytes at `at`, or fewer at the end of the file, past the system's cache: after a failed sync
/// the cache may hold bytes that the medium lacks.
fn read(file: &File, bytes: &mut Vec<u8>, at: u64, len: usize) -> Result<()> {
    use logforce::file::Error;
    bytes.resize(len, 0);
    let found = match file.read_medium_at(bytes, at) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::Unsupported => {
            file.read_at(bytes, at)?
        }
        found => found?,
    };
    bytes.truncate(found);
    Ok(())
}

/// Overwrites the range with zeroes, also where the medium has them: the cache may not. Durable on return.
fn clear(file: &File, range: Range<u64>) -> Result<()> {
    let zeroes = vec![0; AHEAD as usize];
    for at in range.clone().step_by(zeroes.len()) {
        let len = (range.end - at).min(AHEAD) as usize;
        file.write_at(&zeroes[..len], at)?;
    }
    file.commit()?;
    Ok(())
}

/// Appends `records` records with `threads` threads.
fn run(journal: &Journal, threads: u64, records: u64) -> Result<()> {
    let (next, failed) = (&AtomicU64::new(0), &AtomicBool::new(false));
    let work = || -> Result<()> {
        while !failed.load(SeqCst) {
            let n = next.fetch_add(1, SeqCst);
            if n >= records {
                break;
            }
            let at = journal.append(format!("record {n}").as_bytes())?;
            writeln!(io::stdout(), "record {n} at {at}")?;
        }
        Ok(())
    };
    // A thread that fails ends the others.
    let work = || work().inspect_err(|_| failed.store(true, SeqCst));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| {
            let panicked = |_| Err("a thread panicked".into());
            worker.join().unwrap_or_else(panicked)
        });
        ended.fold(Ok(()), Result::and)
    })?;
    let stats = journal.file.stats().counters;
    let (syncs, writes) = (stats.syncs, stats.through_writes);
    writeln!(io::stdout(), "{syncs} syncs, {writes} durable writes")?;
    Ok(())
}

enum Command<'a> {
    Append(&'a str),
    Run { threads: u64, records: u64 },
    List,
}

/// Parses all arguments before anything is created. Returns the file and the command, or `None` if the
/// arguments are invalid.
fn arguments<'a>(args: &[&'a str]) -> Option<(&'a str, Command<'a>)> {
    let (file, command) = args.split_first()?;
    let command = match *command {
        ["append", text] => Command::Append(text),
        ["run", ref options @ ..] => {
            let (mut threads, mut records) = (4, 1000);
            let (pairs, rest) = options.as_chunks();
            for [name, value] in pairs {
                match *name {
                    "--threads" => {
                        threads = value.parse().ok().filter(|n| (1..=1000).contains(n))?
                    }
                    "--records" => records = value.parse().ok()?,
                    _ => return None,
                }
            }
            rest.is_empty()
                .then_some(Command::Run { threads, records })?
        }
        ["list"] => Command::List,
        _ => return None,
    };
    (!file.starts_with('-')).then_some((file, command))
}

fn execute(path: &str, command: &Command<'_>) -> Result<()> {
    // `list` creates nothing: a wrong path would pass for an empty journal.
    let options = File::options().create(!matches!(command, Command::List));
    let mut found = 0_u64;
    let journal = Journal::open(path, options, |at, payload| {
        found += 1;
        if matches!(command, Command::List) {
            // A reader that has gone away ends the list, not the program.
            let _ = writeln!(io::stdout(), "{at}: {}", String::from_utf8_lossy(payload));
        }
    })?;
    match *command {
        Command::Append(text) => {
            let at = journal.append(text.as_bytes())?;
            writeln!(io::stdout(), "record at {at}")?;
        }
        Command::Run { threads, records } => {
            writeln!(io::stdout(), "found {found}")?;
            run(&journal, threads, records)?;
        }
        Command::List => {}
    }
    journal.close()
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
    let Some((file, command)) = arguments(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Prints the error's message instead of its debug form.
    match execute(file, &command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
