//! A connection's write-ahead log: commits are gathered, overwrite zeroes, and are made durable together
//! with those of other connections.
//!
//! SQLite holds the write lock from the first frame of a transaction to the publication of its commit frame.
//! So nothing else writes to the file meanwhile, and nothing behind the commit frame is in use.

use crate::connection::Connection;
use crate::gather::Gather;
use crate::stock::{Code, StockFile};
use logforce_device::planted;
use std::ffi::c_int;
use std::sync::Arc;

/// Size of a frame's header, bytes. The page follows.
const FRAME_HEADER: usize = 24;
/// Smallest extension of the file, bytes.
const SHORTEST_FILL: u64 = 64 << 10;
/// Largest extension of the file, bytes. A larger transaction extends the file by itself.
const LONGEST_FILL: u64 = 1 << 20;

static ZEROES: [u8; SHORTEST_FILL as usize] = [0; SHORTEST_FILL as usize];

/// Part of a transaction that SQLite writes at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Frames that no reader may see yet.
    Frames,
    /// The page of the commit frame.
    LastPage,
    /// Behind the commit frame: repeated frames, and checksums that SQLite writes again.
    Committed,
}

/// An open write-ahead log.
pub struct Wal<F> {
    file: F,
    gather: Gather,
    stage: Stage,
    /// Length of the file at the least, bytes.
    known_len: u64,
    /// Turn of the connection to which `stage` belongs.
    turn: u64,
    connection: Arc<Connection>,
}

impl<F: StockFile> Wal<F> {
    pub fn new(file: F, connection: Arc<Connection>) -> Self {
        Wal {
            file,
            gather: Gather::default(),
            stage: Stage::Frames,
            known_len: 0,
            turn: 0,
            connection,
        }
    }

    pub fn file(&mut self) -> &mut F {
        &mut self.file
    }

    pub fn read(&mut self, buf: &mut [u8], at: u64) -> Result<(), Code> {
        self.begin_turn();
        self.gather.read(&mut self.file, buf, at)
    }

    pub fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), Code> {
        self.begin_turn();
        self.connection.stats.wrote(bytes.len());
        if self.stage == Stage::Committed {
            // SQLite publishes the commit next, and readers of other processes read the file.
            return self.file.write_all(bytes, at);
        }
        let pushed = self.gather.push(&mut self.file, bytes, at);
        if let Err(e) = pushed {
            self.gather.discard();
            return Err(e);
        }
        match self.stage {
            Stage::Frames if is_commit_header(bytes) => self.stage = Stage::LastPage,
            Stage::LastPage => {
                self.stage = Stage::Frames;
                if let Err(e) = self.end_transaction() {
                    // SQLite rolls the transaction back. Written later, its commit frame would bring it back.
                    self.gather.discard();
                    return Err(e);
                }
                self.stage = Stage::Committed;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns to the first stage if the connection has ended its transaction since the last call. What is
    /// gathered then was rolled back. Written later, it would replace another connection's commit.
    fn begin_turn(&mut self) {
        let turn = self.connection.turn();
        if std::mem::replace(&mut self.turn, turn) != turn {
            self.stage = Stage::Frames;
            if !planted!("sqlite-rolled-back-frames-kept") {
                self.gather.discard();
            }
        }
    }

    /// Writes the transaction to the file, and extends the file with zeroes: later commits then overwrite,
    /// and the filesystem need not record new blocks for each of them.
    fn end_transaction(&mut self) -> Result<(), Code> {
        self.connection.check_commit()?;
        let end = self.gather.end();
        let grows = end > self.known_len && {
            self.known_len = self.file.size()?;
            end > self.known_len
        };
        if !planted!("sqlite-visible-before-written") {
            self.flush()?;
        }
        if grows {
            let growth = end - self.known_len;
            let fill = growth.max(self.known_len / 2);
            self.known_len = end;
            if growth < LONGEST_FILL && self.connection.gains_by_overwriting() {
                self.extend(end, fill.clamp(SHORTEST_FILL, LONGEST_FILL));
            }
        }
        self.connection.committed();
        Ok(())
    }

    /// Writes at least `fill` zeroes at the end of the file. Without space for them a commit is as slow as
    /// SQLite's own, and no error.
    fn extend(&mut self, end: u64, fill: u64) {
        let to = (end + fill).next_multiple_of(SHORTEST_FILL);
        let mut at = end;
        while at < to {
            let len = (SHORTEST_FILL - at % SHORTEST_FILL) as usize;
            if self.file.write(&ZEROES[..len], at).is_err() {
                return;
            }
            at += len as u64;
        }
        self.known_len = to;
    }

    /// Writes the gathered frames. After an error SQLite rolls the transaction back, so they are dropped:
    /// written later, a commit frame would bring the transaction back.
    fn flush(&mut self) -> Result<(), Code> {
        let flushed = self.gather.flush(&mut self.file);
        self.gather.discard();
        flushed
    }

    pub fn sync(&mut self, flags: c_int) -> Result<(), Code> {
        self.connection.check()?;
        self.begin_turn();
        self.flush()?;
        if self.stage == Stage::Committed {
            return self.connection.sync_commit(|| self.file.sync(flags));
        }
        // A checkpoint needs the frames of all connections and processes in the file, and before its pages.
        self.connection.stats.synced();
        if planted!("sqlite-checkpoint-unsynced") {
            return Ok(());
        }
        self.file.sync(flags)
    }

    pub fn truncate(&mut self, len: u64) -> Result<(), Code> {
        self.begin_turn();
        self.flush()?;
        self.known_len = 0;
        self.file.truncate(len)
    }

    pub fn size(&mut self) -> Result<u64, Code> {
        self.begin_turn();
        self.gather.size(&mut self.file)
    }

    /// Writes what is gathered, and waits until commits within a bound are durable.
    pub fn close(mut self) -> (F, Result<(), Code>) {
        self.begin_turn();
        let flushed = self.flush();
        self.connection.settle();
        (self.file, flushed)
    }
}

/// Returns true for the header of a frame that commits: it has the size of the database in pages, other
/// frames have zero.
fn is_commit_header(bytes: &[u8]) -> bool {
    bytes.len() == FRAME_HEADER && bytes[4..8] != [0; 4]
}
