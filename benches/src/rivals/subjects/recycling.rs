//! The library with small segments, like the log of an application that checkpoints all the time.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::versions::locked;
use anyhow::{Result, anyhow};
use logforce::{Log, Lsn, Options};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, spawn};

/// Size of a segment, bytes.
const SEGMENT: u64 = 4 << 20;
/// Bytes of the log between two truncations.
const BETWEEN: u64 = 1 << 20;

/// Rival: Logforce with segments of 4 MiB. A thread truncates the log at each MiB, so that their files
/// are recycled.
pub struct Recycling;

fn path(dir: &Path) -> PathBuf {
    dir.join("log")
}

fn options() -> Options {
    Options::new().segment_size(SEGMENT)
}

impl Rival for Recycling {
    fn name(&self) -> &'static str {
        super::RECYCLING
    }

    fn version(&self) -> String {
        locked("logforce").to_owned()
    }

    fn settings(&self) -> String {
        "default options but for segments of 4 MiB; another thread truncates the log at each MiB, so that \
            the files of the first segments are recycled all the time; nothing to read back"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Group
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Recycling {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        let log = logforce::create_new(path(dir), options())?;
        let (truncations, due) = channel::<Lsn>();
        let truncated = log.clone();
        let thread = spawn(move || {
            for lsn in due {
                truncated.truncate_front(lsn)?;
            }
            Ok(())
        });
        Ok(Box::new(Open {
            log,
            asked: AtomicU64::new(0),
            truncations,
            thread,
        }))
    }

    fn read_back(&self, dir: &Path, _: Shape, _: &mut FoundRecords) -> Result<bool> {
        let log = logforce::open_existing(path(dir), options())?;
        for record in log.read_from(log.front_lsn())? {
            record?;
        }
        log.close()?;
        Ok(false)
    }
}

struct Open {
    log: Log,
    /// LSN of the last requested truncation.
    asked: AtomicU64,
    truncations: Sender<Lsn>,
    thread: JoinHandle<logforce::Result<()>>,
}

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let end = self.log.commit(record)?.end;
        let asked = self.asked.load(Ordering::Relaxed);
        if end.0 - asked.min(end.0) > BETWEEN
            && self
                .asked
                .compare_exchange(asked, end.0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.truncations.send(end)?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Open {
            log,
            truncations,
            thread,
            ..
        } = *self;
        drop(truncations);
        thread
            .join()
            .map_err(|_| anyhow!("the truncating thread panicked"))??;
        Ok(log.close()?)
    }
}
