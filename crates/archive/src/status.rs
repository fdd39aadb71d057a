//! State of an upload, for the program that runs it.

use crate::piece::Piece;
use crate::store::StoreError;
use logforce::Lsn;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// State of an archive that is being written.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Status {
    /// Everything below is in the archive.
    pub archived: Lsn,
    /// End of the durable records on this machine. The part above `archived` is lost with the machine.
    pub durable: Lsn,
    /// Time for which the oldest byte above `archived` has waited.
    pub behind_for: Duration,
    /// Number of chunks that were archived in this opening.
    pub chunks: u64,
    /// Bytes of log in them.
    pub bytes: u64,
    /// Failure for which the archive tries again at the moment.
    pub trouble: Option<String>,
    /// Failure for which segments are not made; restores are slower, and nothing is lost.
    pub segments: Option<String>,
    /// True once the archive has ended.
    pub has_ended: bool,
}

/// Least time between two positions that are remembered, and so the error of [`Status::behind_for`].
const SAMPLES_APART: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    /// Positions above the archived one, and when they were first seen as durable.
    durable: VecDeque<(Lsn, Instant)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> Status {
        let state = self.state();
        let mut status = state.status.clone();
        let oldest = state.durable.front();
        status.behind_for = oldest.map_or(Duration::ZERO, |(_, since)| since.elapsed());
        status
    }

    pub(crate) fn note_chunk(&self, piece: &Piece) {
        let status = &mut self.state().status;
        status.chunks += 1;
        status.bytes += piece.log.len() as u64;
    }

    pub(crate) fn note(&self, archived: Lsn, durable: Lsn, trouble: Option<StoreError>) {
        let mut state = self.state();
        // Bytes that were seen as durable have turned out to hold no record.
        let mut since = None;
        while let Some((_, at)) = state.durable.back().filter(|(lsn, _)| *lsn > durable) {
            since = Some(*at);
            state.durable.pop_back();
        }
        if let Some(at) = since {
            state.durable.push_back((durable, at));
        }
        let seen = state.durable.back().map_or(archived, |(lsn, _)| *lsn);
        let is_due = |(_, at): &(Lsn, Instant)| at.elapsed() >= SAMPLES_APART;
        if durable > seen && state.durable.back().is_none_or(is_due) {
            state.durable.push_back((durable, Instant::now()));
        }
        while state
            .durable
            .front()
            .is_some_and(|(lsn, _)| *lsn <= archived)
        {
            state.durable.pop_front();
        }
        state.status.archived = archived;
        state.status.durable = durable;
        state.status.trouble = trouble.map(|error| error.to_string());
    }

    pub(crate) fn note_segments(&self, failed: Option<&str>) {
        let segments = &mut self.state().status.segments;
        if segments.is_none() {
            *segments = failed.map(str::to_owned);
        }
    }

    pub(crate) fn ended(&self) {
        self.state().status.has_ended = true;
    }
}
