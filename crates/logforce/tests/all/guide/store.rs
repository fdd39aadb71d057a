//! A store that many threads change while another takes checkpoints.

use super::Result;
use crate::common::*;
use logforce::{BackupOptions, Error, ErrorKind, Guarantee, Log, Lsn, Options, checkpoint};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

struct Store {
    log: Log,
    state: Mutex<State>,
    checkpoints: Mutex<()>,
    dir: PathBuf,
}

/// The map, and the end of the last record that it contains.
#[derive(Clone, Default)]
struct State {
    map: BTreeMap<u64, u64>,
    applied: Lsn,
}

impl Store {
    fn set(&self, key: u64, value: u64) -> Result<()> {
        let record = [key.to_le_bytes(), value.to_le_bytes()].concat();
        let end = {
            let mut state = self.state.lock().unwrap();
            let at = self.log.append(&record)?; // under the lock: the log's order is the map's
            state.map.insert(key, value);
            state.applied = at.end;
            at.end
        };
        self.log.force(end)?; // without it: threads that wait here share one device write
        Ok(())
    }

    /// If the log has reached its maximum size, the thread that notices frees space.
    fn set_at_the_cap(&self, key: u64, value: u64) -> Result<()> {
        loop {
            match self.set(key, value) {
                Err(e) if kind(&*e) == Some(ErrorKind::Full) => self.checkpoint()?, // nothing was accepted
                other => return other,
            }
        }
    }

    fn checkpoint(&self) -> Result<()> {
        let _one_at_a_time = self.checkpoints.lock().unwrap();
        let state = self.state.lock().unwrap().clone();
        self.log.force(state.applied)?; // nothing in a checkpoint that the log may lose
        self.write_checkpoint(&state)?; // durable, under its final name
        self.log.truncate_front(state.applied)?;
        Ok(())
    }

    fn open(dir: &Path, options: Options) -> Result<Store> {
        let mut state = read_checkpoint(dir)?.unwrap_or_default();
        let log = logforce::open_or_create(dir.join("log"), options)?;
        if log.front_lsn() > state.applied {
            return Err("the checkpoint is missing or too old: restore a backup".into());
        }
        // Not from the front: a crash between checkpoint and truncation leaves records that are in it.
        for record in log.read_from(state.applied)? {
            let record = record?;
            let (key, value) = record.data.split_at(8);
            state.map.insert(number(key)?, number(value)?);
            state.applied = record.end;
        }
        Ok(Store::new(log, state, dir))
    }

    fn new(log: Log, state: State, dir: &Path) -> Store {
        Store {
            log,
            state: Mutex::new(state),
            checkpoints: Mutex::default(),
            dir: dir.to_owned(),
        }
    }

    fn write_checkpoint(&self, state: &State) -> Result<()> {
        let pairs = state.map.iter();
        let bytes: Vec<u8> = pairs
            .flat_map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()].concat())
            .collect();
        checkpoint::write(self.dir.join("checkpoint"), state.applied, &bytes)?;
        Ok(())
    }

    fn back_up(&self, to: &Path) -> Result<()> {
        let _no_checkpoint_meanwhile = self.checkpoints.lock().unwrap();
        if let Some(found) = checkpoint::read(self.dir.join("checkpoint"))? {
            checkpoint::write(to.join("checkpoint"), found.lsn, &found.state)?;
        }
        self.log.backup(to.join("log"), BackupOptions::new())?; // from its front, which the checkpoint reaches
        Ok(())
    }
}

fn kind(e: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    e.downcast_ref::<Error>().map(Error::kind)
}

fn number(bytes: &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes.try_into()?))
}

fn read_checkpoint(dir: &Path) -> Result<Option<State>> {
    let Some(found) = checkpoint::read(dir.join("checkpoint"))? else {
        return Ok(None);
    };
    let mut state = State {
        applied: found.lsn,
        ..State::default()
    };
    for pair in found.state.chunks(16) {
        let (key, value) = pair.split_at(8);
        state.map.insert(number(key)?, number(value)?);
    }
    Ok(Some(state))
}

const THREADS: u64 = 4;
const CHANGES: u64 = 150;
const CAP: u64 = 256 << 10;

#[test]
fn many_threads_and_checkpoints_at_the_cap() -> Result<()> {
    let home = temp();
    let small = sized(64 << 10).require(Guarantee::ProcessCrash);
    let small = small.max_batch_size(16 << 10).buffer_size(32 << 10);

    let store = Arc::new(Store::open(home.path(), small.clone().max_log_size(CAP))?);
    let checkpointer = std::thread::spawn({
        let store = store.clone();
        move || {
            let mut taken = 0;
            let mut requests = store.log.checkpoint_requests();
            while requests.next_blocking().is_some() {
                match store.checkpoint() {
                    Ok(()) => taken += 1,
                    Err(e) if kind(&*e) == Some(ErrorKind::Closed) => break,
                    Err(e) => panic!("{e}"),
                }
            }
            taken
        }
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for n in 0..CHANGES {
                    store.set_at_the_cap(thread * 100 + n % 50, n).unwrap();
                }
            });
        }
    });
    let copy = home.path().join("copy");
    std::fs::create_dir(&copy)?;
    store.back_up(&copy)?;
    store.log.clone().close()?; // ends the requests, and so the thread
    assert!(checkpointer.join().unwrap() > 0);
    let used = segments(&home.path().join("log"));
    let used: u64 = used.iter().map(|f| f.metadata().unwrap().len()).sum();
    assert!(used <= CAP, "{used}");
    drop(store);

    for dir in [home.path(), &copy] {
        let found = Store::open(dir, small.clone())?;
        assert_eq!(found.state.lock().unwrap().map, expected());
    }
    Ok(())
}

/// Returns the entries that the threads leave.
fn expected() -> BTreeMap<u64, u64> {
    (0..THREADS)
        .flat_map(|t| (CHANGES - 50..CHANGES).map(move |n| (t * 100 + n % 50, n)))
        .collect()
}
