//! A process's memory of its filesystems, and of who measures there.

use crate::{Calibration, ValidFor};
use logforce_device::Runtime;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Places that are remembered.
const MOST: usize = 64;

/// Evidence that a process has, so that its logs, or page files, on one filesystem measure once, and
/// one at a time.
#[derive(Debug)]
pub struct Memory<E = Calibration> {
    /// The latest last.
    slots: Mutex<Vec<(ValidFor, Slot<E>)>>,
    /// Rings when a trial ends.
    word: AtomicU32,
}

#[derive(Debug, Clone)]
enum Slot<E> {
    /// Being measured by this process: a forked child does not wait for its parent's thread.
    Running(u64),
    Known(Box<E>),
    /// Measuring failed, which is not tried again unasked.
    Failed,
}

impl<E> Default for Memory<E> {
    fn default() -> Self {
        Memory::new()
    }
}

/// Who may measure.
pub(crate) enum Claimed<'a, E> {
    /// The caller. Others wait until this is dropped.
    Mine(Claim<'a, E>),
    /// Another thread has just done it.
    Done(Box<E>),
    /// Another thread is still at it.
    Busy,
}

impl<E> Memory<E> {
    /// Knows nothing.
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
    /// Returns what is known for a key.
    pub fn get(&self, key: &ValidFor) -> Option<E> {
        self.slots().iter().find_map(|(k, slot)| match slot {
            Slot::Known(c) if k == key => Some((**c).clone()),
            _ => None,
        })
    }

    /// Returns whether measuring has failed.
    pub(crate) fn has_failed(&self, key: &ValidFor) -> bool {
        let is_it = |(k, slot): &(ValidFor, Slot<E>)| k == key && matches!(slot, Slot::Failed);
        self.slots().iter().any(is_it)
    }

    /// Takes evidence in, in place of what was known for its key.
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

    /// Claims the measuring for a key, or waits for the thread that has claimed it, at most `timeout`.
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

/// The right to measure a place. What was known before is known again when it is dropped, unless
/// something better was put.
pub(crate) struct Claim<'a, E> {
    memory: &'a Memory<E>,
    key: ValidFor,
    before: Option<Box<E>>,
}

impl<E: Clone> Claim<'_, E> {
    /// Ends it, with what to know from now on.
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
