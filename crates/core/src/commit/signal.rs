use logforce_device::Runtime;
use logforce_device::sync::{AtomicU32, total_order};
use logforce_format::planted;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// A word to wait on: look, decide, sleep unless it rang since. On a cache line of its own, so that
/// who rings one does not slow down who watches another.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Signal {
    word: AtomicU32,
    sleepers: AtomicU32,
}

impl Signal {
    pub(crate) fn observe(&self) -> u32 {
        self.word.load(SeqCst)
    }

    pub(crate) fn sleep(&self, runtime: &dyn Runtime, seen: u32, timeout: Option<Duration>) {
        if !planted!("sleep-uncounted") {
            self.sleepers.fetch_add(1, SeqCst);
        }
        total_order();
        runtime.wait(&self.word, seen, timeout);
        if !planted!("sleep-uncounted") {
            self.sleepers.fetch_sub(1, SeqCst);
        }
    }

    pub(crate) fn ring(&self, runtime: &dyn Runtime) {
        if !planted!("ring-without-change") {
            self.word.fetch_add(1, SeqCst);
        }
        total_order();
        // A sleeper that this misses has not gone to sleep yet, and will see the word changed.
        if self.sleepers.load(SeqCst) > 0 {
            runtime.wake_all(&self.word);
        }
    }
}

/// How many words the jobs share. Two jobs on one word cost a needless wake, no more.
const WORDS: usize = 64;

/// The words on which committers wait for the job that carries their records: one wake per job, and
/// nobody is woken who waits for another.
pub(crate) struct Rounds {
    words: [Signal; WORDS],
}

impl Default for Rounds {
    fn default() -> Self {
        Rounds {
            words: std::array::from_fn(|_| Signal::default()),
        }
    }
}

impl Rounds {
    pub(crate) fn of(&self, generation: u32) -> &Signal {
        &self.words[generation as usize % WORDS]
    }

    pub(crate) fn ring_all(&self, runtime: &dyn Runtime) {
        for word in &self.words {
            word.ring(runtime);
        }
    }
}
