//! Runs one operation with one store for a while.

use crate::tree::keys::{Keys, Numbers};
use crate::tree::operation::{LOAD, MANY, Operation, SCAN};
use crate::tree::store::{Opened, Reader};
use anyhow::{Context, Result, bail, ensure};
use logforce_measure::Interrupt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// End of a slice.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// Ends after this time.
    Time(Duration),
    /// Ends after this number of operations of each thread.
    Count(u64),
}

/// Measurements of one slice.
#[derive(Debug, Clone, Default)]
pub struct TreeSlice {
    /// Number of keys put or read.
    pub keys: u64,
    /// Time from the first thread's start to the last one's end.
    pub time: Duration,
    /// Durations of the puts, ascending; empty for other operations.
    pub latencies: Vec<Duration>,
}

impl TreeSlice {
    /// Returns the keys per second.
    pub fn rate(&self) -> f64 {
        self.keys as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// Returns a percentile of the latencies, microseconds.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        let last = self.latencies.len().checked_sub(1)?;
        let at = last * percent / 100;
        Some(self.latencies[at].as_secs_f64() * 1e6)
    }
}

/// Runs the operation. `seed` differs from slice to slice, and is the same for each store.
///
/// # Errors
/// Returns the store's error, or an error if it does not return a value that was put.
pub fn run(
    store: &dyn Opened,
    operation: Operation,
    keys: Keys,
    until: Until,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<TreeSlice> {
    if operation == Operation::Load {
        return load(store, keys);
    }
    let threads = operation.threads();
    let gate = Barrier::new(threads);
    let is_over = AtomicBool::new(false);
    let (gate, is_over) = (&gate, &is_over);
    let work = |thread: usize| -> Result<(Instant, Instant, Thread<'_>)> {
        let numbers = Numbers::new(seed << 16 | thread as u64);
        let made = Thread::new(store, operation, keys, numbers, seed);
        // Waits even if this thread failed to start, because the others wait at the gate.
        gate.wait();
        let mut thread = made?;
        let began = Instant::now();
        let mut done = 0;
        while !is_over.load(Relaxed) {
            let result = thread.step();
            if result.is_err() {
                is_over.store(true, Relaxed);
            }
            result?;
            done += 1;
            let is_enough = match until {
                Until::Time(time) => began.elapsed() >= time,
                Until::Count(count) => done >= count,
            };
            if is_enough || interrupt.is_raised() {
                break;
            }
        }
        let ended = Instant::now();
        thread.verify()?;
        Ok((began, ended, thread))
    };
    let work = &work;
    let results: Vec<_> = scope(|scope| {
        let spawn = |n: usize| {
            let builder = Builder::new().stack_size(512 << 10);
            builder.spawn_scoped(scope, move || {
                let (began, ended, thread) = work(n)?;
                Ok::<_, anyhow::Error>((began, ended, thread.keys_done, thread.latencies))
            })
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles
            .into_iter()
            .map(|handle| match handle.context("starting a thread")?.join() {
                Ok(result) => result,
                Err(_) => bail!("a thread panicked"),
            })
            .collect::<Result<_>>()
    })?;
    let began = results.iter().map(|r| r.0).min();
    let ended = results.iter().map(|r| r.1).max();
    let mut seen = TreeSlice::default();
    if let (Some(began), Some(ended)) = (began, ended) {
        seen.time = ended - began;
    }
    for (_, _, keys, latencies) in results {
        seen.keys += keys;
        seen.latencies.extend(latencies);
    }
    seen.latencies.sort_unstable();
    Ok(seen)
}

fn load(store: &dyn Opened, keys: Keys) -> Result<TreeSlice> {
    let mut entries = keys.to_load().peekable();
    let mut time = Duration::ZERO;
    while entries.peek().is_some() {
        let chunk: Vec<_> = entries.by_ref().take(LOAD).collect();
        let began = Instant::now();
        store.load(&chunk)?;
        time += began.elapsed();
    }
    Ok(TreeSlice {
        keys: keys.loaded,
        time,
        latencies: Vec::new(),
    })
}

/// Work and results of one thread.
struct Thread<'s> {
    store: &'s dyn Opened,
    operation: Operation,
    keys: Keys,
    numbers: Numbers,
    version: u64,
    reader: Option<Box<dyn Reader + 's>>,
    keys_done: u64,
    latencies: Vec<Duration>,
    last_put: Option<u64>,
}

impl<'s> Thread<'s> {
    fn new(
        store: &'s dyn Opened,
        operation: Operation,
        keys: Keys,
        numbers: Numbers,
        version: u64,
    ) -> Result<Self> {
        let reader = match operation {
            Operation::Load | Operation::Put(_) => None,
            _ => Some(store.reader()?),
        };
        Ok(Thread {
            store,
            operation,
            keys,
            numbers,
            version,
            reader,
            keys_done: 0,
            latencies: Vec::new(),
            last_put: None,
        })
    }

    fn step(&mut self) -> Result<()> {
        let loaded = self.keys.loaded;
        let Some(reader) = &mut self.reader else {
            let number = self.numbers.below(2 * loaded);
            let (key, value) = (Keys::key(number), self.keys.value(number, self.version));
            let began = Instant::now();
            self.store.put(&key, &value)?;
            self.latencies.push(began.elapsed());
            self.last_put = Some(number);
            self.keys_done += 1;
            return Ok(());
        };
        self.keys_done += match self.operation {
            Operation::GetMany(_) => {
                let keys: [_; MANY] =
                    std::array::from_fn(|_| Keys::key(2 * self.numbers.below(loaded)));
                let found = reader.get_all(&keys)?;
                ensure!(found == MANY, "only {found} of {MANY} keys were found");
                MANY as u64
            }
            Operation::Scan(_) => {
                let from = Keys::key(2 * self.numbers.below(loaded));
                let (count, bytes) = reader.scan(&from, SCAN)?;
                ensure!(
                    count > 0 && bytes == count * (16 + self.keys.value),
                    "a scan returned {count} keys with {bytes} bytes"
                );
                count as u64
            }
            _ => {
                let number = 2 * self.numbers.below(loaded);
                let len = reader.get(&Keys::key(number))?;
                ensure!(len == Some(self.keys.value), "key {number}: {len:?}");
                1
            }
        };
        Ok(())
    }

    /// Checks that this thread's last put can be read.
    fn verify(&self) -> Result<()> {
        if let Some(number) = self.last_put {
            let len = self.store.reader()?.get(&Keys::key(number))?;
            ensure!(
                len == Some(self.keys.value),
                "key {number} was put but cannot be read"
            );
        }
        Ok(())
    }
}
