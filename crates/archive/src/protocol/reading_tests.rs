use super::*;
use crate::object::Nonce;
use logforce::LogId;

type Objects = BTreeMap<Key, Object>;

fn chunk(place: u64) -> Object {
    Object::Chunk(Chunk {
        epoch: Epoch(0),
        place,
        nonce: Nonce(1),
        from: Lsn(place * 10),
        to: Lsn(place * 10 + 10),
        front: Lsn(0),
        settled: place,
        time: 0,
    })
}

fn look(objects: &Objects, request: &Request) -> Answer {
    match request {
        Request::List(listing) => {
            let keys = objects.keys().filter(|key| listing.contains(key));
            Answer::Listed(keys.cloned().collect())
        }
        Request::Get(key) => match objects.get(key) {
            Some(object) => Answer::Found(object.clone()),
            None => Answer::Missing,
        },
        _ => Answer::Unknown,
    }
}

/// Returns four chunks of an epoch, and the identity.
fn archive() -> Objects {
    let log = LogId::default();
    let start = Lsn(0);
    let identity = Object::Identity(Identity { log, start });
    let all = (0..4).map(chunk).chain([identity]);
    all.map(|object| (object.key(), object)).collect()
}

/// Reads to the end, with the answers that `answer` gives to a request and the ends so far. Returns the ends of the
/// chunks.
fn ends(mut reading: Reading, mut answer: impl FnMut(&Request, &[u64]) -> Answer) -> Vec<u64> {
    let mut ends = Vec::new();
    while reading.outcome().is_none() {
        for request in reading.poll() {
            let answer = answer(&request, &ends);
            reading.answer(&request, answer);
        }
        ends.extend(reading.parts().into_iter().filter_map(end));
    }
    assert_eq!(reading.outcome(), Some(&Ok(Lsn(40))));
    ends
}

fn end(part: Part) -> Option<u64> {
    match part {
        Part::Chunk(chunk) => Some(chunk.to.0),
        _ => None,
    }
}

/// A segment has replaced a chunk that the reading wanted, and the floor is not raised yet. The next plan begins
/// with chunks that were returned already. A restore refused their older end, since it had a newer one.
#[test]
fn a_new_plan_returns_no_part_that_ends_below_the_one_before() {
    let objects = archive();
    let mut gone = Some(Request::Get(chunk(3).key()));
    let ends = ends(Reading::new(None, 1), |request, ends| {
        match ends.len() == 3 && gone.as_ref() == Some(request) {
            true => {
                gone = None;
                Answer::Missing
            }
            false => look(&objects, request),
        }
    });
    // One again, for its front.
    assert_eq!(ends, [10, 20, 30, 30, 40]);
    assert_eq!(gone, None);
}

/// A restore refused the chunk that ends where its first segment begins: there was nothing before it.
#[test]
fn the_part_that_ends_at_the_start_is_not_returned() {
    let reading = Reading::new(None, 1).starting_at(Lsn(20));
    let objects = archive();
    assert_eq!(
        ends(reading, |request, _| look(&objects, request)),
        [30, 40]
    );
}

/// A dangling link in a directory, for instance. A reading of it never ended.
#[test]
fn an_object_that_is_listed_and_never_found_is_a_gap() {
    let objects = archive();
    // The last one is missed by the scan of its epoch.
    for (place, lsn) in [(1, Lsn(10)), (3, Lsn(0))] {
        let lost = chunk(place).key();
        let mut reading = Reading::new(None, 1);
        for _ in 0..1000 {
            for request in reading.poll() {
                let answer = match &request {
                    Request::Get(key) if *key == lost => Answer::Missing,
                    request => look(&objects, request),
                };
                reading.answer(&request, answer);
            }
        }
        let key = Some(lost);
        assert_eq!(reading.outcome(), Some(&Err(Error::Gap { lsn, key })));
    }
}

/// A page of the listing was older than a put, and a later page was younger than one that followed it. The chunk that
/// was not listed passed for one that was removed.
#[test]
fn a_chunk_that_a_page_of_the_listing_was_too_early_for_is_read() {
    let objects = archive();
    for unlisted in 1..8 {
        let ends = ends(Reading::new(None, 8), |request, _| {
            let mut answer = look(&objects, request);
            if let Answer::Listed(keys) = &mut answer {
                keys.retain(|key| match key {
                    Key::Place { place, .. } => 1 << place & unlisted == 0,
                    _ => true,
                });
            }
            answer
        });
        assert_eq!(ends, [10, 20, 30, 40], "{unlisted:b}");
    }
}

/// A restore to a position below a damaged chunk failed if that chunk was read first.
#[test]
fn a_damaged_object_fails_the_reading_that_comes_to_it() {
    let objects = archive();
    let damaged = chunk(2).key();
    for (target, outcome) in [
        (Some(Lsn(15)), Ok(Lsn(20))),
        (
            None,
            Err(Error::Misplaced {
                key: damaged.clone(),
            }),
        ),
    ] {
        let mut reading = Reading::new(target, 8);
        let mut ends = Vec::new();
        while reading.outcome().is_none() {
            let mut requests = reading.poll();
            // The damaged one is answered before the others.
            requests.sort_by_key(|request| *request != Request::Get(damaged.clone()));
            for request in requests {
                match request == Request::Get(damaged.clone()) && reading.note_damage(&damaged) {
                    true => {}
                    false => reading.answer(&request, look(&objects, &request)),
                }
            }
            ends.extend(reading.parts().into_iter().filter_map(end));
        }
        assert_eq!(ends, [10, 20]);
        assert_eq!(reading.outcome(), Some(&outcome));
    }
}

/// A standby read all chunks above the floor at each look.
#[test]
fn a_reading_behind_an_earlier_one_reads_new_chunks_only() {
    let mut objects = archive();
    // A standby that was started again has everything already.
    let mut reading = Reading::new(None, 8).starting_at(Lsn(40));
    let mut read = vec![10, 20, 30, 40];
    for count in [4, 0, 1, 0] {
        let mut gets = BTreeSet::new();
        while reading.outcome().is_none() {
            for request in reading.poll() {
                if let Request::Get(key @ Key::Place { .. }) = &request {
                    gets.insert(key.clone());
                }
                reading.answer(&request, look(&objects, &request));
            }
            read.extend(reading.parts().into_iter().filter_map(end));
        }
        assert_eq!(gets.len(), count);
        let at = Lsn(read.len() as u64 * 10);
        assert_eq!(reading.outcome(), Some(&Ok(at)));
        reading = Reading::new(None, 8).starting_at(at).behind(reading.next());
        if count == 0 {
            objects.insert(chunk(4).key(), chunk(4));
        }
    }
    assert_eq!(read, [10, 20, 30, 40, 50]);
}
