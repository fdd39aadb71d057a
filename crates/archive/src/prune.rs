//! Pruning: deleting what no wanted restore needs.

use crate::archive::{Archive, runtime};
use crate::base::{bases, is_of_page_file, is_usable, not_needed, remove, remove_partial};
use crate::bucket::Bucket;
use crate::ends::{last_before, stored_log};
use crate::error::{Error, Result};
use crate::level::first_segment;
use crate::object::Base;
use crate::owner::{newest_chunk, start};
use crate::protocol::Removal;
use logforce::Lsn;

/// Result of pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Pruned {
    /// Position below which nothing can be restored from now on.
    pub start: Lsn,
    /// Base copies that were deleted.
    pub bases: u64,
    /// Base copies that were cut short, and whose parts were deleted.
    pub partial: u64,
}

impl Archive {
    /// Deletes what no restore to a time after `time` needs, Unix time in ns. With `dry_run`, deletes nothing.
    ///
    /// Only whole segments below the archived front go: what the newest state of the log needs stays. In the
    /// archive of a page file, the newest base copy that is as old stays, with the log that it needs, and all
    /// later ones.
    pub fn prune(&self, time: u64, dry_run: bool) -> Result<Pruned> {
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            let start = start(&bucket).await?;
            let bases = bases(&bucket).await?;
            if !bases.is_empty() || is_of_page_file(&bucket).await? {
                let (usable, gone) = by_use(bases, start);
                let older = not_needed(&usable, time);
                return prune_bases(&bucket, usable, older, gone, start, dry_run).await;
            }
            let Some(newest) = newest_chunk(&bucket).await? else {
                return Ok(Pruned {
                    start,
                    ..Pruned::default()
                });
            };
            let newest = first_segment(&newest.control)?;
            // A restore to the time needs the log from the front on that it had in the segment before.
            let to = match last_before(&bucket, time).await? {
                Some((_, _, before)) => {
                    first_segment(&stored_log(&bucket, &before).await?.control)?
                }
                None => start,
            };
            let start = cut(&bucket, start, to.min(newest), dry_run).await?;
            Ok(Pruned {
                start,
                ..Pruned::default()
            })
        })
    }

    /// Deletes all base copies but the newest `count` whose log the archive has, and the log that no later restore
    /// needs then. With `dry_run`, deletes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the archive has no base copy, or `count` is 0.
    pub fn keep_bases(&self, count: usize, dry_run: bool) -> Result<Pruned> {
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            let start = start(&bucket).await?;
            let bases = bases(&bucket).await?;
            let (usable, gone) = by_use(bases, start);
            if count == 0 || usable.is_empty() {
                return Err(Error::Invalid(
                    "without a base copy nothing can be restored: keep at least one, and make it by `logforce \
                     archive base`"
                        .to_owned(),
                ));
            }
            let older = usable.len().saturating_sub(count);
            prune_bases(&bucket, usable, older, gone, start, dry_run).await
        })
    }
}

/// Separates the copies whose log the archive still has from the others, which no restore can use.
fn by_use(bases: Vec<Base>, start: Lsn) -> (Vec<Base>, Vec<Base>) {
    bases.into_iter().partition(|base| is_usable(base, start))
}

/// Deletes the copies `gone`, the first `older` of the usable ones, and what those that stay do not need.
async fn prune_bases(
    bucket: &Bucket,
    mut usable: Vec<Base>,
    older: usize,
    mut gone: Vec<Base>,
    start: Lsn,
    dry_run: bool,
) -> Result<Pruned> {
    let stay = usable.split_off(older);
    gone.append(&mut usable);
    let needed = stay.iter().map(|base| base.first_segment).min();
    if !dry_run {
        remove(bucket, &gone).await?;
    }
    let newest = newest_chunk(bucket).await?;
    let newest = newest.map(|stored| first_segment(&stored.control));
    let to = match (needed, newest.transpose()?) {
        (Some(needed), Some(newest)) => needed.min(newest),
        // Without a copy the next one decides.
        _ => start,
    };
    Ok(Pruned {
        start: cut(bucket, start, to, dry_run).await?,
        bases: gone.len() as u64,
        partial: remove_partial(bucket, bucket.now(), dry_run).await?,
    })
}

/// Deletes the segments below `to`. Returns where the archive begins then.
async fn cut(bucket: &Bucket, start: Lsn, to: Lsn, dry_run: bool) -> Result<Lsn> {
    if to <= start || dry_run {
        return Ok(to.max(start));
    }
    let mut removal = Removal::prune(to);
    bucket.run(&mut removal).await?;
    match removal.outcome() {
        Some(Err(error)) => Err(error.clone().into()),
        _ => Ok(to),
    }
}
