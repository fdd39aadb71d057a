//! The threads that write and commit.

use super::{Job, Layout, SLOTS, THREADS, contents, version_of};
use crate::ledger::{Entry, Kind, LedgerWriter};
use crate::subject::seam::{Fault, Faulty};
use anyhow::{Context, Result};
use logforce::file::{self, File, Prepare};
use logforce::{Guarantee, Method, Verdict};
use logforce_testkit::Rng;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Number of bytes by which the file grows while threads write.
const GROWTH: u64 = 64 << 10;
/// Length of a session without forces.
const UNFORCED: Duration = Duration::from_secs(2);

fn path_of(dir: &Path) -> PathBuf {
    dir.join("slots")
}

/// Opens the file of a job, or what is left of it.
pub(super) fn open(
    dir: &Path,
    layout: Layout,
    seed: u64,
    system: &Faulty,
    create: bool,
) -> file::Result<File> {
    let mut rng = Rng::new(seed);
    let mut method = rng.pick(&[Method::Fdatasync, Method::Dsync]);
    if layout == Layout::Direct {
        method = match method {
            Method::Dsync => Method::DirectDsync,
            _ => Method::DirectFdatasync,
        };
    }
    let options = File::options()
        .method(method)
        .calibrate(false)
        // A program serves the disk, and its flushes are the subject of the test.
        .require_verdict(Verdict::Unknown)
        .aligned(layout.is_aligned())
        .lock(rng.one_in(2))
        .create(create);
    logforce::internal::open_file(system, path_of(dir), options)
}

/// Makes the directory, and sometimes the file, by way of another name that is not durable.
fn make(dir: &Path, rng: &mut Rng) -> Result<()> {
    if !dir.exists() {
        fs::create_dir(dir)?;
        file::sync_parent(dir)?;
    }
    if !path_of(dir).exists() && rng.one_in(2) {
        let new = dir.join("new");
        fs::write(&new, [])?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(&new, path_of(dir))?;
    }
    Ok(())
}

/// Runs until the file fails or the process is killed.
///
/// # Errors
/// If the file cannot be opened. That is how it ends where the cut came before or while opening.
pub fn run(job: &Job) -> Result<()> {
    let mut ledgers = (0..THREADS)
        .map(|n| LedgerWriter::open(&job.ledger, n))
        .collect::<std::io::Result<Vec<_>>>()
        .context("the ledger")?;
    let mut rng = Rng::new(job.seed ^ 1);
    make(&job.dir, &mut rng)?;
    let system = Faulty::new(job.fault);
    let again = || open(&job.dir, job.layout, job.seed, &system, true);
    let mut file = again()?;
    system.opened();
    let end = job.layout.end();
    match job.grows {
        // A part of the slots is prepared, the file grows by writes to the others.
        true => {
            let how = rng.pick(&[Prepare::Written, Prepare::Reserved]);
            file.prepare(0..end * rng.below(5) / 4, how)?
        }
        false => file.prepare(0..end, Prepare::Written)?,
    };
    if rng.one_in(3) {
        // As a process that ends without a commit. An opening makes durable what it shows.
        let mut worker = Worker::new(&file, job, 0, ledgers.remove(0));
        worker.read_versions()?;
        let slots = worker.write_some()?;
        let (ledger, versions) = (worker.ledger, worker.versions);
        drop(file);
        file = again()?;
        let mut worker = Worker::new(&file, job, 0, ledger);
        worker.versions = versions;
        worker.acknowledge(&slots, file.guarantee().into());
        ledgers.insert(0, worker.ledger);
        std::thread::sleep(Duration::from_micros(rng.below(9000)));
    }
    let grown = AtomicU64::new(job.layout.end().next_multiple_of(GROWTH));
    std::thread::scope(|scope| {
        for (thread, ledger) in ledgers.into_iter().enumerate() {
            let (worker, grown) = (Worker::new(&file, job, thread, ledger), &grown);
            scope.spawn(move || worker.work(grown));
        }
    });
    // One that failed says so; what matters is in the ledger.
    let _ = file.close();
    Ok(())
}

/// A thread, and its slots.
struct Worker<'a> {
    file: &'a File,
    layout: Layout,
    grows: bool,
    /// End of the work of a session without forces, which never learns that the disk is gone.
    until: Option<Instant>,
    thread: usize,
    ledger: LedgerWriter,
    versions: [u64; SLOTS as usize],
    rng: Rng,
}

impl<'a> Worker<'a> {
    fn new(file: &'a File, job: &Job, thread: usize, ledger: LedgerWriter) -> Worker<'a> {
        Worker {
            file,
            layout: job.layout,
            grows: job.grows,
            until: (job.fault != Fault::None).then(|| Instant::now() + UNFORCED),
            thread,
            ledger,
            versions: [0; SLOTS as usize],
            rng: Rng::new(job.seed ^ ((thread as u64 + 1) << 40)),
        }
    }

    /// Commits until the first failure.
    fn work(mut self, grown: &AtomicU64) {
        if self.read_versions().is_err() {
            return;
        }
        while !self.ledger.is_nearly_full() && self.until.is_none_or(|u| Instant::now() < u) {
            let done = match self.rng.below(48) {
                0 if self.grows => {
                    let from = grown.fetch_add(GROWTH, SeqCst);
                    let range = from..from + GROWTH;
                    self.file.prepare(range, Prepare::Reserved).map(drop)
                }
                // Without pauses the next sync would soon make up for one that was left out.
                0..4 => {
                    std::thread::sleep(Duration::from_micros(self.rng.below(6000)));
                    Ok(())
                }
                4..18 => self.write_and_commit(),
                18..30 => self.write_durably(),
                30..38 => self.write_durably_beside_others(),
                _ => self.submit(),
            };
            match done {
                Ok(()) => {}
                // A full disk fails the preparation alone.
                Err(e) if e.kind() == file::ErrorKind::NoSpace => {}
                Err(_) => {
                    self.ledger.put(Entry::of(Kind::Failed));
                    return;
                }
            }
        }
    }

    fn read_versions(&mut self) -> file::Result<()> {
        for slot in 0..SLOTS {
            let mut start = [0; 8];
            let offset = self.layout.offset(self.thread, slot);
            self.file.read_at(&mut start, offset)?;
            self.versions[slot as usize] = version_of(&start);
        }
        Ok(())
    }

    /// Announces the next version of a slot, and returns its contents.
    fn begin(&mut self, slot: u64) -> Vec<u8> {
        let version = &mut self.versions[slot as usize];
        *version += 1;
        self.ledger.put(Entry {
            sequence: *version,
            start: slot,
            ..Entry::of(Kind::RecordRange)
        });
        contents(self.thread, slot, *version, self.layout.slot_len())
    }

    fn acknowledge(&mut self, slots: &[u64], guarantee: Guarantee) {
        if guarantee != Guarantee::PowerLoss {
            return;
        }
        for slot in slots {
            self.ledger.put(Entry {
                sequence: self.versions[*slot as usize],
                start: *slot,
                ..Entry::of(Kind::Acked)
            });
        }
    }

    fn offset(&self, slot: u64) -> u64 {
        self.layout.offset(self.thread, slot)
    }

    /// Writes a few slots, or pairs of them, and commits.
    fn write_and_commit(&mut self) -> file::Result<()> {
        let slots = self.write_some()?;
        let acknowledged = self.file.commit()?;
        self.acknowledge(&slots, acknowledged.guarantee.into());
        Ok(())
    }

    /// Writes a few different slots, and returns them.
    fn write_some(&mut self) -> file::Result<Vec<u64>> {
        let (first, count) = (self.rng.below(SLOTS), 1 + self.rng.below(3));
        let mut slots = Vec::new();
        for slot in (0..count).map(|n| (first + 7 * n) % SLOTS) {
            if slot.is_multiple_of(2) && self.rng.one_in(2) && !slots.contains(&(slot + 1)) {
                let pair = [self.begin(slot), self.begin(slot + 1)];
                self.file
                    .writev_at(&pair.each_ref().map(|p| &p[..]), self.offset(slot))?;
                slots.extend([slot, slot + 1]);
            } else if !slots.contains(&slot) {
                let bytes = self.begin(slot);
                self.file.write_at(&bytes, self.offset(slot))?;
                slots.push(slot);
            }
        }
        Ok(slots)
    }

    fn write_durably(&mut self) -> file::Result<()> {
        let slot = self.rng.below(SLOTS);
        let bytes = self.begin(slot);
        let acknowledged = self.file.write_commit(&bytes, self.offset(slot))?;
        self.acknowledge(&[slot], acknowledged.guarantee.into());
        Ok(())
    }

    /// Makes a durable write while others of this thread wait for their commit.
    fn write_durably_beside_others(&mut self) -> file::Result<()> {
        let slots = self.write_some()?;
        let beside = (0..SLOTS).rev().find(|slot| !slots.contains(slot));
        if let Some(slot) = beside {
            let bytes = self.begin(slot);
            let acknowledged = self.file.write_commit(&bytes, self.offset(slot))?;
            self.acknowledge(&[slot], acknowledged.guarantee.into());
        }
        let acknowledged = self.file.commit()?;
        self.acknowledge(&slots, acknowledged.guarantee.into());
        Ok(())
    }

    /// Submits a few slots, then waits for them.
    fn submit(&mut self) -> file::Result<()> {
        let (first, count) = (self.rng.below(SLOTS), 1 + self.rng.below(4));
        let mut submitted = Vec::new();
        for slot in (0..count).map(|n| (first + 5 * n) % SLOTS) {
            let bytes = self.begin(slot);
            submitted.push((slot, self.file.submit(&bytes, self.offset(slot))?));
        }
        for (slot, handle) in submitted {
            let acknowledged = handle.wait()?;
            self.acknowledge(&[slot], acknowledged.guarantee.into());
        }
        Ok(())
    }
}
