//! Removal of base copies that no restore needs, and of those that were cut short.

use crate::bucket::{Bucket, panicked};
use crate::error::Result;
use crate::format::PEEK_LEN;
use crate::key::{BaseId, Key};
use crate::object::{Base, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinSet;

/// Objects that are deleted at once.
const WINDOW: usize = 16;
/// Age of the newest part from which on a copy without its last object counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Returns the number of copies that a restore to a time after `time` does not need: those before the newest one
/// that is as old. `bases` are usable, and in order.
pub(crate) fn not_needed(bases: &[Base], time: u64) -> usize {
    let newest = bases.iter().rposition(|base| base.time <= time);
    newest.unwrap_or(0)
}

/// Removes copies. Each becomes invisible first, so that no restore begins with one that has holes.
pub(crate) async fn remove(bucket: &Bucket, bases: &[Base]) -> Result<()> {
    for base in bases {
        delete(bucket, &Key::Base(base.id)).await?;
        let prefix = format!("d/{}/", base.id);
        let parts = bucket.list(&prefix, None, |key| matches!(key, Key::Part { .. }));
        delete_all(bucket, parts.await?).await?;
    }
    Ok(())
}

/// Removes the parts of copies that were cut short a day before `now`. Returns the number of such copies. With
/// `dry_run`, removes nothing.
pub(crate) async fn remove_partial(bucket: &Bucket, now: u64, dry_run: bool) -> Result<u64> {
    let parts = bucket.list("d/", None, |key| matches!(key, Key::Part { .. }));
    let mut copies: BTreeMap<BaseId, Vec<Key>> = BTreeMap::new();
    for key in parts.await? {
        if let Key::Part { base, .. } = key {
            copies.entry(base).or_default().push(key);
        }
    }
    // Listed afterwards: a copy that is completed meanwhile is seen here.
    let bases = bucket.list("b/", None, |key| matches!(key, Key::Base(_)));
    let complete: BTreeSet<Key> = bases.await?.into_iter().collect();
    copies.retain(|base, _| !complete.contains(&Key::Base(*base)));
    let mut removed = 0;
    for keys in copies.into_values() {
        let Some(last) = keys.last() else { continue };
        let Some(bytes) = bucket.read(last, Some(PEEK_LEN)).await? else {
            continue;
        };
        // A damaged one has no time. No restore needs it.
        let made = match bucket.codec()?.peek(last, bytes) {
            Ok(Object::Part(part)) => part.time,
            _ => 0,
        };
        if u128::from(made) + ABANDONED.as_nanos() > u128::from(now) {
            continue;
        }
        removed += 1;
        if !dry_run {
            delete_all(bucket, keys).await?;
        }
    }
    Ok(removed)
}

async fn delete_all(bucket: &Bucket, keys: Vec<Key>) -> Result<()> {
    let mut open: JoinSet<Result<()>> = JoinSet::new();
    for key in keys {
        let bucket = bucket.clone();
        open.spawn(async move { delete(&bucket, &key).await });
        while open.len() >= WINDOW
            && let Some(done) = open.join_next().await
        {
            done.map_err(panicked)??;
        }
    }
    while let Some(done) = open.join_next().await {
        done.map_err(panicked)??;
    }
    Ok(())
}

async fn delete(bucket: &Bucket, key: &Key) -> Result<()> {
    let delete = || bucket.store().delete(key);
    bucket.try_until_known(&key.to_string(), delete).await?;
    Ok(())
}
