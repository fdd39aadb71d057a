//! Checking of base copies.

use super::restore::read_part;
use crate::bucket::{Bucket, panicked};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::object::Base;
use tokio::task::JoinSet;

/// Parts that are read at once.
const WINDOW: usize = 4;

/// Returns the keys of the parts of a copy.
pub(crate) fn part_keys(base: &Base) -> impl Iterator<Item = Key> {
    let (base, parts) = (base.id, base.parts);
    (0..parts).map(move |number| Key::Part { base, number })
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
