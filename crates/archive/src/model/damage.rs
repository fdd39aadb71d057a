//! Archives of which an object was removed: no reader ends early, and no taker forks the log, without an error.

use super::bucket::{Bucket, Bytes, Message};
use super::node::{Node, Process, Sizes};
use super::restorer::restore;
use crate::fault::{Fault, plant};
use crate::key::{Epoch, Key};
use crate::object::Nonce;
use crate::protocol::{Claim, Claimant, Request};

const SIZES: Sizes = Sizes {
    window: 2,
    seals: 1,
    segment: 2,
};

/// Answers all requests of a machine, in turn.
fn run(node: &mut Node, bucket: &mut Bucket) {
    while let Some((sender, message)) = node.open.pop_first() {
        let (answer, bytes) = bucket.answer(&message.request);
        *bucket = bucket.after(&message).unwrap_or(std::mem::take(bucket));
        let answered = node.answer(sender, &message.request, answer, bytes, SIZES);
        assert!(answered.is_ok(), "{:?}", answered.err());
    }
}

/// Makes an archive with two epochs of chunks, segments and a pruned part, in the second from a restart.
fn archive() -> Bucket {
    let mut bucket = Bucket::default();
    let mut node = Node::new(true);
    let mut record = 0;
    let mut append = |node: &mut Node, bucket: &mut Bucket, count| {
        for _ in 0..count {
            record += 1;
            node.append(record);
            run(node, bucket);
        }
    };
    node.open(Nonce::new(1, 0), SIZES);
    run(&mut node, &mut bucket);
    append(&mut node, &mut bucket, 5);
    assert!(node.truncate() && node.level(SIZES));
    run(&mut node, &mut bucket);
    append(&mut node, &mut bucket, 2);
    assert!(node.level(SIZES));
    run(&mut node, &mut bucket);
    append(&mut node, &mut bucket, 1);
    assert!(node.prune());
    run(&mut node, &mut bucket);
    node.crash();
    node.open(Nonce::new(2, 0), SIZES);
    run(&mut node, &mut bucket);
    append(&mut node, &mut bucket, 3);
    assert!(matches!(node.process, Process::Write(..)));
    bucket
}

/// Takes over. Returns the end of the log; `None` after an error.
fn take_over(mut bucket: Bucket) -> Option<u64> {
    let mut claim = Claim::new(Claimant {
        nonce: Nonce::new(9, 0),
        owner: String::new(),
        time: 0,
        seals: 1,
        local: None,
    });
    loop {
        if let Some(outcome) = claim.outcome() {
            return outcome.as_ref().ok().map(|claimed| claimed.first.0);
        }
        for request in claim.poll() {
            let (answer, bytes) = bucket.answer(&request);
            let message = Message { request, bytes };
            bucket = bucket.after(&message).unwrap_or(bucket);
            claim.answer(&message.request, answer);
        }
    }
}

/// Removes each object in turn, and the hint too. Returns the keys without which a log is shorter in silence.
fn shorter_in_silence() -> Vec<Key> {
    let whole = archive();
    let end = |bucket: &Bucket| restore(bucket).ok().flatten().map(|log| log.log.end());
    assert_eq!(end(&whole), Some(11));
    let keys: Vec<Key> = whole.keys().collect();
    let mut shorter = Vec::new();
    for key in keys {
        let request = Request::Delete(key.clone());
        let bytes = Bytes::from([]);
        let with_hint = whole
            .after(&Message { request, bytes })
            .expect("it is there");
        for bucket in [with_hint.without_hint(), with_hint] {
            let ends = [end(&bucket), take_over(bucket)];
            if ends.iter().flatten().any(|end| *end < 11) && !shorter.contains(&key) {
                shorter.push(key.clone());
            }
        }
    }
    shorter
}

#[test]
fn a_removed_object_is_noticed() {
    // Nothing says that the newest chunk was there.
    let newest = Key::Place {
        epoch: Epoch(2),
        place: 2,
    };
    assert_eq!(shorter_in_silence(), [newest]);
    for fault in [
        Fault::HoleIsTheEnd,
        Fault::SealedWithoutALook,
        Fault::RestorerEndsEarly,
    ] {
        plant(Some(fault));
        let shorter = shorter_in_silence().len();
        plant(None);
        assert!(shorter > 1, "{fault:?} is not noticed");
    }
}
