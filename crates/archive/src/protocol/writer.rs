//! Writer: the owner of an epoch, with several chunks in flight.

use super::claim::Claimed;
use super::cover::Cover;
use super::error::Error;
use super::put::{Decided, Put};
use super::removal::{Removal, Sweep};
use super::request::{Answer, Request};
use crate::fault::fault;
use crate::key::{Epoch, Key};
use crate::object::{Chunk, Object, Segment};
use logforce::Lsn;
use std::collections::{BTreeMap, VecDeque};

/// Owner of an epoch: puts chunks, several at once, and says up to where the log is in the archive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writer {
    claimed: Claimed,
    window: usize,
    /// End of the last chunk that was offered.
    offered: Lsn,
    /// Place of the next chunk.
    next: u64,
    /// Chunks not confirmed yet, by place.
    flying: BTreeMap<u64, Flight>,
    /// First place that is not confirmed.
    settled: u64,
    confirmed: Lsn,
    /// Front in the newest confirmed chunk.
    front: Option<Lsn>,
    /// Confirmed chunks at or above the floor.
    kept: VecDeque<Kept>,
    error: Option<Error>,
    todo: Vec<Request>,
}

/// Chunk that is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Flight {
    chunk: Chunk,
    /// `None` once it has landed.
    put: Option<Put>,
}

/// Confirmed chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kept {
    place: u64,
    from: Lsn,
    to: Lsn,
}

impl Writer {
    /// Begins to write in a claimed epoch, with up to `window` chunks in flight.
    pub fn new(claimed: Claimed, window: usize) -> Writer {
        let first = claimed.first;
        Writer {
            claimed,
            window,
            offered: first,
            next: 0,
            flying: BTreeMap::new(),
            settled: 0,
            confirmed: first,
            front: None,
            kept: VecDeque::new(),
            error: None,
            todo: Vec::new(),
        }
    }

    /// Returns the start of the next chunk; `None` while the window is full, or after an error.
    pub fn wants(&self) -> Option<Lsn> {
        (self.flying.len() < self.window && self.error.is_none()).then_some(self.offered)
    }

    /// Returns the place of the chunk that is offered next.
    pub fn next_place(&self) -> u64 {
        self.next
    }

    /// Puts the log from [`wants`](Writer::wants) up to `to`. Does nothing if there is nothing to put.
    ///
    /// The log has to be durable locally up to `to`: otherwise the archive would have what a restart lacks.
    pub fn offer(&mut self, to: Lsn, front: Lsn, time: u64) {
        let Some(from) = self.wants().filter(|from| *from < to) else {
            return;
        };
        let chunk = Chunk {
            epoch: self.claimed.epoch,
            place: self.next,
            nonce: self.claimed.nonce,
            from,
            to,
            front,
            settled: match fault!(SettledTooEarly) {
                true => self.next,
                false => self.settled,
            },
            time,
        };
        let put = Put::new(Object::Chunk(chunk));
        self.todo.push(put.request());
        self.flying.insert(
            self.next,
            Flight {
                chunk,
                put: Some(put),
            },
        );
        self.offered = to;
        self.next += 1;
    }

    /// Returns the requests to be sent now.
    pub fn poll(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.todo)
    }

    /// Takes the answer to a request.
    pub fn answer(&mut self, request: &Request, answer: Answer) {
        let place = match request {
            Request::Create(Object::Chunk(chunk)) => chunk.place,
            Request::Get(Key::Place { place, .. }) => *place,
            _ => return,
        };
        let Some(flight) = self.flying.get_mut(&place) else {
            return;
        };
        let Some(put) = &mut flight.put else {
            return;
        };
        match put.answer(answer) {
            None => self.todo.push(put.request()),
            Some(Decided::Mine) => {
                flight.put = None;
                if fault!(AcknowledgedBehindAHole) {
                    self.confirmed = self.confirmed.max(flight.chunk.to);
                }
                self.confirm();
            }
            Some(Decided::Other(object)) => self.stop(place, object),
        }
    }

    /// Confirms the chunks below the first hole. A chunk behind a hole may come to lie behind a seal.
    fn confirm(&mut self) {
        while let Some(flight) = self.flying.get(&self.settled)
            && flight.put.is_none()
        {
            let Chunk {
                place,
                from,
                to,
                front,
                ..
            } = flight.chunk;
            self.flying.remove(&place);
            self.kept.push_back(Kept { place, from, to });
            self.confirmed = self.confirmed.max(to);
            self.front = Some(front);
            self.settled = place + 1;
        }
    }

    /// Ends the writing: another object is where a chunk was to be. Nothing is confirmed any more.
    fn stop(&mut self, place: u64, object: Object) {
        let epoch = self.claimed.epoch;
        self.error = Some(match object {
            Object::Seal(_) if fault!(SealPassedOver) => {
                if let Some(flight) = self.flying.get_mut(&place) {
                    flight.put = None;
                }
                return self.confirm();
            }
            Object::Seal(seal) if seal.nonce.opening() == self.claimed.nonce.opening() => {
                Error::Replaced { owner: seal.owner }
            }
            Object::Seal(seal) => Error::Deposed {
                epoch: Epoch(epoch.0 + 1),
                owner: seal.owner,
            },
            _ => Error::Misplaced {
                key: Key::Place { epoch, place },
            },
        });
        self.flying.clear();
        self.todo.clear();
    }

    /// Returns the end of the log that is in the archive for good.
    pub fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    /// Returns the error that ended the writing.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Returns the epoch of this opening.
    pub fn epoch(&self) -> Epoch {
        self.claimed.epoch
    }

    /// Begins to put whole segments of the local log: those that end at or below what is confirmed.
    ///
    /// `covered` is the result of the call before, if there was one. Above the confirmed end another machine
    /// may write other bytes at the same positions.
    pub fn cover(&self, covered: Option<Lsn>, segments: &[Segment]) -> Cover {
        let confirmed =
            |segment: &&Segment| segment.to <= self.confirmed || fault!(SegmentTooEarly);
        let segments = segments.iter().filter(confirmed).copied().collect();
        Cover::new(self.claimed.identity.start, covered, segments)
    }

    /// Begins to raise the floor over chunks that segments cover up to `covered`. `None` if there are none.
    ///
    /// The newest confirmed chunk stays: it has the log's front.
    pub fn raise(&mut self, covered: Lsn) -> Option<Removal> {
        let is_covered = |kept: &Kept| kept.to <= covered || fault!(FloorAboveSegments);
        let floor = self.kept.front()?.place;
        while self.kept.len() > 1 && self.kept.front().is_some_and(is_covered) {
            self.kept.pop_front();
        }
        let lowest = self.kept.front()?;
        (lowest.place > floor)
            .then(|| Removal::raise(self.claimed.epoch, lowest.place, lowest.from))
    }

    /// Begins to remove the chunks of older epochs. `None` while segments do not cover those epochs.
    ///
    /// A chunk of this epoch has to be confirmed, so that one with the log's front stays.
    pub fn sweep(&self, covered: Lsn) -> Option<Sweep> {
        let has_front = self.front.is_some() || fault!(SweptTooEarly);
        (has_front && covered >= self.claimed.first).then(|| Sweep::new(self.claimed.epoch))
    }

    /// Begins to prune the history below `lsn`, at most up to the archived front. `None` if that is unknown.
    ///
    /// The local front may be higher. A restored log would have the archived one, and lack what lies between.
    pub fn prune(&self, lsn: Lsn) -> Option<Removal> {
        let front = self.front?;
        match fault!(PrunedBelowLocalFront) {
            true => Some(Removal::prune(lsn)),
            false => Some(Removal::prune(lsn.min(front))),
        }
    }
}
