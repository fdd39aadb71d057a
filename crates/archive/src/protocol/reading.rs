//! Reading of an archive: a plan, and then the parts of the log in order.
//!
//! Chunks and segments vanish while they are read: their owner replaces or prunes them. What was read stays
//! true, since the bytes at a position never change below a seal. So a reading that misses an object makes a
//! new plan from where it is.

use super::cover::{holder, pruned, segments};
use super::error::Error;
use super::misses::Misses;
use super::request::{Answer, Listing, Request};
use super::scan::{Base, Scan, Scanned};
use crate::fault::fault;
use crate::key::{Epoch, Key};
use crate::object::{Chunk, Hint, Identity, Object, Segment};
use logforce::Lsn;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Part of the log that was read. The bytes are those with the last answer for its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// The log begins here. What was returned before is to be thrown away: it was pruned meanwhile.
    Start(Lsn),
    /// Chunk. It may begin below the end of the part before, and end there too: then its front alone is new.
    Chunk(Chunk),
    /// Segment. It may begin below the end of the part before.
    Segment(Segment),
}

/// Reading of an archive from its start, without ownership.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    window: usize,
    target: Option<Lsn>,
    /// Position at which the reading begins, if that lies above the archive's start.
    from: Lsn,
    /// Place of an epoch that begins at `from`. Nothing below it is read.
    behind: Option<(Epoch, Base)>,
    /// Place behind the last chunk that was read, and its epoch.
    next: Option<(Epoch, Base)>,
    identity: Option<Identity>,
    hint: Option<Hint>,
    /// Epoch that was seen to have later ones.
    has_later: Option<Epoch>,
    /// Plans begin at epoch 0: segments do not reach up to the epoch of the hint.
    from_origin: bool,
    /// Start of what is read.
    start: Option<Lsn>,
    /// End of what was read.
    at: Option<Lsn>,
    /// End of the log in the first plan. A live writer moves the end, so a reading would never end.
    goal: Option<Lsn>,
    stage: Stage,
    plan: Plan,
    misses: Misses,
    parts: Vec<Part>,
    todo: Vec<Request>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Identity,
    /// First look at what was pruned.
    Begin,
    Hint,
    Scan(Scan),
    /// Look for epochs after the last one.
    Later,
    Segments,
    /// Second look at what was pruned.
    Pruned(BTreeSet<Segment>),
    Read,
    /// A new plan is needed when the open requests are answered.
    Anew,
    Ended(Result<Lsn, Error>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Plan {
    first: Epoch,
    /// From the first one on.
    epochs: Vec<(Epoch, Scanned)>,
    /// Keys to be read, in the order of the log.
    keys: VecDeque<Key>,
    /// Requests in flight, and answers that came early.
    open: BTreeMap<Key, Option<Result<Object, Error>>>,
}

impl Reading {
    /// Begins a reading up to the end of the archive, or to the end of the part that holds `target`.
    ///
    /// Reads up to `window` objects at once.
    pub fn new(target: Option<Lsn>, window: usize) -> Reading {
        Reading {
            window: window.max(1),
            target,
            from: Lsn(0),
            behind: None,
            next: None,
            identity: None,
            hint: None,
            has_later: None,
            from_origin: false,
            start: None,
            at: None,
            goal: None,
            stage: Stage::Identity,
            plan: Plan::default(),
            misses: Misses::default(),
            parts: Vec::new(),
            todo: vec![Request::Get(Key::Identity)],
        }
    }

    /// Begins at `from` instead of at the archive's start, with the part that holds it.
    pub fn starting_at(mut self, from: Lsn) -> Reading {
        self.from = from;
        self
    }

    /// Begins at [`next`](Reading::next) of an earlier reading, if that is the position at which this one begins.
    pub(crate) fn behind(mut self, next: Option<(Epoch, Base)>) -> Reading {
        self.behind = next.filter(|(_, next)| next.lsn == self.from);
        self.next = self.behind;
        self
    }

    /// Returns the place behind the last chunk that was read, and its epoch.
    pub(crate) fn next(&self) -> Option<(Epoch, Base)> {
        self.next
    }

    /// Returns the requests to be sent now.
    pub fn poll(&mut self) -> Vec<Request> {
        let mut todo = std::mem::take(&mut self.todo);
        if let Stage::Scan(scan) = &mut self.stage {
            todo.extend(scan.poll());
        }
        todo
    }

    /// Returns true if the object at a key was requested, and may become a part.
    pub(crate) fn wants(&self, key: &Key) -> bool {
        self.plan.open.contains_key(key)
    }

    /// Returns the parts read since the last call, in the order of the log.
    pub fn parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    /// Returns the identity of the archive, once it is read.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Returns the end of the log that is to be read, once it is known.
    pub fn goal(&self) -> Option<Lsn> {
        self.goal
    }

    /// Returns the exclusive end of what was read, once the reading has ended.
    pub fn outcome(&self) -> Option<&Result<Lsn, Error>> {
        match &self.stage {
            Stage::Ended(result) => Some(result),
            _ => None,
        }
    }

    /// Takes the answer to a request.
    pub fn answer(&mut self, request: &Request, answer: Answer) {
        match (&mut self.stage, answer) {
            (Stage::Identity, Answer::Found(Object::Identity(identity))) => {
                self.identity = Some(identity);
                self.begin();
            }
            (Stage::Identity, Answer::Missing) => self.fail(Error::NoArchive),
            (Stage::Begin, Answer::Listed(keys)) => {
                self.start_at(pruned(&keys));
                self.stage = Stage::Hint;
                self.todo.push(Request::Get(Key::Hint));
            }
            (Stage::Hint, Answer::Found(Object::Hint(hint))) => {
                self.hint = Some(hint);
                self.scan_first();
            }
            (Stage::Hint, Answer::Missing) => self.scan_first(),
            (Stage::Identity | Stage::Hint, Answer::Found(_)) => {
                if let Request::Get(key) = request {
                    self.fail(Error::Misplaced { key: key.clone() });
                }
            }
            (Stage::Scan(scan), answer) => {
                let scanned = scan.answer(request, answer);
                #[cfg(test)]
                let scanned = match fault!(RestorerLooksOnce) {
                    true => scanned.or_else(|| scan.without_second_look(|_| true)),
                    false => scanned,
                };
                match scanned {
                    None => {}
                    Some(Ok(scanned)) => self.scanned(scanned),
                    Some(Err(error)) => {
                        let below = scan.below(&error);
                        match below.filter(|below| self.ends_by(below.end.lsn)) {
                            Some(below) => {
                                self.push(below);
                                self.list_segments();
                            }
                            None => self.fail(error),
                        }
                    }
                }
            }
            // The seal may be younger than the scan. A new plan finds it, or it was removed.
            (Stage::Later, Answer::Listed(keys))
                if !keys.is_empty() && !fault!(RestorerEndsEarly) =>
            {
                self.has_later = self.plan.epochs.last().map(|(epoch, _)| *epoch);
                self.begin();
            }
            (Stage::Later, Answer::Listed(_)) => self.list_segments(),
            (Stage::Segments, Answer::Listed(keys)) => {
                self.stage = Stage::Pruned(segments(&keys).collect());
                self.todo.push(Request::List(Listing::Pruned));
            }
            (Stage::Pruned(segments), Answer::Listed(keys)) => {
                let segments = std::mem::take(segments);
                match self.start_at(pruned(&keys)) {
                    // The chunk that has the new front may lie above the end that was planned.
                    true => self.begin(),
                    false => self.make_plan(&segments),
                }
            }
            (Stage::Read | Stage::Anew, answer) => self.read(request, answer),
            (Stage::Ended(_), _) => {}
            _ => self.todo.push(request.clone()),
        }
    }

    /// Notes that the object at `key` cannot be decoded. Returns false if it was not read ahead.
    ///
    /// Such an object may not be needed. The reading fails with [`Error::Misplaced`] when it comes to it.
    pub(crate) fn note_damage(&mut self, key: &Key) -> bool {
        let Some(open) = self.plan.open.get_mut(key) else {
            return false;
        };
        let key = key.clone();
        *open = Some(Err(Error::Misplaced { key }));
        self.go_on();
        true
    }

    fn fail(&mut self, error: Error) {
        self.stage = Stage::Ended(Err(error));
    }

    fn begin(&mut self) {
        self.plan = Plan::default();
        self.stage = Stage::Begin;
        self.todo.push(Request::List(Listing::Pruned));
    }

    /// Moves the start above what was pruned. Returns true if it moved.
    fn start_at(&mut self, pruned: Option<Lsn>) -> bool {
        let lowest = self.identity.map_or(Lsn(0), |identity| identity.start);
        let start = pruned.map_or(lowest, |pruned| pruned.max(lowest));
        let start = start.max(self.from);
        let moves = self.at.is_none_or(|at| at < start);
        if moves {
            self.start = Some(start);
            self.at = Some(start);
            self.goal = None;
            self.parts.push(Part::Start(start));
        }
        moves
    }

    fn scan_first(&mut self) {
        let start = self.identity.map_or(Lsn(0), |identity| identity.start);
        let (first, scan) = match (self.behind, &self.hint) {
            (Some((epoch, next)), _) if !self.from_origin => (epoch, Scan::again(epoch, next)),
            (None, Some(hint)) if !self.from_origin => {
                (hint.epoch, Scan::new(hint.epoch, hint.first))
            }
            _ => (Epoch(0), Scan::new(Epoch(0), start)),
        };
        self.plan.first = first;
        self.stage = Stage::Scan(scan);
    }

    /// Returns true if a gap at that position does not concern what is wanted.
    fn ends_by(&self, gap: Lsn) -> bool {
        self.target.is_some_and(|target| target <= gap)
    }

    fn list_segments(&mut self) {
        self.stage = Stage::Segments;
        self.todo.push(Request::List(Listing::Segments(Lsn(0))));
    }

    /// Adds the next epoch to the plan.
    fn push(&mut self, scanned: Scanned) -> Epoch {
        let epoch = Epoch(self.plan.first.0 + self.plan.epochs.len() as u64);
        self.plan.epochs.push((epoch, scanned));
        epoch
    }

    fn scanned(&mut self, scanned: Scanned) {
        let end = scanned.end;
        let is_sealed = scanned.seal.is_some();
        let epoch = self.push(scanned);
        if is_sealed {
            self.stage = Stage::Scan(Scan::new(Epoch(epoch.0 + 1), end.lsn));
            return;
        }
        // An epoch with a successor has a seal. Without one, an object was removed from the archive.
        let has_later = self.has_later == Some(epoch);
        if has_later || self.hint.as_ref().is_some_and(|hint| hint.epoch > epoch) {
            let place = end.place;
            let (lsn, key) = (end.lsn, Some(Key::Place { epoch, place }));
            return match self.ends_by(lsn) {
                true => self.list_segments(),
                false => self.fail(Error::Gap { lsn, key }),
            };
        }
        self.stage = Stage::Later;
        self.todo.push(Request::List(Listing::After(epoch)));
    }

    /// Puts the keys of the plan in order: segments below each floor, then chunks.
    fn make_plan(&mut self, segments: &BTreeSet<Segment>) {
        let Some(mut at) = self.at else {
            return;
        };
        let end = self.plan.epochs.last().map_or(at, |(_, last)| last.end.lsn);
        let goal = match self.target {
            Some(target) => target.min(end),
            None => self.goal.unwrap_or(end).max(self.end_with_a_chunk()),
        };
        self.goal = Some(goal);
        if let Some(wanted) = self.target.filter(|target| *target < at) {
            return self.fail(Error::Pruned { wanted, start: at });
        }
        for (epoch, scanned) in std::mem::take(&mut self.plan.epochs) {
            while at < scanned.base.lsn && at < goal {
                let Some(Segment { from, to }) = holder(segments, at) else {
                    return self.gap(at);
                };
                self.plan.keys.push_back(Key::Segment { from, to });
                at = to;
            }
            // Chunks that a segment holds too are read for the front in them.
            if scanned.base.lsn < goal {
                let places = scanned.base.place..scanned.end.place;
                let keys = places.map(|place| Key::Place { epoch, place });
                self.plan.keys.extend(keys);
                at = at.max(scanned.end.lsn);
            }
        }
        let has_chunk = self
            .plan
            .keys
            .iter()
            .any(|key| matches!(key, Key::Place { .. }));
        let is_read = self.behind.is_some() && self.plan.keys.is_empty();
        // The newest chunk, which has the front, may be one of an epoch below the hint.
        if at < goal || (!has_chunk && !is_read && self.may_plan_again()) {
            return self.gap(at);
        }
        self.stage = Stage::Read;
        self.go_on();
    }

    /// Returns an end below which the plan has a chunk. Without one a restored log has no front.
    fn end_with_a_chunk(&self) -> Lsn {
        let newest = self.plan.epochs.iter().rev();
        let mut with_chunks = newest.filter(|(_, scanned)| scanned.base.place < scanned.end.place);
        with_chunks
            .next()
            .map_or(Lsn(0), |(_, scanned)| scanned.base.lsn.plus(1))
    }

    /// Returns true if the plan began above epoch 0.
    fn may_plan_again(&self) -> bool {
        (self.hint.is_some() || self.behind.is_some()) && !self.from_origin
    }

    /// Makes a plan from epoch 0 on, or fails if that is what has the gap.
    fn gap(&mut self, lsn: Lsn) {
        if !self.may_plan_again() {
            return self.fail(Error::Gap { lsn, key: None });
        }
        self.from_origin = true;
        self.begin();
    }

    fn read(&mut self, request: &Request, answer: Answer) {
        let Request::Get(key) = request else {
            return;
        };
        match answer {
            Answer::Found(object) => {
                if let Some(open) = self.plan.open.get_mut(key) {
                    *open = Some(Ok(object));
                }
            }
            // It was replaced or pruned since it was listed.
            Answer::Missing => {
                self.plan.open.remove(key);
                if self.stage == Stage::Read && self.misses.note(key) {
                    let (lsn, key) = (self.at.unwrap_or_default(), Some(key.clone()));
                    return self.fail(Error::Gap { lsn, key });
                }
                self.stage = Stage::Anew;
            }
            _ if self.stage == Stage::Anew => {
                self.plan.open.remove(key);
            }
            _ => self.todo.push(request.clone()),
        }
        self.go_on();
    }

    /// Returns the parts that are complete, and reads further ones.
    fn go_on(&mut self) {
        while self.stage == Stage::Read
            && let Some(key) = self.plan.keys.front()
            && let Some(Some(object)) = self.plan.open.get(key)
        {
            let (key, object) = (key.clone(), object.clone());
            self.plan.open.remove(&key);
            self.plan.keys.pop_front();
            match object {
                Ok(object) => self.take(key, object),
                Err(error) => self.fail(error),
            }
        }
        match self.stage {
            Stage::Anew => {
                self.plan.open.retain(|_, object| object.is_none());
                if self.plan.open.is_empty() {
                    self.begin();
                }
            }
            Stage::Read => {
                let wanted = self.plan.keys.iter().take(self.window);
                for key in wanted {
                    if !self.plan.open.contains_key(key) {
                        self.plan.open.insert(key.clone(), None);
                        self.todo.push(Request::Get(key.clone()));
                    }
                }
                if let (Some(at), Some(goal)) = (self.at, self.goal)
                    && self.plan.keys.is_empty()
                {
                    self.stage = Stage::Ended(match at < goal {
                        true => Err(Error::Gap { lsn: at, key: None }),
                        false => Ok(at),
                    });
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, key: Key, object: Object) {
        let (from, to, part) = match object {
            Object::Chunk(chunk) => (chunk.from, chunk.to, Part::Chunk(chunk)),
            Object::Segment(segment) => (segment.from, segment.to, Part::Segment(segment)),
            // A late seal in a place below a new floor.
            Object::Seal(_) => {
                self.stage = Stage::Anew;
                return;
            }
            _ => return self.fail(Error::Misplaced { key }),
        };
        let at = self.at.unwrap_or(from);
        if from > at {
            let (lsn, key) = (at, Some(key));
            return self.fail(Error::Gap { lsn, key });
        }
        if self.goal.is_some_and(|goal| to >= goal) && matches!(part, Part::Chunk(_)) {
            self.plan.keys.clear();
        }
        if to > at {
            self.misses.clear();
        }
        self.at = Some(to.max(at));
        if let Part::Chunk(chunk) = &part
            && to >= at
        {
            let (place, lsn) = (chunk.place + 1, to);
            self.next = Some((chunk.epoch, Base { place, lsn }));
        }
        // A new plan may begin with chunks that were read before. Their older end must not replace the newer one.
        // The part before the first one ends at the start, and there is nothing whose front it could renew.
        let renews_front = to == at && self.start.is_some_and(|start| start < at);
        if to > at || renews_front {
            self.parts.push(part);
        }
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
