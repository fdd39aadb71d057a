//! Removal of what an object makes obsolete: chunks below a floor, history below a record of pruning.
//!
//! The object is put and confirmed first. Otherwise a crash between the first deletion and the put leaves a
//! place that looks free, or a gap without a reason. A removal states a fact that stays true, so a deposed
//! owner that goes on with one harms nothing.

use super::error::Error;
use super::put::{Decided, Put};
use super::request::{Answer, Listing, Request};
use super::scan::Scan;
use crate::fault::fault;
use crate::key::{Epoch, Key};
use crate::object::{Floor, Object, Pruned};
use logforce::Lsn;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Removal of what one object makes obsolete.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Removal {
    object: Object,
    stage: Stage,
    todo: Vec<Request>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Put(Put),
    /// Requests that are open: listings, then deletions.
    Remove(BTreeSet<Request>),
    Ended(Result<(), Error>),
}

impl Removal {
    /// Begins to raise the floor of an epoch to a place.
    pub(crate) fn raise(epoch: Epoch, place: u64, lsn: Lsn) -> Removal {
        Removal::new(Object::Floor(Floor { epoch, place, lsn }))
    }

    /// Begins to prune the history below a position.
    pub(crate) fn prune(lsn: Lsn) -> Removal {
        Removal::new(Object::Pruned(Pruned { lsn }))
    }

    fn new(object: Object) -> Removal {
        let put = Put::new(object.clone());
        let mut removal = Removal {
            object,
            todo: vec![put.request()],
            stage: Stage::Put(put),
        };
        if removal.deletes_first() {
            removal.todo.clear();
            removal.list();
        }
        removal
    }

    /// Returns true if a fault is planted that deletes before the object is confirmed.
    fn deletes_first(&self) -> bool {
        match self.object {
            Object::Floor(_) => fault!(DeletedBeforeTheFloor),
            _ => fault!(DeletedBeforePruned),
        }
    }

    /// Returns the requests to be sent now.
    pub fn poll(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.todo)
    }

    /// Returns the result, once there is one.
    pub fn outcome(&self) -> Option<&Result<(), Error>> {
        match &self.stage {
            Stage::Ended(result) => Some(result),
            _ => None,
        }
    }

    /// Takes the answer to a request.
    pub fn answer(&mut self, request: &Request, answer: Answer) {
        match &mut self.stage {
            Stage::Put(put) => match put.answer(answer) {
                None => self.todo.push(put.request()),
                Some(Decided::Mine) if self.deletes_first() => self.stage = Stage::Ended(Ok(())),
                Some(Decided::Mine) => self.list(),
                Some(Decided::Other(_)) => {
                    let key = self.object.key();
                    self.stage = Stage::Ended(Err(Error::Misplaced { key }));
                }
            },
            Stage::Remove(open) => {
                if !open.remove(request) {
                    return;
                }
                let next = match (request, answer) {
                    (Request::Delete(_), Answer::Done | Answer::Missing) => Vec::new(),
                    (_, Answer::Listed(keys)) => {
                        let obsolete = keys
                            .into_iter()
                            .filter(|key| is_obsolete(key, &self.object));
                        obsolete.map(Request::Delete).collect()
                    }
                    _ => vec![request.clone()],
                };
                open.extend(next.iter().cloned());
                self.todo.extend(next);
                if open.is_empty() {
                    self.stage = Stage::Ended(Ok(()));
                    if self.deletes_first() {
                        let put = Put::new(self.object.clone());
                        self.todo.push(put.request());
                        self.stage = Stage::Put(put);
                    }
                }
            }
            Stage::Ended(_) => {}
        }
    }

    fn list(&mut self) {
        let listings = match self.object {
            Object::Floor(Floor { epoch, place, .. }) => {
                let to = place + u64::from(fault!(SealDeleted));
                let places = Listing::Places { epoch, from: 0, to };
                vec![places, Listing::Floors(epoch)]
            }
            _ => vec![Listing::Segments(Lsn(0)), Listing::Pruned],
        };
        let open: BTreeSet<Request> = listings.into_iter().map(Request::List).collect();
        self.todo.extend(open.iter().cloned());
        self.stage = Stage::Remove(open);
    }
}

/// Returns true if the object, once confirmed, makes the object at a key obsolete.
fn is_obsolete(key: &Key, by: &Object) -> bool {
    match (key, by) {
        // No seal that counts lies below a floor. Old owners meet theirs for ever, however late.
        (Key::Place { place, .. }, Object::Floor(floor)) => {
            *place < floor.place + u64::from(fault!(SealDeleted))
        }
        (Key::Floor { place, .. }, Object::Floor(floor)) => *place < floor.place,
        (Key::Segment { to, .. }, Object::Pruned(pruned)) => *to <= pruned.lsn,
        (Key::Pruned(lsn), Object::Pruned(pruned)) => *lsn < pruned.lsn,
        _ => false,
    }
}

/// Removal of the chunks of all epochs before one. Segments hold those epochs whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// Epochs to be done.
    epochs: VecDeque<Epoch>,
    stage: SweepStage,
    todo: Vec<Request>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SweepStage {
    List,
    Scan(Scan),
    Remove(Box<Removal>),
    Ended(Result<(), Error>),
}

impl Sweep {
    /// Begins to remove the chunks of all epochs before one.
    pub(crate) fn new(before: Epoch) -> Sweep {
        Sweep {
            epochs: VecDeque::new(),
            stage: SweepStage::List,
            todo: vec![Request::List(Listing::Before(before))],
        }
    }

    /// Returns the requests to be sent now.
    pub fn poll(&mut self) -> Vec<Request> {
        match &mut self.stage {
            SweepStage::Scan(scan) => scan.poll(),
            SweepStage::Remove(removal) => removal.poll(),
            _ => std::mem::take(&mut self.todo),
        }
    }

    /// Returns the result, once there is one.
    pub fn outcome(&self) -> Option<&Result<(), Error>> {
        match &self.stage {
            SweepStage::Ended(result) => Some(result),
            _ => None,
        }
    }

    /// Takes the answer to a request.
    pub fn answer(&mut self, request: &Request, answer: Answer) {
        match &mut self.stage {
            SweepStage::List => match answer {
                Answer::Listed(keys) => {
                    self.epochs = with_chunks(&keys).into();
                    self.next();
                }
                _ => self.todo.push(request.clone()),
            },
            SweepStage::Scan(scan) => match scan.answer(request, answer) {
                None => {}
                Some(Ok(scanned)) => {
                    let (base, end) = (scanned.base, scanned.end);
                    // Above a floor at the seal only chunks are left that do not count.
                    match (scanned.seal, self.epochs.pop_front()) {
                        (Some(_), Some(epoch)) if end.place > base.place => {
                            let removal = Removal::raise(epoch, end.place, end.lsn);
                            self.stage = SweepStage::Remove(Box::new(removal));
                        }
                        _ => self.next(),
                    }
                }
                Some(Err(error)) => self.stage = SweepStage::Ended(Err(error)),
            },
            SweepStage::Remove(removal) => {
                removal.answer(request, answer);
                match removal.outcome() {
                    None => {}
                    Some(Ok(())) => self.next(),
                    Some(Err(error)) => self.stage = SweepStage::Ended(Err(error.clone())),
                }
            }
            SweepStage::Ended(_) => {}
        }
    }

    fn next(&mut self) {
        self.stage = match self.epochs.front() {
            // The position is not used: an epoch whose log is empty above its floor is passed over.
            Some(epoch) => SweepStage::Scan(Scan::new(*epoch, Lsn(0))),
            None => SweepStage::Ended(Ok(())),
        };
    }
}

/// Returns the epochs of which more is there than one object, the seal.
fn with_chunks(keys: &[Key]) -> Vec<Epoch> {
    let mut objects: BTreeMap<Epoch, usize> = BTreeMap::new();
    for key in keys {
        if let Key::Place { epoch, .. } = key {
            *objects.entry(*epoch).or_default() += 1;
        }
    }
    let several = objects.into_iter().filter(|(_, count)| *count > 1);
    several.map(|(epoch, _)| epoch).collect()
}
