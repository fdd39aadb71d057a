//! Source of an upload: an open log of this process, or the files of a log that another process writes.

use crate::error::Result;
use logforce::Lsn;
use logforce::replica::{
    AtHoldLimit, Hold, LogChunk, LogState, ReadOnlyReplica, ReplicaWait, Replication,
};
use std::time::Duration;

/// Interval at which the files of another process's log are read.
const POLL: Duration = Duration::from_millis(200);
/// Bytes by which confirmations must advance before a hold file is written again.
const HOLD_STEP: u64 = 1 << 20;

/// Log that is uploaded.
pub(crate) enum Source {
    /// Log of this process.
    Open(Box<Replication>),
    /// Files of a log.
    Files {
        replica: Box<ReadOnlyReplica>,
        limit: u64,
        at_limit: AtHoldLimit,
        held: Lsn,
        /// Set while there is a hold for an archive that has nothing yet, and that failed if it ends so.
        is_provisional: bool,
        /// Set once a reading has found nothing more.
        is_read: bool,
    },
}

/// State of a source.
pub(crate) enum SourceState {
    /// There may be more to read.
    Ready,
    /// The log was closed, and everything was read.
    Closed,
    /// The log has failed, and everything durable was read.
    Failed(logforce::Error),
}

impl Source {
    /// Returns a source that reads the files of a log, and holds the log by a file.
    pub(crate) fn files(replica: ReadOnlyReplica, limit: u64, at_limit: AtHoldLimit) -> Source {
        Source::Files {
            replica: Box::new(replica),
            limit,
            at_limit,
            held: Lsn(0),
            is_provisional: false,
            is_read: false,
        }
    }

    /// Returns the state of the log.
    pub(crate) fn state(&mut self) -> Result<LogState> {
        match self {
            Source::Open(replication) => Ok(replication.state()),
            Source::Files { replica, .. } => Ok(replica.state()?),
        }
    }

    /// Keeps the log from its first segment on, for an archive that has nothing of it. Returns the state then.
    ///
    /// Without the hold, a writer that truncates often would drop the first part before the archive is
    /// claimed. An open log is held by its replication.
    pub(crate) async fn hold_whole(&mut self) -> Result<LogState> {
        let mut state = self.state()?;
        let Source::Files {
            replica,
            limit,
            at_limit,
            is_provisional,
            ..
        } = self
        else {
            return Ok(state);
        };
        *is_provisional = replica.held()?.is_none();
        loop {
            let at = state.first_segment;
            replica.hold(&Hold::new(at, *limit, *at_limit))?;
            // A truncation that has read no hold ends meanwhile.
            tokio::time::sleep(POLL).await;
            state = replica.state()?;
            if state.first_segment <= at {
                return Ok(state);
            }
        }
    }

    /// Goes on behind the chunk with this control slot.
    pub(crate) fn go_on_after(&mut self, control: &[u8]) -> Result<()> {
        match self {
            Source::Open(replication) => Ok(replication.go_on_after(control)?),
            Source::Files { replica, .. } => Ok(replica.go_on_after(control)?),
        }
    }

    /// Returns the end of what was read.
    pub(crate) fn position(&self) -> Lsn {
        match self {
            Source::Open(replication) => replication.position(),
            Source::Files { replica, .. } => replica.position().unwrap_or_default(),
        }
    }

    /// Keeps the log from `at` on. An open log is held by its replication.
    pub(crate) fn hold(&mut self, at: Lsn) -> Result<()> {
        if let Source::Files {
            replica,
            limit,
            at_limit,
            held,
            is_provisional,
            ..
        } = self
        {
            replica.hold(&Hold::new(at, *limit, *at_limit))?;
            *held = at;
            *is_provisional = false;
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, max: u64) -> Result<Option<LogChunk>> {
        match self {
            Source::Open(replication) => Ok(replication.read(max)?),
            Source::Files {
                replica, is_read, ..
            } => {
                let chunk = replica.read(max)?;
                *is_read = chunk.is_none();
                Ok(chunk)
            }
        }
    }

    /// Returns the number of bytes that are known to be durable and were not read yet.
    pub(crate) fn pending(&self) -> u64 {
        match self {
            Source::Open(replication) => replication.pending(),
            Source::Files { replica, .. } => {
                let read = replica.position().unwrap_or_default();
                replica.proven_lsn().since(read)
            }
        }
    }

    /// Returns the exclusive end of the durable log, as far as it is known.
    pub(crate) fn durable(&self) -> Lsn {
        match self {
            Source::Open(replication) => replication.position().plus(replication.pending()),
            Source::Files { replica, .. } => replica.proven_lsn(),
        }
    }

    /// Waits until there may be more to read.
    pub(crate) async fn changed(&mut self) -> SourceState {
        match self {
            Source::Open(replication) => match replication.changed().await {
                ReplicaWait::Closed => SourceState::Closed,
                ReplicaWait::Failed(error) => SourceState::Failed(error),
                _ => SourceState::Ready,
            },
            Source::Files { is_read, .. } => {
                if *is_read {
                    tokio::time::sleep(POLL).await;
                }
                SourceState::Ready
            }
        }
    }

    /// Confirms that everything below `to` is in the archive.
    pub(crate) fn confirm(&mut self, to: Lsn) -> Result<()> {
        match self {
            Source::Open(replication) => replication.confirm(to)?,
            Source::Files { limit, held, .. } => {
                if to.since(*held) >= HOLD_STEP.min(*limit / 8) {
                    self.hold(to)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the source: commits that wait for the archive fail.
    pub(crate) fn end(self, error: &crate::error::Error) {
        match self {
            Source::Open(replication) => match error.is_deposed() {
                true => drop(replication.deposed(error.to_string())),
                false => replication.fail(error.to_string()),
            },
            // Otherwise the log would be kept for an archive that was not begun.
            Source::Files {
                replica,
                is_provisional: true,
                ..
            } => drop(replica.release()),
            Source::Files { .. } => {}
        }
    }
}
