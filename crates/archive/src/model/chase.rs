//! Takeover of a writer that takes thousands of places while the taker looks once.

use crate::fault::{Fault, plant};
use crate::key::{Epoch, Key};
use crate::object::{Chunk, Hint, Identity, Nonce, Object, Seal};
use crate::protocol::{Answer, Claim, Claimant, Listing, Request};
use logforce::{LogId, Lsn};
use std::collections::BTreeMap;

const EPOCH: Epoch = Epoch(1);
/// Chunks in flight.
const WINDOW: u64 = 8;

/// Epoch of a live writer: a chunk of one byte in each place, then seals.
#[derive(Default)]
struct Live {
    chunks: u64,
    seals: BTreeMap<u64, Seal>,
}

impl Live {
    /// Puts chunks until a seal is met.
    fn write(&mut self, chunks: u64) {
        for _ in 0..chunks {
            if !self.seals.contains_key(&self.chunks) {
                self.chunks += 1;
            }
        }
    }

    fn answer(&mut self, request: &Request) -> Answer {
        match request {
            Request::Get(Key::Identity) => Answer::Found(Object::Identity(Identity {
                log: LogId::default(),
                start: Lsn(0),
            })),
            Request::Get(Key::Hint) => Answer::Found(Object::Hint(Hint {
                epoch: EPOCH,
                nonce: Nonce::new(1, 0),
                owner: String::new(),
                first: Lsn(0),
            })),
            Request::Get(Key::Place { place, .. }) => match self.seals.get(place) {
                Some(seal) => Answer::Found(Object::Seal(seal.clone())),
                None if *place < self.chunks => Answer::Found(Object::Chunk(Chunk {
                    epoch: EPOCH,
                    place: *place,
                    nonce: Nonce::new(1, 0),
                    from: Lsn(*place),
                    to: Lsn(place + 1),
                    front: Lsn(0),
                    settled: place.saturating_sub(WINDOW),
                    time: 0,
                })),
                None => Answer::Missing,
            },
            Request::List(Listing::Places { epoch, from, .. }) if *epoch == EPOCH => {
                let places = (*from..self.chunks).chain(self.seals.keys().copied());
                let places = places.filter(|place| place >= from);
                let key = |place| Key::Place {
                    epoch: EPOCH,
                    place,
                };
                Answer::Listed(places.map(key).collect())
            }
            Request::List(_) => Answer::Listed(Vec::new()),
            Request::Create(Object::Seal(seal)) => {
                if seal.place < self.chunks {
                    return Answer::Exists;
                }
                self.seals.insert(seal.place, seal.clone());
                Answer::Done
            }
            _ => Answer::Done,
        }
    }
}

/// Takes over from a writer of 2,000 chunks in the time of one request. Returns the requests in a row.
fn chase(at_most: usize) -> Option<usize> {
    let mut live = Live::default();
    let mut claim = Claim::new(Claimant {
        nonce: Nonce::new(2, 0),
        owner: String::new(),
        time: 0,
        seals: 8,
        local: None,
    });
    for round in 0..at_most {
        if let Some(outcome) = claim.outcome() {
            let claimed = outcome.as_ref().expect("the writer is alive");
            assert_eq!(claimed.first, Lsn(live.chunks));
            return Some(round);
        }
        let requests = claim.poll();
        live.write(2000);
        for request in requests {
            let answer = live.answer(&request);
            claim.answer(&request, answer);
        }
    }
    None
}

#[test]
fn a_takeover_catches_up_with_any_writer() {
    let rounds = chase(200).expect("the takeover ends");
    assert!(rounds < 80, "{rounds} requests in a row");
    plant(Some(Fault::SealsNotDoubled));
    let never = chase(400);
    plant(None);
    assert_eq!(never, None, "with a fixed number of seals");
}
