//! Small programs without the library: known mistakes in journals, and beside
//! each the same program done right. They show what the disk and the filesystems can take from a
//! program, so that a suite which finds nothing has looked.
//!
//! Each writes numbered blocks in order and acknowledges each as thread 0 of the ledger.

use crate::ledger::{Entry, Kind, LedgerWriter};
use anyhow::{Context, Result, bail};
use logforce_crashtest::testbed::Filesystem;
use logforce_device::AlignedBuf;
use logforce_testkit::Rng;
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block.
const BLOCK: usize = 4096;
/// Blocks of the file.
const BLOCKS: u64 = 2048;

/// A mistake, or the same without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Program {
    /// Writes to the system's cache, and calls that durable.
    Buffered,
    /// Writes past the cache with O_DIRECT, and calls that durable.
    Direct,
    /// Writes and syncs at the same time from two threads, and calls it durable when both are done.
    Overlap,
    /// Leaves a block to the cache, writes the next one through, and calls both durable.
    Neighbour,
    /// Renames a synced file over another without a sync of the directory.
    Rename,
    /// Writes and then syncs.
    Synced,
    /// Writes several blocks and syncs once before it acknowledges any.
    SyncedNeighbour,
    /// Renames a synced file over another, and syncs the directory.
    SyncedRename,
    /// Renames a synced file to a name that is free, and syncs the directory before it removes the
    /// one before: as the log does.
    SyncedName,
}

impl Program {
    /// Those that have to lose something.
    pub const WRONG: [Program; 5] = [
        Program::Buffered,
        Program::Direct,
        Program::Overlap,
        Program::Neighbour,
        Program::Rename,
    ];
    /// Those that must not.
    pub const RIGHT: [Program; 4] = [
        Program::Synced,
        Program::SyncedNeighbour,
        Program::SyncedRename,
        Program::SyncedName,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Program::Buffered => "buffered, no sync",
            Program::Direct => "O_DIRECT, no flush",
            Program::Overlap => "write and sync overlap",
            Program::Neighbour => "unforced neighbour of a write through",
            Program::Rename => "rename over a file, directory not synced",
            Program::Synced => "write, then sync",
            Program::SyncedNeighbour => "two writes, then sync",
            Program::SyncedRename => "rename over a file, then directory sync",
            Program::SyncedName => "rename to a free name, then directory sync",
        }
    }

    /// Returns true if the filesystem lets the mistake show, or keeps what is right. That it masks a mistake is not a
    /// promise.
    pub fn shows_on(self, filesystem: Filesystem) -> bool {
        match self {
            // A filesystem that journals its data offers no direct I/O.
            Program::Direct | Program::Overlap => filesystem != Filesystem::Ext4DataJournal,
            // A journal for data takes all data along in its commits; and btrfs writes out the
            // whole file for a write through to a part of it.
            Program::Neighbour => {
                !matches!(filesystem, Filesystem::Ext4DataJournal | Filesystem::Btrfs)
            }
            // Without a journal the inode of the file that is renamed over may be marked deleted on
            // the disk before the directory names its successor: a cut between the two takes the
            // name, and with it either content (11 of 400 cuts). The log renames to free names.
            Program::SyncedRename => filesystem != Filesystem::Ext4NoJournal,
            _ => true,
        }
    }

    fn renames(self) -> bool {
        matches!(
            self,
            Program::Rename | Program::SyncedRename | Program::SyncedName
        )
    }
}

/// Job of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawJob {
    /// The program.
    pub program: Program,
    /// Its directory.
    pub dir: PathBuf,
    /// Empty ledger.
    pub ledger: PathBuf,
}

fn contents(number: u64) -> AlignedBuf {
    let mut block = AlignedBuf::zeroed(BLOCK, BLOCK);
    let mut rng = Rng::new(number ^ 0x5151);
    for (i, eight) in block.chunks_mut(8).enumerate() {
        let word = if i == 0 { number + 1 } else { rng.bits() };
        eight.copy_from_slice(&word.to_le_bytes());
    }
    block
}

fn data(dir: &Path) -> PathBuf {
    dir.join("blocks")
}

/// The file that is renamed: always the same name, or one for each number.
fn slot(job: &RawJob, number: u64) -> PathBuf {
    job.dir.join(match job.program {
        Program::SyncedName => format!("slot-{number}"),
        _ => "slot".to_owned(),
    })
}

fn sync_directory(dir: &Path) -> Result<()> {
    Ok(File::open(dir)?.sync_all()?)
}

/// Makes the file ready: written extents, and everything so far durable.
fn prepare(job: &RawJob) -> Result<()> {
    let dir = &job.dir;
    fs::create_dir(dir)?;
    let mut file = File::create(data(dir))?;
    for _ in 0..BLOCKS / 256 {
        file.write_all(&vec![0; BLOCK * 256])?;
    }
    file.sync_all()?;
    let mut slot = File::create(slot(job, 0))?;
    slot.write_all(&contents(0))?;
    slot.sync_all()?;
    sync_directory(dir)?;
    sync_directory(dir.parent().context("a parent")?)
}

/// Runs until the disk fails or is full.
///
/// # Errors
/// An error of the disk: so it ends.
pub fn run(job: &RawJob) -> Result<()> {
    prepare(job)?;
    let mut ledger = LedgerWriter::open(&job.ledger, 0)?;
    if job.program.renames() {
        return rename(job, &mut ledger);
    }
    let mut open = OpenOptions::new();
    open.write(true);
    if matches!(job.program, Program::Direct | Program::Overlap) {
        open.custom_flags(OFlags::DIRECT.bits() as i32);
    }
    let file = open.open(data(&job.dir))?;
    let write = |number: u64| file.write_all_at(&contents(number), number * BLOCK as u64);
    let mut ack = |number: u64| {
        ledger.put(Entry {
            sequence: number,
            ..Entry::of(Kind::Acked)
        });
    };
    if job.program == Program::Overlap {
        return overlap(&file, ack);
    }
    for pair in 0..BLOCKS / 2 {
        // Far apart: what shares a folio of the page cache is written out together.
        let (first, second) = (pair, BLOCKS / 2 + pair);
        write(first)?;
        match job.program {
            Program::Neighbour => {
                let block = contents(second);
                rustix::io::pwritev2(
                    &file,
                    &[IoSlice::new(&block)],
                    second * BLOCK as u64,
                    ReadWriteFlags::DSYNC,
                )?;
            }
            Program::Synced => {
                file.sync_data()?;
                ack(first);
                write(second)?;
                file.sync_data()?;
            }
            _ => write(second)?,
        }
        if job.program == Program::SyncedNeighbour {
            file.sync_data()?;
        }
        ack(first);
        ack(second);
    }
    bail!("every block is written")
}

/// One thread writes; another syncs all the time. What is acknowledged was written, and a sync has
/// ended after it was begun: but perhaps begun before the write was done.
fn overlap(file: &File, mut ack: impl FnMut(u64)) -> Result<()> {
    let syncs = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| -> Result<()> {
            loop {
                file.sync_data()?;
                syncs.fetch_add(1, Ordering::SeqCst);
            }
        });
        for number in 0..BLOCKS {
            let before = syncs.load(Ordering::SeqCst);
            file.write_all_at(&contents(number), number * BLOCK as u64)?;
            while syncs.load(Ordering::SeqCst) == before {
                if syncing.is_finished() {
                    bail!("the disk failed");
                }
                std::thread::yield_now();
            }
            ack(number);
        }
        std::process::exit(0)
    })
}

fn rename(job: &RawJob, ledger: &mut LedgerWriter) -> Result<()> {
    for number in 1.. {
        let new = job.dir.join("new");
        let mut file = File::create(&new)?;
        file.write_all(&contents(number))?;
        file.sync_all()?;
        fs::rename(&new, slot(job, number))?;
        if job.program != Program::Rename {
            sync_directory(&job.dir)?;
        }
        if job.program == Program::SyncedName {
            fs::remove_file(slot(job, number - 1))?;
        }
        ledger.put(Entry {
            sequence: number,
            ..Entry::of(Kind::Acked)
        });
    }
    Ok(())
}

/// Returns the number of acknowledged blocks that are missing: all of them if the file itself is gone.
///
/// # Errors
/// If what is there cannot be read at all.
pub fn lost(job: &RawJob, acknowledged: &[Entry]) -> Result<u64> {
    if job.program.renames() {
        let last = acknowledged.last().map_or(0, |e| e.sequence);
        // One more may be there: its acknowledgement was on its way.
        let newest = match job.program {
            Program::SyncedName => last + 1,
            _ => 0,
        };
        return Ok(match renamed(job, newest)? {
            Some(number) => last.saturating_sub(number),
            None => last,
        });
    }
    let name = data(&job.dir);
    let file = match File::open(&name) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(acknowledged.len() as u64),
        file => file.with_context(|| name.display().to_string())?,
    };
    let mut lost = 0;
    for entry in acknowledged {
        let mut block = vec![0; BLOCK];
        let read = file.read_exact_at(&mut block, entry.sequence * BLOCK as u64);
        lost += u64::from(read.is_err() || block != contents(entry.sequence)[..]);
    }
    Ok(lost)
}

/// The number in the newest file that was renamed and is whole, looking from this one on downwards.
fn renamed(job: &RawJob, newest: u64) -> Result<Option<u64>> {
    for number in (0..=newest).rev() {
        let name = slot(job, number);
        let found = match fs::read(&name) {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            found => found.with_context(|| name.display().to_string())?,
        };
        let number = found
            .first_chunk()
            .map_or(0, |b| u64::from_le_bytes(*b).saturating_sub(1));
        if found == contents(number)[..] {
            return Ok(Some(number));
        }
    }
    Ok(None)
}
