//! Evidence that a process remembers, and the claims of threads that measure.

use crate::{Calibration, ValidFor};
use logforce_device::Runtime;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of remembered entries.
const MOST: usize = 64;

/// Evidence that a process remembers. So its logs or page files on one filesystem measure once, and one at a
/// time.
#[derive(Debug)]
pub struct Memory<E = Calibration> {
    /// Entries, the latest last.
    slots: Mutex<Vec<(ValidFor, Slot<E>)>>,
    /// Futex that is woken when a trial ends.
    word: AtomicU32,
}

#[derive(Debug, Clone)]
enum Slot<E> {
    /// The process with this number is measuring. A forked child does not wait for its parent's thread.
    Running(u64),
    Known(Box<E>),
    /// Measuring failed. It is repeated only on request.
    Failed,
}

impl<E> Default for Memory<E> {
    fn default() -> Self {
        Memory::new()
    }
}

/// Outcome of a request to measure.
pub(crate) enum Claimed<'a, E> {
    /// The caller may measure. Others wait until this is dropped.
    Mine(Claim<'a, E>),
    /// Another thread has just measured.
    Done(Box<E>),
    /// Another thread is still measuring.
    Busy,
}

impl<E> Memory<E> {
    /// Returns an empty memory.
    pub const fn new() -> Self {
        Memory {
            slots: Mutex::new(Vec::new()),
            word: AtomicU32::new(0),
        }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<(ValidFor, Slot<E>)>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Clone> Memory<E> {
    /// Returns the evidence for a key.
    pub fn get(&self, key: &ValidFor) -> Option<E> {
        self.slots().iter().find_map(|(k, slot)| match slot {
            Slot::Known(c) if k == key => Some((**c).clone()),
            _ => None,
        })
    }

    /// Returns true if measuring has failed for the key.
    pub(crate) fn has_failed(&self, key: &ValidFor) -> bool {
        let is_it = |(k, slot): &(ValidFor, Slot<E>)| k == key && matches!(slot, Slot::Failed);
        self.slots().iter().any(is_it)
    }

    /// Stores evidence, and replaces the previous evidence for its key.
    pub fn put(&self, key: &ValidFor, known: E) {
        self.replace(key, Slot::Known(Box::new(known)));
    }

    /// Remembers that measuring failed.
    pub(crate) fn put_failure(&self, key: &ValidFor) {
        self.replace(key, Slot::Failed);
    }

    fn replace(&self, key: &ValidFor, slot: Slot<E>) {
        let mut slots = self.slots();
        slots.retain(|(k, _)| k != key);
        if slots.len() >= MOST {
            slots.remove(0);
        }
        slots.push((key.clone(), slot));
    }

    /// Claims the right to measure for a key. If another thread has it, waits for that thread for at most
    /// `timeout`.
    pub(crate) fn claim(
        &self,
        key: &ValidFor,
        runtime: &dyn Runtime,
        timeout: Duration,
    ) -> Claimed<'_, E> {
        let until = runtime.now() + timeout;
        let process = runtime.process();
        let mut waited = false;
        loop {
            let seen = self.word.load(SeqCst);
            {
                let mut slots = self.slots();
                match slots.iter().find(|(k, _)| k == key).map(|(_, s)| s.clone()) {
                    Some(Slot::Known(c)) if waited => return Claimed::Done(c),
                    Some(Slot::Running(by)) if by == process => waited = true,
                    before => {
                        slots.retain(|(k, _)| k != key);
                        slots.push((key.clone(), Slot::Running(process)));
                        let before = match before {
                            Some(Slot::Known(c)) => Some(c),
                            _ => None,
                        };
                        drop(slots);
                        return Claimed::Mine(Claim {
                            memory: self,
                            key: key.clone(),
                            before,
                        });
                    }
                }
            }
            let now = runtime.now();
            if now >= until {
                return Claimed::Busy;
            }
            runtime.wait(&self.word, seen, Some(until - now));
        }
    }
}

/// The right to measure for a key. Dropping it restores the previous evidence, unless new evidence was
/// stored.
pub(crate) struct Claim<'a, E> {
    memory: &'a Memory<E>,
    key: ValidFor,
    before: Option<Box<E>>,
}

impl<E: Clone> Claim<'_, E> {
    /// Ends the claim, and stores the new evidence if there is any.
    pub(crate) fn end(self, known: Option<E>, runtime: &dyn Runtime) {
        if let Some(known) = known {
            self.memory.put(&self.key, known);
        }
        let memory = self.memory;
        drop(self);
        memory.word.fetch_add(1, SeqCst);
        runtime.wake_all(&memory.word);
    }
}

impl<E> Drop for Claim<'_, E> {
    fn drop(&mut self) {
        let mut slots = self.memory.slots();
        let Some(at) = slots
            .iter()
            .position(|(k, s)| *k == self.key && matches!(s, Slot::Running(_)))
        else {
            return;
        };
        match self.before.take() {
            Some(before) => slots[at].1 = Slot::Known(before),
            None => {
                slots.remove(at);
            }
        }
    }
}
