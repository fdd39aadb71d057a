//! The writes of a logged page file alone: the pages of each commit go to a log, and later to their places,
//! sorted. The log, the calls, their sizes and the number of forces are those of the page file. There are no
//! versions, no states to read, no conflicts, no checksums and no map, and nothing is recovered. The rate of
//! a page file cannot be higher.

use super::plain;
use crate::pages::case::PAGE;
use crate::pages::store::{Change, Layout, OpenStore, PageStore};
use crate::place;
use anyhow::{Context, Result, anyhow};
use logforce::{Log, Options, open_or_create};
use logforce_device::write_out::{Writers, gather};
use logforce_device::{Barrier, File, OpenFile, ReadSource};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Number of runs that a data sync follows, as in a page file.
const CHUNK: usize = 512;

/// Subject: commits by a log, and one thread that writes the pages of a generation.
pub struct Bare;

impl PageStore for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn settings(&self) -> String {
        "a log for the pages of each commit; sorted writes through the cache by one thread, a data sync after \
         512, a full sync and a truncation after as many as a page file's checkpoint writes; not a store: the \
         limit of a logged page file"
            .to_owned()
    }

    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>> {
        let path = dir.join("bare");
        plain::fill(&path, layout)?;
        let system = place::system();
        let file = system.directory(dir)?.open("bare", OpenFile::WRITE)?;
        let writers = Writers::start(&system.runtime(), &file, 0, PAGE)?;
        let shared = Arc::new(Shared {
            log: open_or_create(dir.join("bare-log"), Options::new())?,
            file,
            writers,
            generation: (layout.distance.min(layout.cache / 4) / PAGE as u64) as usize,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let thread = shared.clone();
        let thread = std::thread::spawn(move || thread.write_generations());
        Ok(Box::new(Open {
            shared,
            thread: Some(thread),
        }))
    }
}

struct Shared {
    log: Log,
    file: Arc<dyn File>,
    writers: Writers,
    /// Number of pages that one checkpoint writes.
    generation: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Pages that are durable in the log, for the next checkpoint.
    open: BTreeMap<u64, Arc<[u8]>>,
    /// True if the open pages are to be written.
    is_due: bool,
    is_writing: bool,
    is_closing: bool,
    failed: Option<String>,
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(anyhow!("the writing thread failed: {error}")),
            None => Ok(()),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let state = self.changed.wait(state);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the writing thread.
    fn write_generations(&self) {
        loop {
            let mut state = self.state();
            while !state.is_due && !state.is_closing {
                state = self.wait(state);
            }
            if state.is_closing {
                return;
            }
            let pages = std::mem::take(&mut state.open);
            (state.is_due, state.is_writing) = (false, true);
            drop(state);
            self.changed.notify_all();
            let written = self.write(pages);
            let mut state = self.state();
            state.is_writing = false;
            if let Err(e) = written {
                state.failed.get_or_insert(format!("{e:#}"));
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn write(&self, pages: BTreeMap<u64, Arc<[u8]>>) -> Result<()> {
        let front = self.log.durable_lsn();
        let offset = |page: u64| (page + 1) * PAGE as u64;
        let runs = gather(pages.into_iter().map(|(page, image)| (offset(page), image)));
        for some in runs.chunks(CHUNK) {
            self.writers.write_in_turn(some)?;
            self.file.barrier(Barrier::Data)?;
        }
        self.file.barrier(Barrier::Full)?;
        self.log.truncate_front(front)?;
        Ok(())
    }
}

struct Open {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl OpenStore for Open {
    fn commit(&self, change: &Change<'_>) -> Result<()> {
        let shared = &*self.shared;
        let at = change.at.min(PAGE - change.bytes.len());
        let mut record = vec![0; change.pages.len() * PAGE];
        let mut images = Vec::with_capacity(change.pages.len());
        for (page, bytes) in change.pages.iter().zip(record.chunks_mut(PAGE)) {
            if !change.is_whole() {
                let offset = (page + 1) * PAGE as u64;
                let read = shared.file.read_at(offset, bytes, ReadSource::Cache)?;
                anyhow::ensure!(read == PAGE, "a short read");
            }
            bytes[at..at + change.bytes.len()].copy_from_slice(change.bytes);
            images.push((*page, Arc::from(&*bytes)));
        }
        let mut state = shared.state();
        while state.open.len() >= shared.generation {
            state.check()?;
            if !state.is_writing {
                state.is_due = true;
                shared.changed.notify_all();
            }
            state = shared.wait(state);
        }
        drop(state);
        shared.log.commit(&record).context("commit")?;
        let mut state = shared.state();
        state.check()?;
        state.open.extend(images);
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        let shared = &*self.shared;
        let mut state = shared.state();
        while state.is_writing || !state.open.is_empty() {
            state.check()?;
            if !state.is_writing {
                state.is_due = true;
                shared.changed.notify_all();
            }
            state = shared.wait(state);
        }
        Ok(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.state().is_closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}
