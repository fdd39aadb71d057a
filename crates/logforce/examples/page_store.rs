//! A store of pages with a header, in one file: a transaction changes any number of pages, all or none. An
//! acknowledged transaction survives a crash, a `kill -9` or a loss of power.
//!
//! ```text
//! cargo run -p logforce --example page_store FILE put 3 TEXT
//! cargo run -p logforce --example page_store FILE get 3
//! cargo run -p logforce --example page_store FILE run --pages 8 --commits 1000
//! cargo run -p logforce --example page_store FILE check
//! ```
//!
//! Copy [`PageStore`] if you need a format of your own. Otherwise use `logforce::pages`: it has snapshots,
//! many writers, backups, and files of any size.
//!
//! The file: two headers, then pages in any order. A header names the *tables*, and a table the page's place
//! and checksum. A commit writes changed pages and tables to free places, side by side and in order, then the
//! header. Three rules make it safe:
//!
//! 1. Pages and tables are durable before the header is written. Otherwise the header could reach the medium
//!    alone, and would name pages that are not there.
//! 2. A commit writes to no place that the present header uses. So a crash in the middle leaves all that the
//!    present header names.
//! 3. Two headers take turns, each with a checksum. A header that a power cut has torn is ignored; the other
//!    one is older, and whole.

use logforce::file::{self, File, Options, Prepare};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "\
usage: page_store FILE put PAGE TEXT
       page_store FILE get PAGE
       page_store FILE run [--pages N] [--commits M]
       page_store FILE check

Keeps pages of 4096 bytes in FILE. `put` and `run` create it if it is missing.
  put    writes a text into a page
  get    prints the text of a page
  run    makes M commits (100) of N pages each (8), and prints each once it is durable
  check  exits with status 1 unless all pages have the right checksum";

/// Size of a page, a table and a header, bytes.
pub const PAGE: usize = 4096;
const MAGIC: [u8; 8] = *b"pages\0\0\x01";
/// Bytes of a header before its entries: magic number, transaction, checksum.
const FIXED: usize = 24;
/// Number of entries of a table.
const OF_TABLE: usize = PAGE / Entry::LEN;
/// Number of tables that a header can name.
const TABLES: usize = (PAGE - FIXED) / Entry::LEN;
/// Number of pages of a store.
pub const PAGES: usize = TABLES * OF_TABLE;
/// First place behind the headers, in pages.
const FIRST: u32 = 2;
/// Number of pages by which the file grows. They are written once, so that later commits change no metadata.
const GROWTH: u64 = 256;

/// The place and checksum of a page or a table. A place of 0 means that it was never written.
#[derive(Clone, Copy, PartialEq, Default)]
struct Entry {
    place: u32,
    checksum: u32,
}

impl Entry {
    const LEN: usize = 8;

    fn new(place: u32, bytes: &[u8]) -> Entry {
        Entry {
            place,
            checksum: crc32c::crc32c(bytes),
        }
    }
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let bytes = |e: &Entry| [e.place.to_le_bytes(), e.checksum.to_le_bytes()].concat();
    let mut page: Vec<u8> = entries.iter().flat_map(bytes).collect();
    page.resize(PAGE, 0);
    page
}

fn decode(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|w: &[u8; Entry::LEN]| Entry {
        place: u32::from_le_bytes([w[0], w[1], w[2], w[3]]),
        checksum: u32::from_le_bytes([w[4], w[5], w[6], w[7]]),
    })
}

/// An open store, for one thread at a time.
pub struct PageStore {
    file: File,
    /// Number of the last transaction. Header `transaction % 2` has it.
    transaction: u64,
    /// Entries of all tables.
    tables: Vec<Entry>,
    /// Entries of all pages, up to the last one that was written.
    pages: Vec<Entry>,
    /// Places that the present header does not use.
    free: BTreeSet<u32>,
    /// Changed pages of the next transaction, sorted.
    dirty: BTreeMap<u32, Vec<u8>>,
}

impl PageStore {
    /// Opens the store.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<PageStore> {
        // A second writer would write to places that this one uses. All writes are whole pages, so the file
        // may bypass the system's cache.
        let file = options.lock(true).aligned(true).open(path)?;
        if !PAGE.is_multiple_of(file.write_unit() as usize) {
            let unit = file.write_unit();
            return Err(
                format!("this disk writes {unit} bytes at least, a page has {PAGE}").into(),
            );
        }
        let slots = [read_medium(&file, 0)?, read_medium(&file, 1)?];
        let headers = slots.each_ref().map(|slot| read_header(slot));
        let newest = headers.into_iter().flatten().max_by_key(|h| h.0);
        let (transaction, tables) = match newest {
            Some(header) => header,
            None if is_unused(&file, &slots)? => {
                file.prepare(0..GROWTH * PAGE as u64, Prepare::Written)?;
                file.write_commit(&header(0, &[]), 0)?;
                (0, Vec::new())
            }
            None => return Err(format!("{} is not a page store", file.path().display()).into()),
        };
        let mut store = PageStore {
            file,
            transaction,
            tables,
            pages: Vec::new(),
            free: BTreeSet::new(),
            dirty: BTreeMap::new(),
        };
        for table in &store.tables {
            match table.place {
                0 => store
                    .pages
                    .resize(store.pages.len() + OF_TABLE, Entry::default()),
                _ => store.pages.extend(decode(&read(&store.file, *table)?)),
            }
        }
        let end = (store.file.len()? / PAGE as u64).try_into()?;
        store.free = (FIRST..end).collect();
        for used in store.tables.iter().chain(&store.pages) {
            store.free.remove(&used.place);
        }
        Ok(store)
    }

    /// Reads a page, as the next commit would leave it. A page that was never written has zeroes.
    pub fn read(&self, page: u32) -> Result<Vec<u8>> {
        match (self.dirty.get(&page), self.pages.get(page as usize)) {
            (Some(bytes), _) => Ok(bytes.clone()),
            (None, Some(entry)) if entry.place > 0 => read(&self.file, *entry),
            _ => Ok(vec![0; PAGE]),
        }
    }

    /// Changes a page in the next transaction.
    pub fn write(&mut self, page: u32, bytes: &[u8]) -> Result<()> {
        if page as usize >= PAGES || bytes.len() > PAGE {
            let len = bytes.len();
            return Err(format!("page {page} with {len} bytes: at most {PAGES}, {PAGE}").into());
        }
        let mut whole = bytes.to_vec();
        whole.resize(PAGE, 0);
        self.dirty.insert(page, whole);
        Ok(())
    }

    /// Drops the changes since the last commit.
    pub fn roll_back(&mut self) {
        self.dirty.clear();
    }

    /// Commits all changed pages, and returns the number of the transaction once it is durable.
    ///
    /// After an error the changes are still there. If the disk is full, commit again when there is space. If
    /// the file has failed, open the store again: the transaction may be there or not.
    pub fn commit(&mut self) -> Result<u64> {
        if self.dirty.is_empty() {
            return Ok(self.transaction);
        }
        let changed: BTreeSet<usize> = self.dirty.keys().map(|p| *p as usize / OF_TABLE).collect();
        let places = self.places(self.dirty.len() + changed.len())?;
        let (mut places, mut writes) = (places.into_iter(), BTreeMap::new());
        let mut place = |bytes: Vec<u8>| {
            let place = places.next().ok_or("too few places")?;
            let entry = Entry::new(place, &bytes);
            writes.insert(place, bytes);
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(entry)
        };
        let (mut tables, mut pages) = (self.tables.clone(), self.pages.clone());
        let count = changed.last().map_or(0, |last| last + 1).max(tables.len());
        tables.resize(count, Entry::default());
        pages.resize(count * OF_TABLE, Entry::default());
        for (page, bytes) in &self.dirty {
            pages[*page as usize] = place(bytes.clone())?;
        }
        for table in changed {
            let of_table = &pages[table * OF_TABLE..][..OF_TABLE];
            tables[table] = place(encode(of_table))?;
        }
        self.write_pages(&writes)?;
        let transaction = self.transaction + 1;
        // Durable on return: the next commit may use the places that only the header before this one names.
        let header = header(transaction, &tables);
        self.file
            .write_commit(&header, transaction % 2 * PAGE as u64)?;
        let olds = [(&self.tables, &tables), (&self.pages, &pages)];
        let olds = olds.into_iter().flat_map(|(old, new)| old.iter().zip(new));
        let replaced = olds.filter(|(old, new)| old != new && old.place > 0);
        self.free.extend(replaced.map(|(old, _)| old.place));
        self.free.retain(|place| !writes.contains_key(place));
        (self.transaction, self.tables, self.pages) = (transaction, tables, pages);
        self.dirty.clear();
        Ok(transaction)
    }

    /// Returns `count` free places in order, side by side if there are such. Makes the file longer if it has
    /// too few.
    fn places(&mut self, count: usize) -> Result<Vec<u32>> {
        let all: Vec<u32> = self.free.iter().copied().collect();
        let mut runs = all.windows(count);
        if let Some(run) = runs.find(|run| run[count - 1] - run[0] == count as u32 - 1) {
            return Ok(run.to_vec());
        }
        if all.len() < count {
            // Nothing was written yet. The length is durable on return, so no header can name a place beyond
            // the end of the file.
            let from = (self.file.len()? / PAGE as u64).max(FIRST.into());
            let to = (from + count as u64).next_multiple_of(GROWTH);
            let range = from * PAGE as u64..to * PAGE as u64;
            self.file.prepare(range, Prepare::Written)?;
            self.free.extend(u32::try_from(from)?..u32::try_from(to)?);
        }
        Ok(self.free.iter().copied().take(count).collect())
    }

    /// Writes pages to their places, one write for each run of neighbours. They are durable on return.
    fn write_pages(&self, writes: &BTreeMap<u32, Vec<u8>>) -> Result<()> {
        let mut runs: Vec<(u32, Vec<&[u8]>)> = Vec::new();
        for (place, bytes) in writes {
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u32 == *place => run.push(bytes),
                _ => runs.push((*place, vec![bytes])),
            }
        }
        let offset = |place: u32| u64::from(place) * PAGE as u64;
        if let [(place, run)] = &runs[..] {
            // One durable write: a write-through, if the file has found that to be faster (File::method).
            self.file.writev_commit(run, offset(*place))?;
            return Ok(());
        }
        for (place, run) in &runs {
            self.file.writev_at(run, offset(*place))?;
        }
        self.file.commit()?; // one barrier for all runs
        Ok(())
    }

    /// Compares each page with its checksum. Returns the number of pages.
    pub fn check(&self) -> Result<usize> {
        let used = self.pages.iter().filter(|entry| entry.place > 0);
        for entry in used.clone() {
            read(&self.file, *entry)?;
        }
        Ok(used.count())
    }

    /// Closes the store, and releases its lock. Drops changes that were not committed.
    pub fn close(self) -> Result<()> {
        Ok(self.file.close()?)
    }
}

fn header(transaction: u64, tables: &[Entry]) -> Vec<u8> {
    let mut header = [
        &MAGIC[..],
        &transaction.to_le_bytes(),
        &[0; 8],
        &encode(tables),
    ]
    .concat();
    header.truncate(PAGE);
    let checksum = u64::from(crc32c::crc32c(&header));
    header[16..FIXED].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Returns the transaction and the tables of a header; `None` if it is torn, or none was written.
fn read_header(slot: &[u8]) -> Option<(u64, Vec<Entry>)> {
    let transaction = u64::from_le_bytes(*slot.get(8..)?.first_chunk()?);
    let mut tables: Vec<Entry> = decode(slot.get(FIXED..)?).collect();
    let used = tables.iter().rposition(|e| e.place > 0);
    tables.truncate(used.map_or(0, |last| last + 1));
    // Compares all bytes: the checksum contains the magic number as well.
    (header(transaction, &tables) == slot).then_some((transaction, tables))
}

/// Returns true if the file is new, or its creation was interrupted: then it is short, and has nothing but
/// zeroes and a part of header 0. Any other file is left alone.
fn is_unused(file: &File, [first, second]: &[Vec<u8>; 2]) -> Result<bool> {
    let start = first.first_chunk();
    let is_ours = [&[0; 8], &MAGIC]
        .into_iter()
        .any(|ours| start == Some(ours));
    let is_short = file.len()? <= GROWTH * PAGE as u64;
    Ok(is_ours && is_short && second.iter().all(|b| *b == 0))
}

/// Reads a header past the system's cache: it decides, and after a failed sync the cache may hold one that
/// the medium lacks. Beyond the end of the file there are zeroes.
fn read_medium(file: &File, place: u32) -> Result<Vec<u8>> {
    let (mut page, offset) = (vec![0; PAGE], u64::from(place) * PAGE as u64);
    match file.read_medium_at(&mut page, offset) {
        Err(file::Error::Io { source, .. }) if source.kind() == io::ErrorKind::Unsupported => {
            file.read_at(&mut page, offset)?
        }
        found => found?,
    };
    Ok(page)
}

/// Reads a page or a table, and compares it with its checksum.
fn read(file: &File, entry: Entry) -> Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE];
    file.read_at(&mut bytes, u64::from(entry.place) * PAGE as u64)?;
    match Entry::new(entry.place, &bytes) == entry {
        true => Ok(bytes),
        false => Err(format!("the page at place {} is damaged", entry.place).into()),
    }
}

/// Makes `commits` commits. Each writes its number into `count` pages.
fn run(store: &mut PageStore, count: u32, commits: u64) -> Result<()> {
    for _ in 0..commits {
        let number = store.transaction + 1;
        for i in 0..count {
            let page = (number as u32).wrapping_mul(31).wrapping_add(i * 97) % 1000;
            store.write(page, format!("transaction {number}").as_bytes())?;
        }
        let number = store.commit()?;
        writeln!(io::stdout(), "transaction {number}")?;
    }
    let stats = store.file.stats().counters;
    let (syncs, writes) = (stats.syncs, stats.through_writes);
    let method = store.file.method();
    writeln!(
        io::stdout(),
        "{syncs} syncs, {writes} durable writes by {method}"
    )?;
    Ok(())
}

enum Command<'a> {
    Put(u32, &'a str),
    Get(u32),
    Run { pages: u32, commits: u64 },
    Check,
}

/// Parses all arguments before anything is created. Returns the file and the command, or `None` if the
/// arguments are invalid.
fn arguments<'a>(args: &[&'a str]) -> Option<(&'a str, Command<'a>)> {
    let (file, command) = args.split_first()?;
    let page = |text: &str| text.parse().ok().filter(|n| (*n as usize) < PAGES);
    let command = match *command {
        ["put", number, text] if text.len() <= PAGE => Command::Put(page(number)?, text),
        ["get", number] => Command::Get(page(number)?),
        ["run", ref options @ ..] => {
            let (mut pages, mut commits) = (8, 100);
            let (pairs, rest) = options.as_chunks();
            for [name, value] in pairs {
                match *name {
                    "--pages" => pages = value.parse().ok().filter(|n| (1..=1000).contains(n))?,
                    "--commits" => commits = value.parse().ok()?,
                    _ => return None,
                }
            }
            rest.is_empty().then_some(Command::Run { pages, commits })?
        }
        ["check"] => Command::Check,
        _ => return None,
    };
    (!file.starts_with('-')).then_some((file, command))
}

fn execute(path: &str, command: &Command<'_>) -> Result<()> {
    // `get` and `check` create nothing: a wrong path would pass for a store without pages.
    let makes = matches!(command, Command::Put(..) | Command::Run { .. });
    let mut store = PageStore::open(path, File::options().create(makes))?;
    match *command {
        Command::Put(page, text) => {
            store.write(page, text.as_bytes())?;
            let number = store.commit()?;
            writeln!(io::stdout(), "transaction {number}")?;
        }
        Command::Get(page) => {
            let bytes = store.read(page)?;
            let len = bytes
                .iter()
                .rposition(|b| *b != 0)
                .map_or(0, |last| last + 1);
            writeln!(io::stdout(), "{}", String::from_utf8_lossy(&bytes[..len]))?;
        }
        Command::Run { pages, commits } => run(&mut store, pages, commits)?,
        Command::Check => {
            let (pages, number) = (store.check()?, store.transaction);
            writeln!(io::stdout(), "{pages} pages after transaction {number}")?;
        }
    }
    store.close()
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
