//! Files of a witness: one for each run. The witness appends each event, so that it still knows the run after
//! a restart.
//!
//! The files are forced only when a round begins or ends. The plug of the witness's machine is not pulled. If
//! that machine crashes and loses events, the records in them do not count as acknowledged.

use crate::ledger::{Event, RunLedger, file_name};
use crate::{CutError, RunId, wire};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of runs in a store.
const MOST_RUNS: usize = 1000;
/// Growth in bytes after which a file is rewritten. Most of its events are about truncated records then.
const GROWN: u64 = 64 << 20;
/// Maximum length of an entry in a file, in bytes.
const LONGEST: usize = 1 << 20;

/// File that is locked, so that two witnesses never write to the same files.
const LOCK: &str = "lock";

/// A directory of runs.
pub struct Store {
    dir: PathBuf,
    books: Mutex<HashMap<RunId, Arc<Mutex<Book>>>>,
    _lock: File,
}

/// One run: its file and its state.
pub struct Book {
    path: PathBuf,
    file: File,
    grown: u64,
    pub ledger: RunLedger,
    /// Number of connections so far that write or check; only the latest one may continue.
    pub holder: u64,
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens the directory. Creates it if it is missing.
    pub fn open(dir: &Path) -> Result<Store, CutError> {
        let named = |doing: &str| CutError::io(format!("{doing} {}", dir.display()));
        fs::create_dir_all(dir).map_err(named("cannot create the witness's directory"))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(dir.join(LOCK))
            .map_err(named("locking"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(CutError::refused(format!(
                    "another witness is using {}: name another directory with --store",
                    dir.display()
                )));
            }
            Err(fs::TryLockError::Error(e)) => return Err(named("locking")(e)),
        }
        Ok(Store {
            dir: dir.to_owned(),
            books: Mutex::default(),
            _lock: lock,
        })
    }

    /// Returns the run's book, or `None` if the run is unknown.
    pub fn find(&self, run: RunId) -> io::Result<Option<Arc<Mutex<Book>>>> {
        let mut books = locked(&self.books);
        if let Some(book) = books.get(&run) {
            return Ok(Some(Arc::clone(book)));
        }
        let path = self.dir.join(file_name(run));
        let Some(book) = Book::read(&path)? else {
            return Ok(None);
        };
        let book = Arc::new(Mutex::new(book));
        books.insert(run, Arc::clone(&book));
        Ok(Some(book))
    }

    /// Creates the book of a new run.
    pub fn make(&self, run: RunId, ledger: RunLedger) -> io::Result<Arc<Mutex<Book>>> {
        let mut books = locked(&self.books);
        if fs::read_dir(&self.dir)?.count() > MOST_RUNS {
            return Err(io::Error::other(format!(
                "the witness has {MOST_RUNS} runs, which is the maximum: use another --store, or \
                 remove old runs from {}",
                self.dir.display()
            )));
        }
        let path = self.dir.join(file_name(run));
        let file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .open(&path)?;
        let mut book = Book {
            path,
            file,
            grown: 0,
            ledger,
            holder: 0,
        };
        let first = Event::New(book.ledger.state.subject.clone());
        book.append(&first)?;
        book.file.sync_all()?;
        // Also syncs the directory entry. Windows does not open directories in this way, and does not need
        // it:
        // flushing the file writes NTFS's journal, which contains the creation of the file.
        #[cfg(unix)]
        File::open(&self.dir)?.sync_all()?;
        let book = Arc::new(Mutex::new(book));
        books.insert(run, Arc::clone(&book));
        Ok(book)
    }

    /// Removes a book from memory if no other connection uses it. Its file stays.
    pub fn forget(&self, run: RunId, book: Arc<Mutex<Book>>) {
        let mut books = locked(&self.books);
        // The two references are `book` and the one in the map.
        if Arc::strong_count(&book) <= 2 {
            books.remove(&run);
        }
    }
}

impl Book {
    fn read(path: &Path) -> io::Result<Option<Book>> {
        // Does not open for appending: Windows cannot truncate such a file.
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let broken = |why: String| {
            let name = path.display();
            wire::invalid(format!("the witness's file {name} is damaged: {why}"))
        };
        let mut bytes = io::BufReader::new(&mut file);
        let (mut ledger, mut whole) = (None::<RunLedger>, 0);
        while let Some(payload) = entry(&mut bytes).map_err(|e| broken(e.to_string()))? {
            let event = wire::parse_event(&payload).map_err(|e| broken(e.to_string()))?;
            match (&mut ledger, event) {
                (None, Event::New(subject)) => {
                    ledger = Some(RunLedger::new(subject).map_err(broken)?);
                }
                (None, _) => return Err(broken("it does not begin with a run".to_owned())),
                (Some(ledger), event) => ledger.apply(event).map_err(broken)?,
            }
            whole += 8 + payload.len() as u64;
        }
        drop(bytes);
        // Removes an incomplete entry of a killed witness. It was never acknowledged.
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        let Some(ledger) = ledger else {
            return Err(broken("it is empty".to_owned()));
        };
        Ok(Some(Book {
            path: path.to_owned(),
            file,
            grown: 0,
            ledger,
            holder: 0,
        }))
    }

    /// Applies an event and appends it to the file. The inner error is the reason why the event is not
    /// possible.
    pub fn take(&mut self, event: Event) -> io::Result<Result<(), String>> {
        let is_turn = !matches!(event, Event::Acks(_) | Event::Front(_));
        // Acknowledgements are checked and applied one after the other. A list that is refused in its middle
        // ends the connection, but its beginning stays applied because it was correct.
        let bytes = wire::event(&event);
        if let Err(why) = self.ledger.apply(event) {
            return Ok(Err(why));
        }
        self.append_bytes(&bytes)?;
        if is_turn {
            self.file.sync_all()?;
        }
        if self.grown > GROWN {
            self.rewrite()?;
        }
        Ok(Ok(()))
    }

    fn append(&mut self, event: &Event) -> io::Result<()> {
        self.append_bytes(&wire::event(event))
    }

    fn append_bytes(&mut self, payload: &[u8]) -> io::Result<()> {
        self.grown += 8 + payload.len() as u64;
        self.file.write_all(&framed(payload))
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        let mut out = io::BufWriter::new(&mut file);
        for event in self.ledger.snapshot() {
            out.write_all(&framed(&wire::event(&event)))?;
        }
        out.flush()?;
        drop(out);
        file.sync_all()?;
        // Closes the old file before the rename, because not every system can replace an open file.
        let old = std::mem::replace(&mut self.file, file);
        drop(old);
        if let Err(e) = fs::rename(&new, &self.path) {
            // Further events must go to the old file, which the next witness will read.
            self.file = OpenOptions::new().write(true).open(&self.path)?;
            self.file.seek(SeekFrom::End(0))?;
            return Err(e);
        }
        self.grown = 0;
        Ok(())
    }
}

/// Returns the payload with its length and checksum in front.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + payload.len());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(crc32c::crc32c(payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Reads the next entry. Returns `None` at the end, or if the last entry is incomplete.
fn entry(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut whole = |bytes: &mut [u8]| match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    };
    let mut head = [0; 8];
    if !whole(&mut head)? {
        return Ok(None);
    }
    let [a, b, c, d, sum @ ..] = head;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len > LONGEST {
        return Err(wire::invalid(format!(
            "an entry has an invalid length of {len} bytes"
        )));
    }
    let mut payload = vec![0; len];
    if !whole(&mut payload)? {
        return Ok(None);
    }
    if crc32c::crc32c(&payload) != u32::from_le_bytes(sum) {
        return Err(wire::invalid("an entry has a wrong checksum"));
    }
    Ok(Some(payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ack, UNFORCED};
    use crate::{Control, Phase, Subject};

    const RUN: RunId = RunId(3);

    fn subject() -> Subject {
        Subject {
            method: "dsync".to_owned(),
            control: Control::Buffered,
            volume: "v".to_owned(),
            place: "p".to_owned(),
            tool: "t".to_owned(),
        }
    }

    fn ack(stream: u16, sequence: u64, lsn: u64) -> Ack {
        Ack {
            stream,
            sequence,
            lsn,
        }
    }

    fn filled(dir: &Path) -> Store {
        let store = Store::open(dir).unwrap();
        let book = store.make(RUN, RunLedger::new(subject()).unwrap()).unwrap();
        let mut book = locked(&book);
        for event in [
            Event::Begin {
                phase: Phase::Control,
                boot: "b".to_owned(),
                front: 100,
            },
            Event::Acks(vec![ack(0, 1, 100), ack(1, 1, 90), ack(UNFORCED, 1, 0)]),
            Event::Acks((2..1500).map(|n| ack(0, n, 200 + n)).collect()),
            Event::Front(1000),
        ] {
            book.take(event).unwrap().unwrap();
        }
        drop(book);
        store
    }

    fn known(store: &Store) -> (Vec<Ack>, crate::State) {
        let book = store.find(RUN).unwrap().unwrap();
        let book = locked(&book);
        (book.ledger.acks(), book.ledger.state.clone())
    }

    #[test]
    fn what_was_told_is_known_to_the_next_witness() {
        let home = tempfile::tempdir().unwrap();
        let store = filled(home.path());
        let before = known(&store);
        assert_eq!(before.0.len(), 700);
        let round = &before.1.rounds[0];
        assert_eq!((round.acknowledged, round.unforced), (1500, 1));
        drop(store);
        let store = Store::open(home.path()).unwrap();
        assert_eq!(known(&store), before);
        // The rewritten file has the same contents and can be continued.
        let book = store.find(RUN).unwrap().unwrap();
        locked(&book).rewrite().unwrap();
        let more = Event::Acks(vec![ack(0, 1500, 5000)]);
        locked(&book).take(more).unwrap().unwrap();
        drop((book, store));
        let (acks, state) = known(&Store::open(home.path()).unwrap());
        assert_eq!(acks.len(), 701);
        assert_eq!(state.rounds[0].acknowledged, 1501);
    }

    #[test]
    fn a_witness_that_was_killed_leaves_half_an_entry() {
        let home = tempfile::tempdir().unwrap();
        let before = known(&filled(home.path()));
        let path = home.path().join(file_name(RUN));
        let whole = fs::read(&path).unwrap();
        for cut in [1, 7, 9] {
            let half = &framed(&wire::event(&Event::Void))[..cut];
            fs::write(&path, [&whole[..], half].concat()).unwrap();
            assert_eq!(known(&Store::open(home.path()).unwrap()), before);
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_and_never_a_shorter_one() {
        let home = tempfile::tempdir().unwrap();
        drop(filled(home.path()));
        let path = home.path().join(file_name(RUN));
        let whole = fs::read(&path).unwrap();
        for at in [9, 300, whole.len() / 2] {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            fs::write(&path, &broken).unwrap();
            let store = Store::open(home.path()).unwrap();
            let e = store.find(RUN).map(|_| ()).unwrap_err();
            assert!(e.to_string().contains("is damaged"), "{e}");
        }
        fs::write(&path, b"").unwrap();
        let store = Store::open(home.path()).unwrap();
        assert!(store.find(RUN).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let store = filled(home.path());
        let book = store.find(RUN).unwrap().unwrap();
        let take = |event| locked(&book).take(event).unwrap().unwrap_err();
        let gap = take(Event::Acks(vec![ack(0, 1501, 9000)]));
        assert!(gap.contains("after record 1499"), "{gap}");
        let twice = take(Event::Acks(vec![ack(2, 1, 1200)]));
        assert!(twice.contains("two records at LSN 1200"), "{twice}");
        let stranger = take(Event::Acks(vec![ack(300, 1, 9000)]));
        assert!(stranger.contains("stream 300"), "{stranger}");
        let begin = |phase| Event::Begin {
            phase,
            boot: String::new(),
            front: 0,
        };
        assert!(take(begin(Phase::Control)).contains("was not checked yet"));
        locked(&book).take(Event::Void).unwrap().unwrap();
        let blind = locked(&book).take(begin(Phase::Measured)).unwrap();
        assert!(blind.unwrap_err().contains("has not lost anything"));
    }
}
