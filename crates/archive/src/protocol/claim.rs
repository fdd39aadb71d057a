//! Claim of an archive: the opening of a writer, on the owner's machine or as a takeover.
//!
//! Each claim takes a new epoch, by a seal in the first free place of the newest one. The seal is the fence
//! for the owner before and the claim in one create. Answers to the puts of seals decide nothing: after each
//! round the epoch is scanned again, and the first seal in it counts.

use super::error::Error;
use super::put::Put;
use super::request::{Answer, Listing, Request};
use super::scan::{Base, Scan, Scanned};
use crate::fault::fault;
use crate::key::{Epoch, Key};
use crate::object::{Hint, Identity, Nonce, Object, Seal};
use logforce::{LogId, Lsn};
use std::collections::BTreeSet;

/// Opening that claims the archive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// Fresh random number. A machine that continues stores it durably before the claim begins.
    pub nonce: Nonce,
    /// Name of the machine, for people.
    pub owner: String,
    /// Time, Unix time in ns.
    pub time: u64,
    /// Number of seals put side by side in the first round. Each further round has twice as many.
    pub seals: u64,
    /// Log with which the claimant continues. `None` for a takeover, which reads the log from the archive.
    pub local: Option<Local>,
}

/// Log on the claimant's machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Local {
    /// Log id.
    pub log: LogId,
    /// Front of the log.
    pub front: Lsn,
    /// Durable end of the log.
    pub end: Lsn,
    /// Random numbers of the openings of this log, which lie in its control file. Each claim's nonce has that
    /// of its opening. Those of other copies of the log are not here, which is how a copy that was deposed is
    /// known.
    pub openings: Vec<u64>,
    /// True if older openings may be forgotten. An owner that is not in `openings` may be one of them then, and
    /// only the content of the log tells a copy that was deposed: the caller compares it before and after.
    pub forgets_openings: bool,
}

/// Claim that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claimed {
    /// Identity of the archive.
    pub identity: Identity,
    /// Epoch of this opening.
    pub epoch: Epoch,
    /// Nonce of this opening.
    pub nonce: Nonce,
    /// End of the archive's log. The epoch's first chunk begins here.
    pub first: Lsn,
}

/// Claim of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    who: Claimant,
    stage: Stage,
    identity: Option<Identity>,
    epoch: Epoch,
    /// Nonce and name of the owner of `epoch`. Epoch 0 has none.
    owner: Option<(Nonce, String)>,
    seals: u64,
    /// Objects of later epochs; `None` before the look.
    has_later: Option<bool>,
    todo: Vec<Request>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Identity,
    NewIdentity(Put),
    Hint,
    Scan(Scan),
    /// Look for later epochs, before the first seal in this one.
    Later(Base),
    /// Places whose puts have not been answered, and where the next scan begins.
    Seals(BTreeSet<u64>, Base),
    Ended(Result<Claimed, Error>),
}

impl Claim {
    /// Begins a claim.
    pub fn new(who: Claimant) -> Claim {
        let seals = who.seals.max(1);
        Claim {
            who,
            stage: Stage::Identity,
            identity: None,
            epoch: Epoch(0),
            owner: None,
            seals,
            has_later: None,
            todo: vec![Request::Get(Key::Identity)],
        }
    }

    /// Returns the requests to be sent now.
    pub fn poll(&mut self) -> Vec<Request> {
        let mut todo = std::mem::take(&mut self.todo);
        if let Stage::Scan(scan) = &mut self.stage {
            todo.extend(scan.poll());
        }
        todo
    }

    /// Returns the result, once there is one. The put of the hint may still be open then; it decides nothing.
    pub fn outcome(&self) -> Option<&Result<Claimed, Error>> {
        match &self.stage {
            Stage::Ended(result) => Some(result),
            _ => None,
        }
    }

    /// Takes the answer to a request.
    pub fn answer(&mut self, request: &Request, answer: Answer) {
        match &mut self.stage {
            Stage::Identity => match answer {
                Answer::Found(Object::Identity(identity)) => self.identified(identity),
                Answer::Missing => self.create_identity(),
                Answer::Found(_) => self.misplaced(Key::Identity),
                _ => self.todo.push(request.clone()),
            },
            Stage::NewIdentity(put) => match put.answer(answer) {
                None => self.todo.push(put.request()),
                Some(_) => self.read_identity(),
            },
            Stage::Hint => match answer {
                Answer::Found(Object::Hint(hint)) => self.begin(Some(hint)),
                Answer::Missing => self.begin(None),
                Answer::Found(_) => self.misplaced(Key::Hint),
                _ => self.todo.push(request.clone()),
            },
            Stage::Scan(scan) => {
                let scanned = scan.answer(request, answer);
                #[cfg(test)]
                let scanned = scanned.or_else(|| forgotten_look(scan, self.who.nonce));
                match scanned {
                    None => {}
                    Some(Ok(scanned)) => self.scanned(scanned),
                    Some(Err(error)) => self.stage = Stage::Ended(Err(error)),
                }
            }
            Stage::Later(end) => {
                let end = *end;
                match answer {
                    Answer::Listed(keys) if keys.is_empty() => {
                        self.has_later = Some(false);
                        self.put_seals(end);
                    }
                    // The seal may be younger than the scan. A further scan finds it, or it was removed.
                    Answer::Listed(_) => {
                        self.has_later = Some(true);
                        self.stage = Stage::Scan(Scan::again(self.epoch, end));
                    }
                    _ => self.todo.push(request.clone()),
                }
            }
            Stage::Seals(open, base) => {
                if let Request::Create(Object::Seal(seal)) = request {
                    open.remove(&seal.place);
                }
                let base = *base;
                if fault!(AnySealCounts) && answer == Answer::Done {
                    self.epoch = Epoch(self.epoch.0 + 1);
                    return self.claimed(base.lsn);
                }
                if open.is_empty() {
                    if fault!(HintTooEarly) {
                        self.write_hint(Epoch(self.epoch.0 + 1), base.lsn);
                    }
                    self.stage = Stage::Scan(Scan::again(self.epoch, base));
                }
            }
            Stage::Ended(_) => {}
        }
    }

    fn misplaced(&mut self, key: Key) {
        self.stage = Stage::Ended(Err(Error::Misplaced { key }));
    }

    fn read_identity(&mut self) {
        self.stage = Stage::Identity;
        self.todo.push(Request::Get(Key::Identity));
    }

    fn create_identity(&mut self) {
        let Some(local) = &self.who.local else {
            self.stage = Stage::Ended(Err(Error::NoArchive));
            return;
        };
        let (log, start) = (local.log, local.front);
        let put = Put::new(Object::Identity(Identity { log, start }));
        self.todo.push(put.request());
        self.stage = Stage::NewIdentity(put);
    }

    fn identified(&mut self, identity: Identity) {
        if let Some(local) = &self.who.local
            && local.log != identity.log
        {
            let (archive, local) = (identity.log, local.log);
            self.stage = Stage::Ended(Err(Error::OtherLog { archive, local }));
            return;
        }
        self.identity = Some(identity);
        self.stage = Stage::Hint;
        self.todo.push(Request::Get(Key::Hint));
    }

    fn begin(&mut self, hint: Option<Hint>) {
        let first = match hint {
            Some(hint) => {
                self.epoch = hint.epoch;
                self.owner = Some((hint.nonce, hint.owner));
                hint.first
            }
            None => self.identity.map_or(Lsn(0), |identity| identity.start),
        };
        self.stage = Stage::Scan(Scan::new(self.epoch, first));
    }

    fn scanned(&mut self, scanned: Scanned) {
        let end = scanned.end;
        let Some(seal) = scanned.seal else {
            match self.check(end.lsn) {
                Ok(()) => self.seal(end),
                Err(error) => self.stage = Stage::Ended(Err(error)),
            }
            return;
        };
        self.has_later = None;
        self.epoch = Epoch(self.epoch.0 + 1);
        let is_mine = seal.nonce == self.who.nonce;
        self.owner = Some((seal.nonce, seal.owner));
        self.seals = self.who.seals.max(1);
        match is_mine {
            true => self.claimed(end.lsn),
            false => self.stage = Stage::Scan(Scan::new(self.epoch, end.lsn)),
        }
    }

    /// Checks that the local log, if the claimant has one, contains the whole chain.
    ///
    /// A log that is as long may still differ: a deposed machine has records that were never acknowledged.
    /// So the newest owner has to be an opening of this very log.
    fn check(&self, end: Lsn) -> Result<(), Error> {
        let Some(local) = &self.who.local else {
            return Ok(());
        };
        if let Some((nonce, name)) = &self.owner
            && *nonce != self.who.nonce
            && !local.openings.contains(&nonce.opening())
            && !local.forgets_openings
            && !fault!(DeposedGoesOn)
        {
            let (epoch, owner) = (self.epoch, name.clone());
            return Err(Error::Deposed { epoch, owner });
        }
        if local.end < end && !fault!(ShorterGoesOn) {
            let (local, archive) = (local.end, end);
            return Err(Error::Shorter { local, archive });
        }
        if local.front > end {
            let (local, archive) = (local.front, end);
            return Err(Error::Detached { local, archive });
        }
        Ok(())
    }

    /// Seals the epoch, unless a later one has objects: then the seal was removed, and another would fork the log.
    fn seal(&mut self, end: Base) {
        match self.has_later {
            Some(true) => {
                let (epoch, place) = (self.epoch, end.place);
                let (lsn, key) = (end.lsn, Some(Key::Place { epoch, place }));
                self.stage = Stage::Ended(Err(Error::Gap { lsn, key }));
            }
            Some(false) => self.put_seals(end),
            None if fault!(SealedWithoutALook) => self.put_seals(end),
            None => {
                self.todo.push(Request::List(Listing::After(self.epoch)));
                self.stage = Stage::Later(end);
            }
        }
    }

    /// Puts seals side by side in the first free places.
    ///
    /// A live owner takes places meanwhile. Twice as many in each round catch up with any owner: with a fixed
    /// number a taker may follow for ever.
    fn put_seals(&mut self, end: Base) {
        let places = end.place..end.place.saturating_add(self.seals);
        if !fault!(SealsNotDoubled) {
            self.seals = self.seals.saturating_mul(2);
        }
        for place in places.clone() {
            self.todo.push(Request::Create(Object::Seal(Seal {
                epoch: self.epoch,
                place,
                nonce: self.who.nonce,
                owner: self.who.owner.clone(),
                settled: end.place,
                time: self.who.time,
            })));
        }
        self.stage = Stage::Seals(places.collect(), end);
    }

    fn claimed(&mut self, first: Lsn) {
        let (Some(identity), epoch, nonce) = (self.identity, self.epoch, self.who.nonce) else {
            return;
        };
        // Checked again: puts of the process before may have landed since the first check.
        let checked = match fault!(EndComparedOnce) {
            true => Ok(()),
            false => self.check(first),
        };
        let result = checked.map(|()| Claimed {
            identity,
            epoch,
            nonce,
            first,
        });
        // Only now: a hint that names an epoch without an owner would let two machines own it.
        self.write_hint(epoch, first);
        self.stage = Stage::Ended(result);
    }

    fn write_hint(&mut self, epoch: Epoch, first: Lsn) {
        self.todo.push(Request::Replace(Hint {
            epoch,
            nonce: self.who.nonce,
            owner: self.who.owner.clone(),
            first,
        }));
    }
}

/// Ends the scan early if a fault is planted that forgets the second look.
#[cfg(test)]
fn forgotten_look(scan: &mut Scan, mine: Nonce) -> Option<Result<Scanned, Error>> {
    let is_mine = |seal: Option<&Seal>| seal.is_some_and(|seal| seal.nonce == mine);
    let is_others = |seal: Option<&Seal>| seal.is_some_and(|seal| seal.nonce != mine);
    match () {
        () if fault!(NoLookAfterOwnSeal) => scan.without_second_look(is_mine),
        () if fault!(NoLookAfterOthersSeal) => scan.without_second_look(is_others),
        () => None,
    }
}
