//! Reading of the log's bytes for a replica, in another process than the writer's.

use crate::error::{Error, Result};
use crate::names;
use crate::read::inspect::{Inspector, check_end};
use crate::read::raw::{LogChunk, LogState, RawReader, decode_control};
use crate::read::view::View;
use crate::scan::end_of_log::{anchor_state, find_end};
use crate::scan::walk::types::WalkInput;
use crate::scan::walk::void_ranges::void_ranges;
use crate::storage::directory::existing_directory;
use crate::storage::hold::{self, Hold};
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use logforce_device::{Directory, System};
use logforce_format::{Control, LogId, Lsn};
use std::path::Path;
use std::sync::Arc;

/// Number of times that a reading is repeated because a truncation has removed the batch below its position.
const RETRIES: usize = 5;

/// Reads the durable bytes of a log that another process writes, as chunks. It locks and forces nothing, and
/// the writer does not wait for it. It sees bytes once a later stamp proves them durable: see
/// [`ReadOnlyFollower`](crate::ReadOnlyFollower).
///
/// The writer does not know it. [`ReadOnlyReplica::hold`] leaves a file beside the log, so that the writer
/// keeps what was not copied yet.
pub struct ReadOnlyReplica {
    dir: Arc<dyn Directory>,
    system: Arc<dyn System>,
    log_id: LogId,
    /// Control slot of the end of the copy.
    copied: Option<Control>,
    /// Durable LSN as far as it was proven at the last reading.
    proven: Lsn,
    /// End of the last append at the last reading of the state.
    written: Lsn,
    /// True if a program had the log open then.
    in_use: bool,
}

impl ReadOnlyReplica {
    /// Opens the log in `path`. `after` is `None` for a new replica, else the control slot of its last chunk.
    #[doc(hidden)]
    pub fn open(system: Arc<dyn System>, path: &Path, after: Option<&[u8]>) -> Result<Self> {
        let dir = existing_directory(&*system, path)?;
        let copied = after.map(decode_control).transpose()?;
        let log_id = Inspector::read_stable(&dir, |i| Ok(i.files().1.log_id))?;
        Ok(ReadOnlyReplica {
            proven: copied.as_ref().map_or(Lsn::ORIGIN, |c| c.anchor.lsn),
            written: Lsn::ORIGIN,
            in_use: false,
            dir,
            system,
            log_id,
            copied,
        })
    }

    /// Returns the identity of the log.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// Returns the end of the chunks that were read; `None` before the first one.
    pub fn position(&self) -> Option<Lsn> {
        self.copied.as_ref().map(|c| c.anchor.lsn)
    }

    /// Returns the exclusive end of what was proven durable at the last reading.
    pub fn proven_lsn(&self) -> Lsn {
        self.proven
    }

    /// Returns the state of the log: its front, its end as far as it is proven durable, and its openings.
    ///
    /// # Errors
    /// [`Error::OtherLog`] if another log is at the path now; [`Error::Damaged`]; [`Error::NoLog`].
    pub fn state(&mut self) -> Result<LogState> {
        self.dir = existing_directory(&*self.system, self.dir.path())?;
        let copied = self.copied.as_ref();
        let found = Inspector::read_stable(&self.dir, |inspector| {
            Proven::find(&self.dir, inspector, copied)
        })?;
        if found.control.log_id != self.log_id {
            return Err(Error::OtherLog {
                path: self.dir.path().to_owned(),
                wanted: self.log_id,
                found: found.control.log_id,
            });
        }
        self.proven = found.end;
        (self.written, self.in_use) = (found.appends_end, found.in_use);
        Ok(LogState::of(&found.control, found.end))
    }

    /// Returns the exclusive end of the last whole append, or of a later `truncate_back`, when
    /// [`state`](ReadOnlyReplica::state) was called last. From [`proven_lsn`](ReadOnlyReplica::proven_lsn) up to
    /// there, appends may have been acknowledged as durable. A log that guarantees
    /// [`PowerLoss`](crate::Guarantee::PowerLoss) proves them by its next commit or, when it is idle, by a stamp;
    /// a weaker one when it is closed. Those of a killed program are decided on by the next opening.
    pub fn written_lsn(&self) -> Lsn {
        self.written
    }

    /// Returns true if a program had the log open for writing when [`state`](ReadOnlyReplica::state) was called
    /// last.
    pub fn is_in_use(&self) -> bool {
        self.in_use
    }

    /// Goes on behind the chunk with this control slot. Fails if the log does not contain it, as
    /// [`Replication::go_on_after`](crate::Replication::go_on_after) does.
    pub fn go_on_after(&mut self, control: &[u8]) -> Result<()> {
        let copied = decode_control(control)?;
        self.dir = existing_directory(&*self.system, self.dir.path())?;
        Inspector::read_stable(&self.dir, |inspector| {
            let proven = Proven::find(&self.dir, inspector, Some(&copied))?;
            let (view, control) = proven.view(&self.dir, &*self.system);
            RawReader::after(view, &control, &copied).map(drop)
        })?;
        self.copied = Some(copied);
        Ok(())
    }

    /// Reads the next chunk of what is proven durable, of about `max` bytes, as
    /// [`Replication::read`](crate::Replication::read) does. Reads the files of the directory that is at the
    /// log's path now.
    ///
    /// # Errors
    /// [`Error::Truncated`] if the writer has dropped what was not read; [`Error::Diverged`] and
    /// [`Error::OtherLog`] if the log does not contain what was read before; [`Error::Damaged`];
    /// [`Error::NoLog`].
    pub fn read(&mut self, max: u64) -> Result<Option<LogChunk>> {
        self.dir = existing_directory(&*self.system, self.dir.path())?;
        let copied = self.copied.as_ref();
        let mut attempts = 0;
        let (chunk, proven) = loop {
            let read = Inspector::read_stable(&self.dir, |inspector| {
                read_proven(&self.dir, &*self.system, inspector, copied, max)
            });
            match read {
                // The front has reached the end of the copy while the batch below it was compared. Nothing
                // that the replica lacks is gone: the next control file has that batch's checksum.
                Err(Error::Truncated { front, .. })
                    if attempts < RETRIES && copied.is_some_and(|c| c.anchor.lsn >= front) =>
                {
                    attempts += 1;
                }
                read => break read?,
            }
        };
        self.proven = proven;
        if let Some(chunk) = &chunk {
            self.copied = Some(decode_control(&chunk.control)?);
        }
        Ok(chunk)
    }

    /// Makes the writer keep the log from `at` on, as `hold` says, also after this process has ended. The
    /// writer reads the hold before it drops anything.
    pub fn hold(&self, hold: &Hold) -> Result<()> {
        hold::store(&*self.dir, self.log_id, hold)
    }

    /// Returns the hold, if there is one.
    pub fn held(&self) -> Result<Option<Hold>> {
        hold::load(&*self.dir, self.log_id)
    }

    /// Removes the hold.
    pub fn release(&self) -> Result<()> {
        match self.dir.remove(names::HOLD) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::io("remove", self.dir.path().join(names::HOLD))),
        }
    }
}

/// The log as it is proven durable now.
struct Proven {
    control: Control,
    meta: Option<Vec<u8>>,
    segments: Segments,
    voids: Voids,
    end: Lsn,
    /// End of the last append.
    appends_end: Lsn,
    in_use: bool,
}

impl Proven {
    fn find(
        dir: &Arc<dyn Directory>,
        inspector: Inspector,
        copied: Option<&Control>,
    ) -> Result<Proven> {
        let meta = inspector.meta()?;
        let (control, whole, segments, in_use) = inspector.into_parts();
        // The end of the copy is as good a start as the anchor, and mostly a later one. Without it, each
        // reading would scan the log from the anchor on.
        let is_later =
            |c: &&Control| c.log_id == control.log_id && c.anchor.lsn > control.anchor.lsn;
        let start = anchor_state(copied.filter(is_later).unwrap_or(&control));
        let end = find_end(&segments, &control, start, whole, dir.path())?;
        check_end(end.lost.as_ref(), in_use)?;
        let input = WalkInput::new(dir, &segments, &control, whole);
        let voids = void_ranges(input, &end, end.reread_from.last_void)?;
        Ok(Proven {
            end: end.proven,
            appends_end: end.appends_end,
            in_use,
            control,
            meta,
            segments,
            voids,
        })
    }
}

impl Proven {
    fn view(self, dir: &Arc<dyn Directory>, system: &dyn System) -> (Arc<View>, Control) {
        let range = self.control.front..self.end;
        let view = View::new(
            dir.clone(),
            system.runtime(),
            self.control.log_id,
            self.segments,
            self.voids,
            range,
        );
        (view, self.control)
    }
}

fn read_proven(
    dir: &Arc<dyn Directory>,
    system: &dyn System,
    inspector: Inspector,
    copied: Option<&Control>,
    max: u64,
) -> Result<(Option<LogChunk>, Lsn)> {
    let mut proven = Proven::find(dir, inspector, copied)?;
    let (end, meta) = (proven.end, proven.meta.take());
    let (view, control) = proven.view(dir, system);
    let mut reader = match copied {
        None => RawReader::from_first_segment(view, &control),
        Some(copied) => RawReader::after(view, &control, copied)?,
    };
    Ok((reader.read(&control, meta, end, max)?, end))
}
