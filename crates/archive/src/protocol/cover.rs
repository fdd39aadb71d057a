//! Second level: whole segments, put so that their chunks can go.

use super::error::Error;
use super::put::{Decided, Put};
use super::request::{Answer, Listing, Request};
use crate::key::Key;
use crate::object::{Object, Segment};
use logforce::Lsn;
use std::collections::{BTreeMap, BTreeSet};

/// Put of whole segments. Its result is the position up to which segments hold the log without a gap.
///
/// The content of a segment is decided before it is put. So two machines put the same one, and neither needs
/// to be the owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cover {
    covered: Lsn,
    local: Vec<Segment>,
    there: BTreeSet<Segment>,
    stage: Stage,
    todo: Vec<Request>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Segments,
    Pruned,
    Puts(BTreeMap<Segment, Put>),
    Ended(Result<Lsn, Error>),
}

impl Cover {
    pub(crate) fn new(start: Lsn, covered: Option<Lsn>, local: Vec<Segment>) -> Cover {
        // The segments below `covered` were listed before, and one of them ends there.
        let listing = Listing::Segments(covered.unwrap_or_default());
        Cover {
            covered: covered.unwrap_or(start),
            local,
            there: BTreeSet::new(),
            stage: Stage::Segments,
            todo: vec![Request::List(listing)],
        }
    }

    /// Returns the requests to be sent now.
    pub fn poll(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.todo)
    }

    /// Returns the position up to which segments hold the log, once all are put.
    pub fn outcome(&self) -> Option<&Result<Lsn, Error>> {
        match &self.stage {
            Stage::Ended(result) => Some(result),
            _ => None,
        }
    }

    /// Takes the answer to a request.
    pub fn answer(&mut self, request: &Request, answer: Answer) {
        match (&mut self.stage, answer) {
            (Stage::Segments, Answer::Listed(keys)) => {
                self.there.extend(segments(&keys));
                self.stage = Stage::Pruned;
                self.todo.push(Request::List(Listing::Pruned));
            }
            (Stage::Pruned, Answer::Listed(keys)) => {
                if let Some(pruned) = pruned(&keys) {
                    self.covered = self.covered.max(pruned);
                }
                self.put();
            }
            (Stage::Segments | Stage::Pruned, _) => self.todo.push(request.clone()),
            (Stage::Puts(puts), answer) => {
                let Some(segment) = segment(request) else {
                    return;
                };
                let Some(put) = puts.get_mut(&segment) else {
                    return;
                };
                match put.answer(answer) {
                    None => self.todo.push(put.request()),
                    Some(Decided::Mine) => {
                        puts.remove(&segment);
                        self.there.insert(segment);
                        self.end_if_all_are_there();
                    }
                    Some(Decided::Other(_)) => {
                        let key = Object::Segment(segment).key();
                        self.stage = Stage::Ended(Err(Error::Misplaced { key }));
                    }
                }
            }
            (Stage::Ended(_), _) => {}
        }
    }

    /// Puts the segments that are above what is covered and not there yet.
    fn put(&mut self) {
        self.covered = end_of_run(&self.there, self.covered);
        let mut puts = BTreeMap::new();
        for segment in &self.local {
            if segment.to > self.covered && !self.there.contains(segment) {
                let put = Put::new(Object::Segment(*segment));
                self.todo.push(put.request());
                puts.insert(*segment, put);
            }
        }
        self.stage = Stage::Puts(puts);
        self.end_if_all_are_there();
    }

    fn end_if_all_are_there(&mut self) {
        if let Stage::Puts(puts) = &self.stage
            && puts.is_empty()
        {
            self.covered = end_of_run(&self.there, self.covered);
            self.stage = Stage::Ended(Ok(self.covered));
        }
    }
}

/// Returns the segments among keys.
pub(crate) fn segments(keys: &[Key]) -> impl Iterator<Item = Segment> {
    keys.iter().filter_map(|key| match *key {
        Key::Segment { from, to } => Some(Segment { from, to }),
        _ => None,
    })
}

/// Returns the largest position that was pruned.
pub(crate) fn pruned(keys: &[Key]) -> Option<Lsn> {
    let lsns = keys.iter().filter_map(|key| match *key {
        Key::Pruned(lsn) => Some(lsn),
        _ => None,
    });
    lsns.max()
}

/// Returns the segment that holds a position, the longest if there are several.
pub(crate) fn holder(segments: &BTreeSet<Segment>, lsn: Lsn) -> Option<Segment> {
    let holds = segments.iter().filter(|s| s.from <= lsn && lsn < s.to);
    holds.max_by_key(|s| s.to).copied()
}

/// Returns the position up to which segments hold the log from `from` on.
fn end_of_run(segments: &BTreeSet<Segment>, from: Lsn) -> Lsn {
    let mut end = from;
    while let Some(segment) = holder(segments, end) {
        end = segment.to;
    }
    end
}

fn segment(request: &Request) -> Option<Segment> {
    match request {
        Request::Create(Object::Segment(segment)) => Some(*segment),
        Request::Get(Key::Segment { from, to }) => Some(Segment {
            from: *from,
            to: *to,
        }),
        _ => None,
    }
}
