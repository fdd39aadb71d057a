//! Scan of one epoch: finds its end, which is its first seal, or the first free place.
//!
//! The order of the requests is what makes the result true: the places are listed, what may be a seal is
//! read, and the floor is looked at *after* that. The owner deletes chunks below a floor. So a place that is
//! found free, or holds a seal, says nothing if the floor has risen above it meanwhile.
//!
//! A listing has several pages, each of another moment. So a chunk may be missing in it that was put before a
//! chunk that is listed: it is read before it counts as missing.

use super::error::Error;
use super::misses::Misses;
use super::request::{Answer, Listing, Request};
use crate::fault::fault;
use crate::key::{Epoch, Key};
use crate::object::{Object, Seal};
use logforce::Lsn;
use std::collections::{BTreeMap, BTreeSet};

/// Scan of one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scan {
    epoch: Epoch,
    base: Base,
    stage: Stage,
    /// First place that was not listed.
    free: u64,
    /// Places that were listed above it.
    beyond: BTreeSet<u64>,
    /// Place below which the object there says that chunks were.
    settled: u64,
    heads: BTreeMap<u64, Object>,
    open: BTreeSet<Request>,
    misses: Misses,
    todo: Vec<Request>,
}

/// Place of an epoch, and the position of the log at which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Base {
    pub(crate) place: u64,
    pub(crate) lsn: Lsn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    FirstLook,
    Places,
    Beyond,
    /// Look for a chunk that the listing lacks.
    Hole,
    Last,
    Run,
    SecondLook,
    /// An object was deleted while it was to be read: begins anew when the open requests are answered.
    Anew,
}

/// Result of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scanned {
    /// Lowest place that counts.
    pub(crate) base: Base,
    /// First place without a chunk of the log: its end, in places and as a position.
    pub(crate) end: Base,
    /// Seal at the end; `None` if the place is free.
    pub(crate) seal: Option<Seal>,
}

impl Scan {
    /// Begins the scan of an epoch whose log begins at `first`.
    pub(crate) fn new(epoch: Epoch, first: Lsn) -> Scan {
        let base = Base {
            place: 0,
            lsn: first,
        };
        Scan::at(epoch, base, Stage::FirstLook)
    }

    /// Begins another scan above a place below which each place is known to hold a chunk.
    pub(crate) fn again(epoch: Epoch, base: Base) -> Scan {
        Scan::at(epoch, base, Stage::Places)
    }

    fn at(epoch: Epoch, base: Base, stage: Stage) -> Scan {
        let mut scan = Scan {
            epoch,
            base,
            stage: Stage::Anew,
            free: base.place,
            beyond: BTreeSet::new(),
            settled: 0,
            heads: BTreeMap::new(),
            open: BTreeSet::new(),
            misses: Misses::default(),
            todo: Vec::new(),
        };
        scan.enter(stage);
        scan
    }

    /// Returns the requests to be sent now.
    pub(crate) fn poll(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.todo)
    }

    fn ask(&mut self, request: Request) {
        self.open.insert(request.clone());
        self.todo.push(request);
    }

    fn get(&mut self, place: u64) {
        let epoch = self.epoch;
        self.ask(Request::Get(Key::Place { epoch, place }));
    }

    fn enter(&mut self, stage: Stage) {
        let epoch = self.epoch;
        match stage {
            Stage::FirstLook | Stage::SecondLook => {
                self.ask(Request::List(Listing::Floors(epoch)));
            }
            Stage::Places => {
                self.heads.clear();
                let (from, to) = (self.base.place, u64::MAX);
                self.ask(Request::List(Listing::Places { epoch, from, to }));
            }
            Stage::Beyond => match self.beyond.last().copied() {
                Some(place) => self.get(place),
                None => return self.read_end(),
            },
            Stage::Hole => self.get(self.free),
            Stage::Last => self.get(self.free - 1),
            Stage::Run | Stage::Anew => {}
        }
        self.stage = stage;
    }

    /// Takes an answer. Returns the result if it was the last one.
    pub(crate) fn answer(
        &mut self,
        request: &Request,
        answer: Answer,
    ) -> Option<Result<Scanned, Error>> {
        if !self.open.remove(request) {
            return None;
        }
        match (self.stage, request, answer) {
            (_, _, Answer::Unknown) if self.stage != Stage::Anew => self.ask(request.clone()),
            (Stage::FirstLook, _, Answer::Listed(keys)) => {
                self.raise(&keys);
                self.enter(Stage::Places);
            }
            (Stage::Places, _, Answer::Listed(keys)) => self.listed(&keys),
            (Stage::SecondLook, _, Answer::Listed(keys)) => {
                if !self.raise(&keys) {
                    return Some(self.conclude());
                }
                self.enter(Stage::Places);
            }
            (Stage::Hole, _, Answer::Found(_)) => {
                self.beyond.insert(self.free);
                self.pass_run();
                self.look_for_hole();
            }
            (Stage::Hole, _, Answer::Missing) => self.read_end(),
            (
                Stage::Beyond | Stage::Last | Stage::Run,
                Request::Get(key),
                Answer::Found(object),
            ) => {
                if let Err(error) = self.found(key, object) {
                    return Some(Err(error));
                }
            }
            (Stage::Beyond | Stage::Last | Stage::Run, Request::Get(key), Answer::Missing) => {
                if self.misses.note(key) {
                    let (lsn, key) = (self.base.lsn, Some(key.clone()));
                    return Some(Err(Error::Gap { lsn, key }));
                }
                self.stage = Stage::Anew;
            }
            _ => {}
        }
        if self.stage == Stage::Anew && self.open.is_empty() {
            self.enter(Stage::FirstLook);
        }
        None
    }

    /// Raises the base to the largest floor. Returns true if that is higher.
    fn raise(&mut self, keys: &[Key]) -> bool {
        let floors = keys.iter().filter_map(|key| match *key {
            Key::Floor { place, lsn, .. } => Some(Base { place, lsn }),
            _ => None,
        });
        let floor = match fault!(FloorMovesBack) {
            true => floors.min_by_key(|floor| floor.place),
            false => floors.max_by_key(|floor| floor.place),
        };
        match floor {
            Some(floor) if floor.place > self.base.place => {
                self.base = floor;
                true
            }
            _ => false,
        }
    }

    /// Finds the run of places without a hole, and begins to read its end.
    fn listed(&mut self, keys: &[Key]) {
        let places = keys.iter().filter_map(|key| match *key {
            Key::Place { place, .. } => Some(place),
            _ => None,
        });
        self.beyond = places.filter(|place| *place >= self.base.place).collect();
        self.free = self.base.place;
        self.pass_run();
        self.settled = 0;
        self.enter(Stage::Beyond);
    }

    /// Moves the free place above the run of places that begins at it.
    fn pass_run(&mut self) {
        while self.beyond.remove(&self.free) {
            self.free += 1;
        }
    }

    /// Reads the free place if it held a chunk before the last place was put.
    fn look_for_hole(&mut self) {
        match self.settled > self.free {
            true => self.enter(Stage::Hole),
            false => self.read_end(),
        }
    }

    fn read_end(&mut self) {
        match self.free == self.base.place {
            true => self.enter(Stage::SecondLook),
            false => self.enter(Stage::Last),
        }
    }

    fn found(&mut self, key: &Key, object: Object) -> Result<(), Error> {
        let (place, settled) = match (key, &object) {
            (Key::Place { place, .. }, Object::Chunk(chunk)) => (*place, chunk.settled),
            (Key::Place { place, .. }, Object::Seal(seal)) => (*place, seal.settled),
            _ => return Err(Error::Misplaced { key: key.clone() }),
        };
        if self.stage == Stage::Beyond {
            self.settled = settled;
            self.look_for_hole();
            return Ok(());
        }
        self.heads.insert(place, object);
        if self.stage == Stage::Last {
            self.enter(Stage::Run);
            // One below, for the position at which the log ends if the seal is at `settled` itself.
            let from = settled.saturating_sub(1).max(self.base.place);
            for place in from..place {
                self.get(place);
            }
        }
        if self.open.is_empty() {
            self.enter(Stage::SecondLook);
        }
        Ok(())
    }

    /// Returns the first seal among what was read.
    fn seal(&self) -> Option<&Seal> {
        self.heads.values().find_map(|head| match head {
            Object::Seal(seal) => Some(seal),
            _ => None,
        })
    }

    /// Returns what lies below the hole that the scan has failed for.
    pub(crate) fn below(&self, error: &Error) -> Option<Scanned> {
        let Error::Gap { lsn, key } = error else {
            return None;
        };
        let (lsn, Some(Key::Place { place, .. })) = (*lsn, key) else {
            return None;
        };
        Some(Scanned {
            base: self.base,
            end: Base { place: *place, lsn },
            seal: None,
        })
    }

    fn conclude(&self) -> Result<Scanned, Error> {
        let seal = self.seal().cloned();
        let place = seal.as_ref().map_or(self.free, |seal| seal.place);
        let lsn = match place == self.base.place {
            true => self.base.lsn,
            false => match self.heads.get(&(place - 1)) {
                Some(Object::Chunk(chunk)) => chunk.to,
                _ => {
                    let (epoch, place) = (self.epoch, place - 1);
                    let key = Key::Place { epoch, place };
                    return Err(Error::Misplaced { key });
                }
            },
        };
        // Objects behind a hole are usual: puts in flight. This hole was a chunk, and the floor is not above it.
        if seal.is_none() && self.settled > place && !fault!(HoleIsTheEnd) {
            let epoch = self.epoch;
            let key = Some(Key::Place { epoch, place });
            return Err(Error::Gap { lsn, key });
        }
        Ok(Scanned {
            base: self.base,
            end: Base { place, lsn },
            seal,
        })
    }
}

#[cfg(test)]
impl Scan {
    /// Ends the scan without the second look if the seal, or its absence, is one of `which`: a planted fault.
    pub(crate) fn without_second_look(
        &mut self,
        which: impl Fn(Option<&Seal>) -> bool,
    ) -> Option<Result<Scanned, Error>> {
        let ends = self.stage == Stage::SecondLook && which(self.seal());
        ends.then(|| self.conclude())
    }
}
