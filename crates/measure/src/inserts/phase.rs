//! One table, and the inserts of some clients into it.

use super::{Checked, Found, Ledger, Sale, Session, Table};
use crate::group::Setup;
use crate::subject::Limit;
use crate::workers::{Step, Work, together};
use crate::{MeasureError, Recorder};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Inserts of each client before the clock starts: statements are prepared, files and caches opened.
const WARM: usize = 5;

/// What a phase came to. What was counted is there even where it failed.
pub(super) struct Taken {
    /// Times, and what the device did, in the order of the limits.
    pub parts: Vec<Recorder>,
    /// Times that something was made durable, by inserts; as the system counts them.
    pub forces_per_commit: Option<f64>,
    /// What was read back; `None` if that was not possible.
    pub checked: Option<Checked>,
    /// Why it is not whole.
    pub error: Option<MeasureError>,
}

/// Opens a table, has `clients` insert up to each of the limits, one after the other, and reads
/// everything back.
pub(super) fn run(ledger: &dyn Ledger, clients: u32, limits: &[Limit], setup: &Setup) -> Taken {
    let mut taken = Taken {
        parts: Vec::new(),
        forces_per_commit: None,
        checked: None,
        error: None,
    };
    let table = match ledger.open() {
        Ok(table) => table,
        Err(e) => {
            taken.error = Some(e);
            return taken;
        }
    };
    let inserts = Inserts {
        table: &*table,
        next: AtomicU64::new(0),
        acknowledged: Arc::default(),
    };
    let forces = table.forces();
    for limit in limits {
        let interrupt = setup.interrupt.clone();
        let mut recorder = Recorder::new(Rc::clone(&setup.counters), interrupt);
        recorder.begin_slice();
        let done = together(&inserts, clients, limit, &mut recorder).map(drop);
        taken.error = done.and_then(|()| setup.interrupt.check()).err();
        if taken.error.is_some() {
            break;
        }
        taken.parts.push(recorder);
    }
    let forces = table
        .forces()
        .zip(forces)
        .map(|(after, before)| after - before);
    let begun = inserts.next.load(Relaxed);
    let acknowledged = inserts.acknowledged;
    let acknowledged = std::mem::take(&mut *lock(&acknowledged));
    drop(table);
    let mut found = Found::below(begun);
    match ledger.read_back(&mut found) {
        Ok(()) => taken.checked = Some(found.check(&acknowledged)),
        Err(e) => taken.error = taken.error.or(Some(e)),
    }
    let commits = acknowledged.len();
    taken.forces_per_commit = forces
        .filter(|_| commits > 0)
        .map(|n| n as f64 / commits as f64);
    taken
}

/// What the clients share.
struct Inserts<'a> {
    table: &'a dyn Table,
    /// The number of the next row, of anybody's.
    next: AtomicU64,
    acknowledged: Arc<Mutex<Vec<u64>>>,
}

/// One client. What was acknowledged to it is kept however it ends.
struct Client {
    session: Box<dyn Session>,
    own: Vec<u64>,
    all: Arc<Mutex<Vec<u64>>>,
}

impl Drop for Client {
    fn drop(&mut self) {
        lock(&self.all).append(&mut self.own);
    }
}

fn lock(ids: &Mutex<Vec<u64>>) -> MutexGuard<'_, Vec<u64>> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inserts<'_> {
    fn insert(&self, client: &mut Client) -> Result<(), MeasureError> {
        let id = self.next.fetch_add(1, Relaxed);
        client.session.insert_and_commit(&Sale::new(id))?;
        client.own.push(id);
        Ok(())
    }
}

impl Work for Inserts<'_> {
    type Worker = Client;

    /// The clients of databases have deep calls.
    const STACK: usize = 2 << 20;

    fn worker(&self, _: u32) -> Result<Client, MeasureError> {
        let mut client = Client {
            session: self.table.session()?,
            own: Vec::new(),
            all: Arc::clone(&self.acknowledged),
        };
        for _ in 0..WARM {
            self.insert(&mut client)?;
        }
        Ok(client)
    }

    fn step(&self, client: &mut Client, began: Instant) -> Result<Step, MeasureError> {
        self.insert(client)?;
        Ok(Step { began, more: true })
    }
}
