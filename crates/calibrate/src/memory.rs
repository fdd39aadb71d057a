use crate::{Calibration, ValidFor};
use logforce_device::Runtime;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Places that are remembered.
const MOST: usize = 64;

/// What a process knows, so that its logs on one filesystem measure once, and one at a time.
#[derive(Debug, Default)]
pub struct Memory {
    /// The latest last.
    slots: Mutex<Vec<(ValidFor, Slot)>>,
    /// Rings when a trial ends.
    word: AtomicU32,
}

#[derive(Debug, Clone)]
enum Slot {
    /// Being measured by this process: a forked child does not wait for its parent's thread.
    Running(u64),
    Known(Box<Calibration>),
}

/// Who may measure.
pub(crate) enum Claimed<'a> {
    /// The caller. Others wait until this is dropped.
    Mine(Claim<'a>),
    /// Another thread has just done it.
    Done(Box<Calibration>),
    /// Another thread is still at it.
    Busy,
}

impl Memory {
    /// Knows nothing.
    pub const fn new() -> Self {
        Memory {
            slots: Mutex::new(Vec::new()),
            word: AtomicU32::new(0),
        }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<(ValidFor, Slot)>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known for the place.
    pub fn get(&self, key: &ValidFor) -> Option<Calibration> {
        self.slots().iter().find_map(|(k, slot)| match slot {
            Slot::Known(c) if k == key => Some((**c).clone()),
            _ => None,
        })
    }

    /// Takes it in, in place of what was known for its place.
    pub fn put(&self, calibration: Calibration) {
        let mut slots = self.slots();
        slots.retain(|(k, _)| *k != calibration.valid_for);
        if slots.len() >= MOST {
            slots.remove(0);
        }
        let key = calibration.valid_for.clone();
        slots.push((key, Slot::Known(Box::new(calibration))));
    }

    /// Claims the measuring of a place, or waits for who has claimed it, at most `timeout`.
    pub(crate) fn claim(
        &self,
        key: &ValidFor,
        runtime: &dyn Runtime,
        timeout: Duration,
    ) -> Claimed<'_> {
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
pub(crate) struct Claim<'a> {
    memory: &'a Memory,
    key: ValidFor,
    before: Option<Box<Calibration>>,
}

impl Claim<'_> {
    /// Ends it, with what to know from now on.
    pub(crate) fn end(self, known: Option<Calibration>, runtime: &dyn Runtime) {
        if let Some(known) = known {
            self.memory.put(known);
        }
        let memory = self.memory;
        drop(self);
        memory.word.fetch_add(1, SeqCst);
        runtime.wake_all(&memory.word);
    }
}

impl Drop for Claim<'_> {
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
