//! Checking of base copies.

use super::restore::read_part;
use crate::bucket::{Bucket, panicked};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::object::Base;
use std::collections::BTreeSet;
use tokio::task::JoinSet;

/// Parts that are read at once.
const WINDOW: usize = 4;

/// Returns the keys of the parts of a copy: of those that are there, and of as many missing ones and one more. A
/// hostile object of a copy may count any number of parts.
pub(crate) async fn part_keys(bucket: &Bucket, base: &Base) -> Result<Vec<Key>> {
    let prefix = format!("d/{}/", base.id);
    let is_part = |key: &Key| matches!(key, Key::Part { number, .. } if *number < base.parts);
    let there = bucket.list(&prefix, None, is_part).await?;
    let (base, parts) = (base.id, base.parts);
    let listed: BTreeSet<Key> = there.iter().cloned().collect();
    let all = (0..parts).map(|number| Key::Part { base, number });
    let missing = all.filter(|key| !listed.contains(key));
    Ok(missing.take(there.len() + 1).chain(there).collect())
}

/// Reads parts. Returns their bytes of the page file, and the damage.
pub(crate) async fn check_base(
    bucket: &Bucket,
    keys: impl Iterator<Item = Key>,
) -> Result<(u64, Vec<String>)> {
    let (mut bytes, mut damage) = (0, Vec::new());
    let mut open: JoinSet<Result<u64>> = JoinSet::new();
    let mut keys = keys.fuse();
    loop {
        while open.len() < WINDOW
            && let Some(key) = keys.next()
        {
            let bucket = bucket.clone();
            open.spawn(async move { Ok(read_part(&bucket, &key).await?.len() as u64) });
        }
        match open.join_next().await {
            None => return Ok((bytes, damage)),
            Some(read) => match read.map_err(panicked)? {
                Ok(len) => bytes += len,
                Err(Error::Object(error)) => damage.push(error.to_string()),
                Err(error) => return Err(error),
            },
        }
    }
}
