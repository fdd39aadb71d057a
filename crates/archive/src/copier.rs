//! Copy of an archived log to the disk, in a thread, while more is read from the archive.

use crate::error::Result;
use crate::piece::Piece;
use crate::reader::{LogReader, ReadPart};
use logforce::Lsn;
use logforce::replica::{Import, ImportOptions, import};
use std::path::PathBuf;
use tokio::sync::mpsc::{Receiver, channel};

/// Parts that wait for the disk.
const QUEUE: usize = 2;

/// Progress of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// First position that is restored.
    pub from: Lsn,
    /// End of what was read.
    pub at: Lsn,
    /// End of what is to be read.
    pub goal: Lsn,
}

/// Writer of a copy, in a thread, so that reading from the archive goes on meanwhile.
pub(crate) struct Copier {
    pub(crate) to: PathBuf,
    pub(crate) options: ImportOptions,
    pub(crate) import: Option<Import<'static>>,
    /// Time at which the copy ends.
    pub(crate) time: Option<u64>,
}

/// Copies what `reader` returns. Returns the import; `None` if it contains nothing.
pub(crate) async fn run_copy(
    reader: &mut LogReader,
    copier: Copier,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Import<'static>>> {
    let (sender, parts) = channel::<ReadPart>(QUEUE);
    let thread = tokio::task::spawn_blocking(move || copier.run(parts));
    let mut from = None;
    let mut failed = None;
    loop {
        let part = match reader.next().await {
            Ok(Some(part)) => part,
            Ok(None) => break,
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        match &part {
            ReadPart::Start(_) => from = None,
            ReadPart::Piece(_, piece) => {
                let from = *from.get_or_insert(piece.from);
                let goal = reader.goal().unwrap_or(piece.to).max(piece.to);
                let at = piece.to;
                progress(Progress { from, at, goal });
            }
        }
        // An error means that the copy is complete, or has failed.
        if sender.send(part).await.is_err() {
            break;
        }
    }
    drop(sender);
    let copied = thread.await.map_err(crate::bucket::panicked)??;
    match failed {
        Some(error) => Err(error),
        None => Ok(copied),
    }
}

impl Copier {
    fn run(mut self, mut parts: Receiver<ReadPart>) -> Result<Option<Import<'static>>> {
        while let Some(part) = parts.blocking_recv() {
            match part {
                ReadPart::Start(lsn) => self.start(lsn)?,
                ReadPart::Piece(_, piece) => {
                    if !self.add(piece)? {
                        break;
                    }
                }
            }
        }
        let import = self.import.take();
        Ok(import.filter(|import| import.position().is_some()))
    }

    /// Begins anew if the start of the archive has passed what was copied.
    fn start(&mut self, lsn: Lsn) -> Result<()> {
        let at = self.import.as_ref().and_then(Import::position);
        if at.is_some_and(|at| at < lsn) {
            self.import = None;
            let anew = self.options.clone().resume(false);
            self.import = Some(import(&self.to, anew)?);
        }
        Ok(())
    }

    /// Writes a piece. Returns false if the copy is complete.
    fn add(&mut self, piece: Piece) -> Result<bool> {
        let Some(import) = &mut self.import else {
            return Ok(false);
        };
        if let Some(time) = self.time {
            if piece.time.is_some_and(|at| at > time) {
                return Ok(false);
            }
            let later = piece.points.iter().position(|point| point.time > time);
            match later {
                Some(0) => return Ok(false),
                Some(n) => import.set_until(piece.points[n - 1].lsn),
                None => {}
            }
        }
        let piece = match import.position() {
            Some(at) => piece.starting_at(at),
            None => piece,
        };
        let meta = piece.meta.as_deref();
        import.chunk(piece.from, &piece.log, &piece.control, meta)?;
        Ok(!import.is_complete())
    }
}
