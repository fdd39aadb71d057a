//! A toy log of fixed-size blocks in one file, correct unless a bug is planted.

use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, ReadSource, System, Write};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

pub const BLOCKS: u64 = 12;
const DIR: &str = "/toy";

/// A mistake that real logs have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    AckBeforeBarrier,
    RenameWithoutSync,
    /// Every second block is only buffered; the write-through of the next block acknowledges both.
    ThroughLeavesNeighbour,
    /// A failed barrier is repeated, and the success of the second one is trusted.
    RetriesBarrier,
    /// After a failed barrier the log is opened again, and trusts data in the cache.
    TrustsCache,
    /// Blocks go to two files in turn; only the one written last gets a barrier.
    OtherFilesBarrier,
    /// Acknowledges when the write is submitted with `through`, not when it is completed.
    AckBeforeComplete,
}

/// Way in which blocks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub direct: bool,
    pub through: bool,
}

pub struct Toy {
    dir: Arc<dyn Directory>,
    files: [Arc<dyn File>; 2],
    unit: usize,
    style: Style,
    bug: Bug,
    medium: bool,
}

/// Returns the contents of block `n`. Every sector is different, so that any tear shows.
fn block(n: u64, unit: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(unit, unit);
    for (i, sector) in buf.chunks_mut(512).enumerate() {
        sector[..8].copy_from_slice(&(n + 1).to_le_bytes());
        sector[8] = i as u8 + 1;
    }
    buf
}

impl Toy {
    pub fn create(sys: &dyn System, style: Style, bug: Bug) -> io::Result<Toy> {
        let dir = sys.make_directory(Path::new(DIR))?;
        for name in ["0", "1"] {
            let file = dir.open(&format!("{name}.tmp"), OpenFile::CREATE)?;
            file.reserve(BLOCKS * u64::from(dir.facts()?.write_unit()))?;
            file.barrier(Barrier::Full)?;
            dir.rename(&format!("{name}.tmp"), name)?;
        }
        if bug != Bug::RenameWithoutSync {
            dir.sync()?;
        }
        Toy::open(sys, style, bug)
    }

    pub fn open(sys: &dyn System, style: Style, bug: Bug) -> io::Result<Toy> {
        let dir = sys.directory(Path::new(DIR))?;
        let facts = dir.facts()?;
        let medium = facts.direct.is_some();
        let how = OpenFile {
            direct: style.direct && medium,
            ..OpenFile::WRITE
        };
        let files = [dir.open("0", how)?, dir.open("1", how)?];
        let unit = facts.write_unit() as usize;
        Ok(Toy {
            dir,
            files,
            unit,
            style,
            bug,
            medium,
        })
    }

    /// Returns the file of block `n`; both files have space for every block.
    fn file(&self, n: u64) -> &dyn File {
        let which = if self.bug == Bug::OtherFilesBarrier {
            n % 2
        } else {
            0
        };
        &*self.files[which as usize]
    }

    fn write(&self, n: u64, through: bool) -> Write {
        let buf = block(n, self.unit);
        Write {
            offset: n * self.unit as u64,
            range: 0..buf.len(),
            buf,
            through,
        }
    }

    /// Appends block `n`; `acked` is the number of acknowledged blocks.
    pub fn append(&self, n: u64, acked: &AtomicU64) -> io::Result<()> {
        let file = self.file(n);
        let mut through = self.style.through;
        if self.bug == Bug::ThroughLeavesNeighbour {
            through = n % 2 == 1;
        }
        let ticket = file.submit(self.write(n, through));
        if self.bug == Bug::AckBeforeComplete {
            acked.store(n + 1, SeqCst);
        }
        file.complete(ticket).result?;
        match self.bug {
            Bug::ThroughLeavesNeighbour if !through => return Ok(()),
            Bug::OtherFilesBarrier if n.is_multiple_of(2) => return Ok(()),
            Bug::AckBeforeBarrier => acked.store(n + 1, SeqCst),
            _ => {}
        }
        if !through {
            let done = file.barrier(Barrier::Data);
            match self.bug {
                Bug::RetriesBarrier if done.is_err() => file.barrier(Barrier::Data)?,
                _ => done?,
            }
        }
        acked.store(n + 1, SeqCst);
        Ok(())
    }

    /// Returns the number of blocks without a gap. All of them are durable when it returns.
    pub fn recover(&self) -> io::Result<u64> {
        let source = match self.bug {
            Bug::TrustsCache => ReadSource::Cache,
            _ if self.medium => ReadSource::Medium,
            _ => ReadSource::Cache,
        };
        let mut n = 0;
        let mut buf = AlignedBuf::zeroed(self.unit, self.unit);
        while n < BLOCKS {
            let file = self.file(n);
            let got = file.read_at(n * self.unit as u64, &mut buf, source)?;
            if got < self.unit || buf[..] != block(n, self.unit)[..] {
                break;
            }
            n += 1;
        }
        for i in 0..n {
            // If only the cache can be read, its bytes are not trusted, but written again.
            if !self.medium && self.bug != Bug::TrustsCache {
                let file = self.file(i);
                let ticket = file.submit(self.write(i, false));
                file.complete(ticket).result?;
            }
        }
        self.files[0].barrier(Barrier::Data)?;
        self.files[1].barrier(Barrier::Data)?;
        if self.bug != Bug::RenameWithoutSync {
            self.dir.sync()?;
        }
        Ok(n)
    }
}
