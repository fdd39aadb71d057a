//! One phase: the inserts of several clients into one table.

use super::{Checked, ReadBack, Sale, SalesLedger, Session, Table};
use crate::run::recorder::Limit;
use crate::run::workers::{Step, Work, together};
use crate::scenario::group::Setup;
use crate::{MeasureError, Recorder};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Number of inserts of each client before the clock starts, in which statements are prepared and files
/// are opened.
const WARM: usize = 5;

/// Result of a phase. The counts are valid even if the phase failed.
pub(super) struct PhaseResult {
    /// Times and device counters; `None` if the phase is not complete.
    pub recorder: Option<Recorder>,
    /// Number of acknowledged inserts, including those before the clock started.
    pub acknowledged: u64,
    /// Number of times that something was made durable for them, as counted by the system itself.
    pub forces: Option<u64>,
    /// Result of the read-back; `None` if the table could not be read.
    pub checked: Option<Checked>,
    error: Option<MeasureError>,
}

impl PhaseResult {
    /// Returns the reason why the numbers do not count; `None` if they do, or if the user stopped the
    /// phase and nothing else is wrong.
    pub fn problem(&self) -> Option<String> {
        let error = self.error.as_ref();
        let error = error.filter(|e| !matches!(e, MeasureError::Interrupted));
        let wrong = || self.checked.as_ref().and_then(|c| c.wrong.clone());
        error.map(ToString::to_string).or_else(wrong)
    }

    /// Returns the measured time, seconds.
    pub fn seconds(&self) -> Option<f64> {
        self.recorder.as_ref().map(|r| r.time().as_secs_f64())
    }
}

/// Opens a table, has `clients` insert up to the limit, and reads everything back.
pub(super) fn run(
    ledger: &dyn SalesLedger,
    clients: u32,
    limit: &Limit,
    setup: &Setup,
) -> PhaseResult {
    let mut taken = PhaseResult {
        recorder: None,
        acknowledged: 0,
        forces: None,
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
    let before = table.forces();
    let mut recorder = Recorder::new(Rc::clone(&setup.counters), setup.interrupt.clone());
    recorder.begin_slice();
    let done = together(&inserts, clients, limit, &mut recorder).map(drop);
    match done.and_then(|()| setup.interrupt.check()) {
        Ok(()) => taken.recorder = Some(recorder),
        Err(e) => taken.error = Some(e),
    }
    let forces = table.forces().zip(before);
    taken.forces = forces.map(|(after, before)| after - before);
    let begun = inserts.next.load(Relaxed);
    let acknowledged = std::mem::take(&mut *lock(&inserts.acknowledged));
    taken.acknowledged = acknowledged.len() as u64;
    drop(table);
    let mut found = ReadBack::below(begun);
    match ledger.read_back(&mut found) {
        Ok(()) => taken.checked = Some(found.check(&acknowledged)),
        Err(e) => taken.error = taken.error.or(Some(e)),
    }
    taken
}

/// State that the clients share.
struct Inserts<'a> {
    table: &'a dyn Table,
    /// Number of the next row, over all clients.
    next: AtomicU64,
    acknowledged: Arc<Mutex<Vec<u64>>>,
}

/// One client. Its acknowledged inserts are kept even if it ends with an error.
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

    /// Larger than the default, because the clients of databases nest calls deeply.
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
