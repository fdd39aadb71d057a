//! The newest owner of an archive, and the end of what it has written.

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::format::{StoredLog, random_nonce};
use crate::key::{Epoch, Key, MAX_OWNER_LEN};
use crate::object::{Hint, Nonce, Object};
use crate::protocol::{self, Answer, Claim, Claimant, Claimed, Local, Request, Scan, Scanned};
use logforce::Lsn;
use tokio::task::JoinSet;

/// Fails for a name that an archive cannot store.
pub(crate) fn check_owner(owner: &str) -> Result<()> {
    match owner.len() {
        0..=MAX_OWNER_LEN => Ok(()),
        len => Err(Error::Invalid(format!(
            "the owner's name has {len} bytes, and an archive stores at most {MAX_OWNER_LEN}: choose a shorter one"
        ))),
    }
}

/// Claims the next epoch of an archive. `opening` is the random number of the log's opening, or of a takeover.
pub(crate) async fn claim(
    bucket: &Bucket,
    owner: String,
    opening: u64,
    local: Option<Local>,
) -> Result<Claimed> {
    check_owner(&owner)?;
    let mut claim = Claim::new(Claimant {
        nonce: Nonce::new(opening, random_nonce()?.0 as u64),
        owner,
        time: bucket.now(),
        // A restart finds an owner that is gone, mostly; a takeover may find one that writes.
        seals: if local.is_some() { 1 } else { 8 },
        local,
    });
    bucket.run(&mut claim).await?;
    match claim.outcome() {
        Some(outcome) => Ok(outcome.clone()?),
        None => Err(Error::Invalid("the claim has stopped".to_owned())),
    }
}

/// Returns the newest chunk of the epochs below `end`; `None` if there is none.
pub(crate) async fn last_chunk(bucket: &Bucket, end: Epoch) -> Result<Option<(Key, StoredLog)>> {
    let mut epoch = end;
    while let Some(before) = epoch.0.checked_sub(1) {
        epoch = Epoch(before);
        let scanned = scan(bucket, epoch).await?;
        if scanned.end.place == scanned.base.place {
            continue;
        }
        let place = scanned.end.place - 1;
        let request = Request::Get(Key::Place { epoch, place });
        // A lost answer says nothing. An older chunk would pass for the newest one.
        let stored = loop {
            match bucket.perform(&request, None, true).await? {
                (Answer::Unknown, _) => {}
                (_, stored) => break stored,
            }
        };
        match stored {
            Some(stored) => return Ok(Some((Key::Place { epoch, place }, stored))),
            // It was removed meanwhile, since a later epoch has one now.
            None => epoch = end,
        }
    }
    Ok(None)
}

/// Finds the end of one epoch.
pub(crate) async fn scan(bucket: &Bucket, epoch: Epoch) -> Result<Scanned> {
    let scanned = scan_from(bucket, epoch, Lsn(0)).await;
    if !matches!(scanned, Err(Error::State(protocol::Error::Gap { .. }))) {
        return scanned;
    }
    // The error has the position of the gap, and an epoch begins where the one before ends.
    let mut first = bucket.identity().map_or(Lsn(0), |identity| identity.start);
    for before in 0..epoch.0 {
        first = scan_from(bucket, Epoch(before), first).await?.end.lsn;
    }
    scan_from(bucket, epoch, first).await
}

/// Finds the end of an epoch that begins at `first`. Only a result that has no place above the first floor has that
/// position.
async fn scan_from(bucket: &Bucket, epoch: Epoch, first: Lsn) -> Result<Scanned> {
    let mut scan = Scan::new(epoch, first);
    let mut open = JoinSet::new();
    loop {
        for request in scan.poll() {
            let bucket = bucket.clone();
            open.spawn(async move {
                let answer = bucket.perform(&request, None, false).await;
                (request, answer)
            });
        }
        let Some(Ok((request, answer))) = open.join_next().await else {
            return Err(Error::Invalid("the scan has stopped".to_owned()));
        };
        if let Some(scanned) = scan.answer(&request, answer?.0) {
            return Ok(scanned?);
        }
    }
}

/// Returns the newest chunk; `None` if there is none.
pub(crate) async fn newest_chunk(bucket: &Bucket) -> Result<Option<StoredLog>> {
    let newest = newest_epoch(bucket).await?;
    let last = last_chunk(bucket, Epoch(newest.0 + 1)).await?;
    Ok(last.map(|(_, stored)| stored))
}

/// Returns the start of the first segment that the newest state needs.
pub(crate) async fn first_needed(bucket: &Bucket) -> Result<Option<Lsn>> {
    let newest = newest_chunk(bucket).await?;
    newest
        .map(|stored| crate::level::first_segment(&stored.control))
        .transpose()
}

/// Returns the position below which nothing can be restored. The identity must have been read.
pub(crate) async fn start(bucket: &Bucket) -> Result<Lsn> {
    let keys = bucket.list("p/", None, |key| matches!(key, Key::Pruned(_)));
    let lsns = keys.await?.into_iter().filter_map(|key| match key {
        Key::Pruned(lsn) => Some(lsn),
        _ => None,
    });
    let start = bucket.identity().map(|identity| identity.start);
    Ok(start.max(lsns.max()).unwrap_or_default())
}

/// Returns the newest owner that has noted itself; `None` before the first one, or if the note is damaged.
pub(crate) async fn newest_owner(bucket: &Bucket) -> Result<Option<Hint>> {
    let Some(bytes) = bucket.read(&Key::Hint, None).await? else {
        return Ok(None);
    };
    Ok(match bucket.codec()?.peek(&Key::Hint, bytes) {
        Ok(Object::Hint(hint)) => Some(hint),
        _ => None,
    })
}

/// Returns the newest epoch that has an owner, or 0.
pub(crate) async fn newest_epoch(bucket: &Bucket) -> Result<Epoch> {
    let hint = newest_owner(bucket).await?;
    let mut epoch = hint.map_or(Epoch(0), |hint| hint.epoch);
    while scan(bucket, epoch).await?.seal.is_some() {
        epoch.0 += 1;
    }
    Ok(epoch)
}
