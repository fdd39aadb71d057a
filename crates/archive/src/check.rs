//! Verification of an archive: all of it, or a sample.

use crate::archive::{Archive, runtime};
use crate::base::{check_base, part_keys};
use crate::bucket::{Bucket, blocking, panicked};
use crate::copier::Progress;
use crate::error::{Error, Result};
use crate::format::{Reject, random_nonce};
use crate::key::Key;
use crate::object::{Base, Object};
use crate::owner::start;
use crate::protocol::{self, Listing, Reading};
use crate::reader::{LogReader, ReadPart};
use crate::store::Answer;
use logforce::Lsn;
use logforce::replica::ChunkChain;
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::JoinSet;

/// Objects that are read at once.
const WINDOW: usize = 8;

/// Result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Number of chunks, seals, segments and parts of base copies that were read.
    pub objects: u64,
    /// Bytes of log in them, and of pages.
    pub bytes: u64,
    /// Exclusive end of the log that was checked as a whole; `None` after a sample.
    pub end: Option<Lsn>,
    /// Damage, each with the name of the object or the position.
    pub damage: Vec<String>,
}

impl Archive {
    /// Reads the whole archive, and checks each object and each batch of the log in it. With `sample`, reads
    /// only that share of the objects, 0 to 1, chosen by chance but at least one, and checks each for itself;
    /// the progress then counts objects.
    ///
    /// # Errors
    /// Errors of the store. Damage is not an error here: see [`Verified::damage`].
    pub fn verify(
        &self,
        sample: Option<f64>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Verified> {
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            let mut verified = match sample {
                Some(share) => {
                    let keys = log_keys(&bucket).await?;
                    check_objects(&bucket, chosen(keys, share)?, progress)
                        .await?
                        .0
                }
                None => check_all(&bucket, progress).await?,
            };
            let share = sample.unwrap_or(1.0);
            for base in check_notes(&bucket, share, &mut verified).await? {
                let keys = chosen(part_keys(&bucket, &base).await?, share)?;
                let objects = keys.len() as u64;
                let (bytes, damage) = check_base(&bucket, keys.into_iter()).await?;
                verified.objects += objects - damage.len() as u64;
                verified.bytes += bytes;
                verified.damage.extend(damage);
            }
            Ok(verified)
        })
    }
}

/// Reads the log, and for itself each object that it was not read from: all of them if the log is damaged.
async fn check_all(bucket: &Bucket, progress: &mut dyn FnMut(Progress)) -> Result<Verified> {
    let mut read = BTreeSet::new();
    let first = match check_log(bucket, &mut read, progress).await {
        Ok(mut verified) => {
            // A segment beside its chunks becomes the only copy when they are removed.
            let mut keys = log_keys(bucket).await?;
            keys.retain(|key| !read.contains(key));
            let (beside, _) = check_objects(bucket, keys, &mut |_| {}).await?;
            verified.objects += beside.objects;
            verified.bytes += beside.bytes;
            verified.damage = beside.damage;
            return Ok(verified);
        }
        Err(error @ (Error::Object(_) | Error::State(_) | Error::Log(_))) => error,
        Err(error) => return Err(error),
    };
    // The first damage ends the log: the others are found object by object.
    let (mut verified, found) = check_objects(bucket, log_keys(bucket).await?, progress).await?;
    let mut gaps = gaps(start(bucket).await?, &found);
    let is_named = match &first {
        Error::State(protocol::Error::Gap {
            lsn,
            key: Some(key),
        }) => {
            gaps.retain(|(from, _)| from != lsn);
            matches!(found.get(key), Some(Found::Damaged { .. }))
        }
        Error::State(protocol::Error::Gap { key: None, .. }) => !gaps.is_empty(),
        error => verified.damage.contains(&error.to_string()),
    };
    if !is_named {
        verified.damage.insert(0, first.to_string());
    }
    let named = gaps.iter().map(|(from, to)| {
        format!("the archive has a gap from LSN {from} to {to}: no chunk or segment holds it")
    });
    verified.damage.extend(named);
    Ok(verified)
}

/// Reads the log from the start on, and checks that it is one. Notes in `read` the objects that it is in.
async fn check_log(
    bucket: &Bucket,
    read: &mut BTreeSet<Key>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Verified> {
    let mut reader = LogReader::new(bucket, Reading::new(None, WINDOW));
    let mut chain = ChunkChain::new();
    let mut verified = Verified::default();
    let mut from = None;
    while let Some(part) = reader.next().await? {
        let piece = match part {
            ReadPart::Start(_) => {
                (chain, from) = (ChunkChain::new(), None);
                continue;
            }
            ReadPart::Piece(key, piece) => {
                read.insert(key);
                piece
            }
        };
        verified.objects += 1;
        verified.bytes += piece.log.len() as u64;
        let from = *from.get_or_insert(piece.from);
        let goal = reader.goal().unwrap_or(piece.to).max(piece.to);
        let at = piece.to;
        if !piece.log.is_empty() {
            let check = move || {
                let added = chain.add(piece.from, &piece.log, &piece.control);
                (chain, added)
            };
            let (checked, added) = blocking(check).await?;
            chain = checked;
            added?;
        }
        progress(Progress { from, at, goal });
    }
    verified.end = chain.position();
    Ok(verified)
}

/// Reads the objects beside the log: marks, floors, records of pruning, the hint, and base copies. Returns the
/// base copies.
async fn check_notes(bucket: &Bucket, share: f64, verified: &mut Verified) -> Result<Vec<Base>> {
    let mut keys = vec![Key::Hint];
    for prefix in ["m/", "f/", "p/"] {
        keys.extend(bucket.list(prefix, None, |_| true).await?);
    }
    let mut keys = chosen(keys, share)?;
    keys.extend(bucket.list("b/", None, |_| true).await?);
    let mut bases = Vec::new();
    for key in keys {
        let Some(bytes) = bucket.read(&key, None).await? else {
            continue;
        };
        match bucket.codec()?.peek(&key, bytes) {
            Ok(Object::Base(base)) => bases.push(base),
            Ok(_) => {}
            Err(reject) => verified.damage.push(match (reject.of(&key).to_string(), key) {
                (why, Key::Hint) => {
                    format!("{why}; nothing depends on it, and the next `logforce archive run` replaces it")
                }
                (why, _) => why,
            }),
        }
    }
    Ok(bases)
}

/// Returns one key and a share of the others, chosen by chance. A sample of nothing would always be healthy.
fn chosen(mut keys: Vec<Key>, share: f64) -> Result<Vec<Key>> {
    if share >= 1.0 || keys.is_empty() {
        return Ok(keys);
    }
    let one = keys.swap_remove((random_nonce()?.0 % keys.len() as u128) as usize);
    let limit = (share.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
    let mut chosen = vec![one];
    for key in keys {
        if random_nonce()?.0 as u64 <= limit {
            chosen.push(key);
        }
    }
    Ok(chosen)
}

/// Chunk, seal or segment as it was found, with its part of the log, if that is known and there is one.
enum Found {
    /// It was deleted since it was listed.
    Gone,
    Whole(u64, Option<(Lsn, Lsn)>),
    Damaged(String, Option<(Lsn, Lsn)>),
}

/// Lists chunks, seals and segments.
async fn log_keys(bucket: &Bucket) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    for prefix in ["s/", "e/"] {
        let is_part = |key: &Key| matches!(key, Key::Segment { .. } | Key::Place { .. });
        keys.extend(bucket.list(prefix, None, is_part).await?);
    }
    Ok(keys)
}

/// Reads chunks, seals and segments, each for itself.
async fn check_objects(
    bucket: &Bucket,
    keys: Vec<Key>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Verified, BTreeMap<Key, Found>)> {
    let mut verified = Verified::default();
    let (from, mut at, goal) = (Lsn(0), Lsn(0), Lsn(keys.len() as u64));
    let mut open: JoinSet<Result<(Key, Found)>> = JoinSet::new();
    let mut keys = keys.into_iter();
    let mut all = BTreeMap::new();
    loop {
        while open.len() < WINDOW
            && let Some(key) = keys.next()
        {
            let bucket = bucket.clone();
            open.spawn(async move { Ok((key.clone(), check_object(&bucket, &key).await?)) });
        }
        let Some(checked) = open.join_next().await else {
            let damage = all.values().filter_map(|found| match found {
                Found::Damaged(why, _) => Some(why.clone()),
                _ => None,
            });
            verified.damage = damage.collect();
            return Ok((verified, all));
        };
        let (key, found) = checked.map_err(panicked)??;
        match &found {
            Found::Gone => verified.objects += 1,
            Found::Whole(bytes, _) => {
                verified.objects += 1;
                verified.bytes += bytes;
            }
            Found::Damaged(..) => {}
        }
        all.insert(key, found);
        at = at.plus(1);
        progress(Progress { from, at, goal });
    }
}

async fn check_object(bucket: &Bucket, key: &Key) -> Result<Found> {
    let bytes = match bucket.store().get(key).await {
        Answer::Done(bytes) => Some(bytes),
        Answer::Missing => None,
        _ => bucket.read(key, None).await?,
    };
    let range = match *key {
        Key::Segment { from, to } => Some((from, to)),
        _ => None,
    };
    let Some(bytes) = bytes else {
        let listing = match *key {
            Key::Place { epoch, place } => Listing::Places {
                epoch,
                from: place,
                to: place.saturating_add(1),
            },
            _ => Listing::Segments(range.map_or(Lsn(0), |(from, _)| from)),
        };
        let (prefix, after) = (listing.prefix(), listing.after());
        let is_wanted = |key: &Key| listing.contains(key);
        let there = bucket.list(&prefix, after.as_deref(), is_wanted);
        return Ok(match there.await?.contains(key) {
            true => Found::Damaged(
                format!(
                    "object {key} is listed and cannot be read: put it back from a copy of the archive"
                ),
                range,
            ),
            false => Found::Gone,
        });
    };
    let (codec, name) = (bucket.codec()?.clone(), key.clone());
    blocking(move || {
        // Its header may be whole.
        let range = match codec.peek(&name, bytes.clone()) {
            Ok(Object::Chunk(chunk)) => Some((chunk.from, chunk.to)),
            _ => range,
        };
        match codec.decode(&name, bytes.clone()) {
            Ok((_, stored)) => Found::Whole(stored.log.len() as u64, range),
            Err(Reject::NoLog) => match codec.peek(&name, bytes) {
                Ok(_) => Found::Whole(0, range),
                Err(reject) => Found::Damaged(reject.of(&name).to_string(), range),
            },
            Err(reject) => Found::Damaged(reject.of(&name).to_string(), range),
        }
    })
    .await
}

/// Returns the parts of the log, from `start` on, that are in no object, damaged ones included.
fn gaps(start: Lsn, found: &BTreeMap<Key, Found>) -> Vec<(Lsn, Lsn)> {
    let mut ranges = Vec::new();
    // A chunk with a lost header lies between its neighbours.
    let mut lost_from = None;
    let mut end = start;
    for (key, found) in found {
        match (key, found) {
            (_, Found::Gone) => {}
            (Key::Place { .. }, Found::Whole(_, Some(range)) | Found::Damaged(_, Some(range))) => {
                ranges.extend(lost_from.take().map(|from| (from, range.0)));
                ranges.push(*range);
                end = range.1;
            }
            (Key::Place { .. }, Found::Damaged(_, None)) => lost_from = lost_from.or(Some(end)),
            (_, Found::Whole(_, range) | Found::Damaged(_, range)) => ranges.extend(*range),
        }
    }
    ranges.sort_unstable();
    let mut gaps = Vec::new();
    let mut at = start;
    for (from, to) in ranges {
        if from > at {
            gaps.push((at, from));
        }
        at = at.max(to);
    }
    gaps
}
