//! Base copies of an archive, and the one that a restore begins with.

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::object::{Base, Object};
use crate::owner::{newest_chunk, start};
use crate::restore::RestoreTo;
use logforce::Lsn;
use logforce::pages::base::is_log_of_page_file;

/// Returns the base copies, by the position that they stand for.
pub(crate) async fn bases(bucket: &Bucket) -> Result<Vec<Base>> {
    let keys = bucket.list("b/", None, |key| matches!(key, Key::Base(_)));
    let mut bases = Vec::new();
    for key in keys.await? {
        // One that was pruned meanwhile is passed over.
        if let Some(bytes) = bucket.read(&key, None).await? {
            let object = bucket.codec()?.peek(&key, bytes);
            if let Object::Base(base) = object.map_err(|reject| reject.of(&key))? {
                bases.push(base);
            }
        }
    }
    bases.sort_by_key(|base| (base.end, base.time));
    Ok(bases)
}

/// Returns true if the archive still has the log that the copy needs. `start` is where the archive begins.
pub(crate) fn is_usable(base: &Base, start: Lsn) -> bool {
    base.first_segment >= start
}

/// Addition to the log that a restore needs.
pub(crate) enum Needs {
    /// Nothing: the archive is of a log.
    Nothing,
    /// A base copy: the archive is of a page file.
    Base(Box<Base>),
}

/// Returns the base copy with which a restore to `to` begins, if the archive is of a page file.
///
/// # Errors
/// [`Error::Invalid`] if it has no copy that is old enough.
pub(crate) async fn needs(bucket: &Bucket, to: &RestoreTo) -> Result<Needs> {
    let start = start(bucket).await?;
    let mut bases = bases(bucket).await?;
    if bases.is_empty() && !is_of_page_file(bucket).await? {
        return Ok(Needs::Nothing);
    }
    bases.retain(|base| is_usable(base, start));
    let fits = |base: &&Base| match to {
        RestoreTo::Lsn(lsn) => base.end <= *lsn,
        RestoreTo::Time(time) => base.time <= *time,
        _ => true,
    };
    if let Some(base) = bases.iter().rev().find(fits) {
        return Ok(Needs::Base(Box::new(*base)));
    }
    Err(Error::Invalid(match bases.first() {
        None => "the archive is of a page file and has no base copy of it, so nothing can be restored: make \
                 one by `logforce archive base`, while the page file is there"
            .to_owned(),
        Some(first) => format!(
            "the oldest base copy of the page file stands for LSN {}: choose a later end",
            first.end
        ),
    }))
}

/// Returns true if the log of the archive is that of a page file. A damaged chunk does not say so: reading the
/// log reports that.
pub(crate) async fn is_of_page_file(bucket: &Bucket) -> Result<bool> {
    let meta = match newest_chunk(bucket).await {
        Err(Error::Object(_) | Error::State(_)) => None,
        newest => newest?.and_then(|stored| stored.meta),
    };
    Ok(meta.is_some_and(|meta| is_log_of_page_file(&meta)))
}
